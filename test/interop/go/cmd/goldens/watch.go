package main

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/kubernetes/pkg/apis/core"
)

const partialAccept = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// watchVectors holds whole frames: a JSON line with its newline, and a protobuf
// frame with its length in front.
func watchVectors() []vector {
	var out []vector
	for _, a := range bothAPIs {
		for _, c := range watchSamples() {
			v := named(a.name+"-"+c.name).with("api", a.name).with("type", string(c.event.Type))
			if e, ok := c.event.Object.(*core.Event); ok {
				v = v.text("core_json", coreAPI.encode(jsonType, e))
			} else {
				v = v.text("status_json", coreAPI.encode(jsonType, c.event.Object))
			}
			v = v.text("json_frame", a.watch("", jsonType, c.event).body)
			v = v.binary("pb_frame", a.watch("", protobufType+";stream=watch", c.event).body)
			if _, ok := c.event.Object.(*core.Event); ok {
				v = v.text("partial_json_frame", a.watch("", jsonType+partialAccept, c.event).body)
			}
			out = append(out, v)
		}
	}
	return append(out, watchedTables()...)
}

type watchSample struct {
	name  string
	event watch.Event
}

func watchSamples() []watchSample {
	full := must1(coreAPI.decode([]byte(fullCore)))
	common := must1(coreAPI.decode([]byte(ordinary)))
	odd := must1(coreAPI.decode([]byte(coreEvent(`"metadata":{"name":"a"},"message":"line\nbreak <&> \u2028"`))))
	bookmark := func(annotations map[string]string) *core.Event {
		return &core.Event{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "42", Annotations: annotations}}
	}
	status := func(err error) runtime.Object {
		var s apierrors.APIStatus
		if !errors.As(err, &s) {
			panic(err)
		}
		out := s.Status()
		return &out
	}
	return []watchSample{
		{"added", watch.Event{Type: watch.Added, Object: common}},
		{"modified", watch.Event{Type: watch.Modified, Object: full}},
		{"deleted", watch.Event{Type: watch.Deleted, Object: common}},
		{"added-empty", watch.Event{Type: watch.Added, Object: &core.Event{}}},
		{"added-odd-text", watch.Event{Type: watch.Added, Object: odd}},
		{"bookmark", watch.Event{Type: watch.Bookmark, Object: bookmark(nil)}},
		{"bookmark-that-ends-the-initial-events", watch.Event{Type: watch.Bookmark, Object: bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})}},
		{"error-expired", watch.Event{Type: watch.Error, Object: status(apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old."))}},
		{"error-gone", watch.Event{Type: watch.Error, Object: status(apierrors.NewGone("too old resource version: 1 (5)"))}},
		{"error-internal", watch.Event{Type: watch.Error, Object: status(apierrors.NewInternalError(errors.New("boom")))}},
		{"error-too-many-requests", watch.Event{Type: watch.Error, Object: status(apierrors.NewTooManyRequests("slow down", 3))}},
	}
}

// watchedTables shows that only the first Table of a watch names its columns.
func watchedTables() []vector {
	first := &core.Event{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}, Message: "m"}
	second := &core.Event{ObjectMeta: metav1.ObjectMeta{Name: "b", ResourceVersion: "2"}}
	end := &core.Event{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "3", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	var out []vector
	for _, a := range bothAPIs {
		for _, include := range []string{"Metadata", "Object", "None"} {
			r := a.watch("includeObject="+include, jsonType+tableAccept, watch.Event{Type: watch.Added, Object: first}, watch.Event{Type: watch.Modified, Object: second}, watch.Event{Type: watch.Bookmark, Object: end})
			out = append(out, named(a.name+"-table-"+include).with("api", a.name).with("include_object", include).
				with("frames", strings.SplitAfter(strings.TrimSuffix(string(r.body), "\n"), "\n")))
		}
	}
	return out
}
