package main

import (
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/apis/core"
)

// listVectors has two halves: "write" is what the server's list handler sends,
// "read" is what client-go's decoder makes of list bodies.
func listVectors() []vector {
	var out []vector
	for _, l := range listSamples() {
		for _, a := range bothAPIs {
			v := named("write-"+a.name+"-"+l.name).with("direction", "write").with("api", a.name)
			v = v.with("metadata", l.list.ListMeta)
			var items []string
			for i := range l.list.Items {
				items = append(items, string(coreAPI.encode(jsonType, &l.list.Items[i])))
			}
			v = v.with("items", append([]string{}, items...))
			v = v.text("json", a.list("", jsonType, l.list).body)
			v = v.binary("pb", a.list("", protobufType, l.list).body)
			out = append(out, v)
		}
	}
	for _, c := range listBodies() {
		out = append(out, readList(c))
	}
	return out
}

type listSample struct {
	name string
	list *core.EventList
}

func listSamples() []listSample {
	parse := func(texts ...string) []core.Event {
		var items []core.Event
		for _, t := range texts {
			a := coreAPI
			if t == fullEvents {
				a = eventsAPI
			}
			items = append(items, *must1(a.decode([]byte(t))))
		}
		return items
	}
	remaining := func(n int64) *int64 { return &n }
	three := parse(ordinary, fullEvents, `{}`)
	return []listSample{
		{"empty", &core.EventList{}},
		{"empty-with-resource-version", &core.EventList{ListMeta: metav1.ListMeta{ResourceVersion: "42"}}},
		{"one-item", &core.EventList{ListMeta: metav1.ListMeta{ResourceVersion: "42"}, Items: parse(ordinary)}},
		{"three-items", &core.EventList{ListMeta: metav1.ListMeta{ResourceVersion: "43"}, Items: three}},
		{"page-with-continue-and-remaining", &core.EventList{ListMeta: metav1.ListMeta{ResourceVersion: "44", Continue: "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NDQsInN0YXJ0IjoiYVx1MDAwMCJ9", RemainingItemCount: remaining(997)}, Items: three}},
		{"page-with-continue-only", &core.EventList{ListMeta: metav1.ListMeta{ResourceVersion: "45", Continue: "token<&>"}, Items: parse(ordinary)}},
		{"nothing-remaining", &core.EventList{ListMeta: metav1.ListMeta{ResourceVersion: "46", RemainingItemCount: remaining(0)}, Items: parse(ordinary)}},
		{"self-link-and-odd-text", &core.EventList{ListMeta: metav1.ListMeta{SelfLink: "/x", ResourceVersion: "\u2028"}, Items: parse(coreEvent(`"metadata":{"name":"a"},"message":"<&>"`))}},
	}
}

type listBody struct {
	name string
	api  *api
	body []byte
	pb   bool
}

// readList decodes as a typed client does: into the list type of its API.
func readList(c listBody) vector {
	v := named("read-"+c.api.name+"-"+c.name).with("direction", "read").with("api", c.api.name)
	if c.pb {
		v = v.with("input_b64", base64.StdEncoding.EncodeToString(c.body)).with("format", "protobuf")
	} else {
		v = v.text("input", c.body).with("format", "json")
	}
	var into runtime.Object = &corev1.EventList{}
	if c.api == eventsAPI {
		into = &eventsv1.EventList{}
	}
	mediaType := jsonType
	if c.pb {
		mediaType = protobufType
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	// The REST client decodes with the versions left as they arrive.
	decoder := scheme.Codecs.WithoutConversion().DecoderToVersion(info.Serializer, c.api.scope.Kind.GroupVersion())
	obj, _, err := decoder.Decode(c.body, nil, into)
	if err == nil && obj != into {
		return v.with("ok", false).with("error", fmt.Sprintf("a %T arrived instead", obj))
	}
	if err != nil {
		return v.with("ok", false).with("error", err.Error())
	}
	return v.with("ok", true).text("json", c.api.encode(jsonType, into))
}

func listBodies() []listBody {
	var out []listBody
	add := func(a *api, name, body string) { out = append(out, listBody{name, a, []byte(body), false}) }
	list := func(members string) string { return `{"kind":"EventList","apiVersion":"v1",` + members + `}` }

	for _, c := range []struct{ name, body string }{
		{"no-items-member", `{"kind":"EventList","apiVersion":"v1","metadata":{"resourceVersion":"1"}}`},
		{"null-items", list(`"items":null`)}, {"empty-items", list(`"items":[]`)}, {"null-item", list(`"items":[null,{"metadata":{"name":"b"}}]`)},
		{"items-with-kinds", list(`"items":[` + ordinary + `]`)}, {"items-of-another-kind", list(`"items":[{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}]`)},
		{"one-bad-item", list(`"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"},"count":"x"}]`)}, {"items-not-a-list", list(`"items":{}`)}, {"item-not-an-object", list(`"items":["x"]`)},
		{"bad-time-in-an-item", list(`"items":[{"eventTime":"2024-01-01T00:00:00Z"}]`)}, {"remaining-item-count", list(`"metadata":{"continue":"c","remainingItemCount":5,"resourceVersion":"1"},"items":[]`)}, {"remaining-item-count-null", list(`"metadata":{"remainingItemCount":null},"items":[]`)}, {"remaining-item-count-not-a-number", list(`"metadata":{"remainingItemCount":"5"},"items":[]`)},
		{"resource-version-a-number", list(`"metadata":{"resourceVersion":5},"items":[]`)}, {"unknown-members", list(`"foo":1,"metadata":{"bar":2},"items":[{"baz":3}]`)}, {"items-twice", list(`"items":[{"reason":"a"},{"reason":"b"}],"items":[{"type":"c"}]`)}, {"items-before-kind", `{"items":[{"metadata":{"name":"a"}}],"kind":"EventList","apiVersion":"v1"}`},
		{"cut-in-an-item", `{"kind":"EventList","apiVersion":"v1","items":[{"metadata":{"name":"a"}`}, {"no-kind", `{"metadata":{},"items":[]}`}, {"a-single-event", ordinary}, {"a-status", `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"Expired","code":410}`}, {"unknown-kind", `{"kind":"FooList","apiVersion":"v1","items":[]}`}, {"empty-body", ``}, {"items-upper-case", list(`"Items":[{}]`)},
	} {
		add(coreAPI, c.name, c.body)
	}
	add(eventsAPI, "two-items", `{"kind":"EventList","apiVersion":"events.k8s.io/v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"},"note":"x","eventTime":null},{"metadata":{"name":"b"},"deprecatedCount":3}]}`)
	add(eventsAPI, "null-items", `{"kind":"EventList","apiVersion":"events.k8s.io/v1","items":null}`)
	add(eventsAPI, "a-core-list", `{"kind":"EventList","apiVersion":"v1","items":[{"message":"x"}]}`)

	pb := func(a *api, name string, data []byte) { out = append(out, listBody{"protobuf-" + name, a, data, true}) }
	item := bytesField(2, bytesField(1, stringField(1, "a")))
	pb(coreAPI, "empty", envelope("v1", "EventList"))
	pb(coreAPI, "two-items", envelope("v1", "EventList", bytesField(1, stringField(2, "9"), stringField(3, "c"), varintField(4, 5)), item, item))
	pb(coreAPI, "items-before-metadata", envelope("v1", "EventList", item, bytesField(1, stringField(2, "9")), item))
	pb(coreAPI, "unknown-field", envelope("v1", "EventList", item, stringField(9, "x")))
	pb(coreAPI, "cut-item", envelope("v1", "EventList", []byte{0x12, 9, 1}))
	pb(coreAPI, "item-as-varint", envelope("v1", "EventList", varintField(2, 1)))
	pb(coreAPI, "a-status", envelope("v1", "Status", stringField(2, "Failure")))
	pb(eventsAPI, "two-items", envelope("events.k8s.io/v1", "EventList", bytesField(1, stringField(2, "9")), item, item))
	return out
}
