package main

import (
	"fmt"
	"strings"
)

// A sample is an event in one of the spellings.
type sample struct {
	name  string
	api   *api
	input recipe
}

// encodeVectors shows what is written: each sample, in both spellings and both
// formats, whichever spelling it arrived in.
func encodeVectors() []vector {
	var out []vector
	for _, s := range encodeSamples() {
		event, err := s.api.decode(s.input.bytes())
		if err != nil {
			panic(fmt.Sprintf("%s: %v", s.name, err))
		}
		v := named(s.name).with("api", s.api.name).input("input", s.input)
		v = v.text("core_json", coreAPI.encode(jsonType, event))
		v = v.text("events_json", eventsAPI.encode(jsonType, event))
		v = v.binary("core_pb", coreAPI.encode(protobufType, event))
		v = v.binary("events_pb", eventsAPI.encode(protobufType, event))
		out = append(out, v)
	}
	return out
}

// coreEvent and regardingEvent wrap members into an event of each spelling.
func coreEvent(members string) string {
	return `{"kind":"Event","apiVersion":"v1",` + members + `}`
}

func regardingEvent(members string) string {
	return `{"kind":"Event","apiVersion":"events.k8s.io/v1",` + members + `}`
}

// ordinary is what a kubelet writes all day long, and what the benchmarks use.
const ordinary = `{"kind":"Event","apiVersion":"v1","metadata":{"name":"web-0.18e84d8123e3aa33","namespace":"default","creationTimestamp":null},"involvedObject":{"kind":"Pod","namespace":"default","name":"web-0","uid":"ce611c62-6c1a-4bd8-9029-136a1adf7de4","apiVersion":"v1","resourceVersion":"429837"},"reason":"Started","message":"Started container web","source":{"component":"kubelet","host":"node-1"},"firstTimestamp":"2026-11-15T19:00:00Z","lastTimestamp":"2026-11-15T19:00:00Z","count":1,"type":"Normal","eventTime":null,"reportingComponent":"kubelet","reportingInstance":"node-1"}`

// fullMeta sets every field of ObjectMeta and of the types inside it.
const fullMeta = `"metadata":{"name":"full.1","generateName":"full.","namespace":"default","selfLink":"/api/v1/namespaces/default/events/full.1","uid":"0b7d1c9e-51a6-4f0a-8d8e-0d8c2a4f0001","resourceVersion":"987654321","generation":7,"creationTimestamp":"2024-02-29T12:34:56Z","deletionTimestamp":"2024-03-01T00:00:00Z","deletionGracePeriodSeconds":30,"labels":{"zone":"b","app":"web","app.kubernetes.io/name":"web"},"annotations":{"note":"first\nsecond","empty":""},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"uid-1","controller":true,"blockOwnerDeletion":true},{"apiVersion":"batch/v1","kind":"Job","name":"nightly","uid":"uid-2","controller":false,"blockOwnerDeletion":false},{"apiVersion":"v1","kind":"Node","name":"n","uid":"uid-3"}],"finalizers":["example.com/b","example.com/a"],"managedFields":[{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2024-02-29T12:34:56Z","fieldsType":"FieldsV1","fieldsV1":{"f:count":{},"f:involvedObject":{}},"subresource":"status"},{"manager":"kubectl","operation":"Apply","apiVersion":"events.k8s.io/v1","time":"2024-02-29T12:34:57Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}}}}]}`

const fullReference = `{"kind":"Pod","namespace":"default","name":"web-0","uid":"uid-web-0","apiVersion":"v1","resourceVersion":"17","fieldPath":"spec.containers{web}"}`

const fullRelated = `{"kind":"Node","namespace":"","name":"node-1","uid":"uid-node-1","apiVersion":"v1","resourceVersion":"18","fieldPath":"status"}`

var fullCore = coreEvent(fullMeta + `,"involvedObject":` + fullReference + `,"reason":"Scheduled","message":"assigned web-0 to node-1","source":{"component":"scheduler","host":"master-0"},"firstTimestamp":"2024-02-29T12:34:56Z","lastTimestamp":"2024-02-29T12:44:56Z","count":3,"type":"Normal","eventTime":"2024-02-29T12:34:56.123456Z","series":{"count":5,"lastObservedTime":"2024-02-29T12:40:00.000001Z"},"action":"Binding","related":` + fullRelated + `,"reportingComponent":"example.com/scheduler","reportingInstance":"scheduler-0"`)

var fullEvents = regardingEvent(fullMeta + `,"eventTime":"2024-02-29T12:34:56.123456Z","series":{"count":5,"lastObservedTime":"2024-02-29T12:40:00.000001Z"},"reportingController":"example.com/scheduler","reportingInstance":"scheduler-0","action":"Binding","reason":"Scheduled","regarding":` + fullReference + `,"related":` + fullRelated + `,"note":"assigned web-0 to node-1","type":"Normal","deprecatedSource":{"component":"scheduler","host":"master-0"},"deprecatedFirstTimestamp":"2024-02-29T12:34:56Z","deprecatedLastTimestamp":"2024-02-29T12:44:56Z","deprecatedCount":3`)

func encodeSamples() []sample {
	var out []sample
	add := func(name string, a *api, input recipe) { out = append(out, sample{name, a, input}) }
	core := func(name, members string) { add(name, coreAPI, lit(coreEvent(members))) }
	events := func(name, members string) { add("events-"+name, eventsAPI, lit(regardingEvent(members))) }

	add("nothing-but-braces", coreAPI, lit(`{}`))
	add("events-nothing-but-braces", eventsAPI, lit(`{}`))
	add("kind-and-version-only", coreAPI, lit(`{"kind":"Event","apiVersion":"v1"}`))
	add("events-kind-and-version-only", eventsAPI, lit(`{"kind":"Event","apiVersion":"events.k8s.io/v1"}`))
	core("name-only", `"metadata":{"name":"a"}`)
	events("name-only", `"metadata":{"name":"a"}`)
	add("ordinary-kubelet-event", coreAPI, lit(ordinary))
	add("every-field-set", coreAPI, lit(fullCore))
	add("events-every-field-set", eventsAPI, lit(fullEvents))
	add("members-in-another-order-with-white-space", coreAPI, lit("{ \"count\" : 2 ,\n\t\"metadata\" : { \"namespace\" : \"x\" , \"name\" : \"a\" } , \"apiVersion\" : \"v1\" ,\r\n \"kind\" : \"Event\" }"))
	add("as-the-scheduler-writes-it", eventsAPI, lit(regardingEvent(`"metadata":{"name":"web-0.17","namespace":"default"},"eventTime":"2026-11-15T19:00:00.000042Z","reportingController":"default-scheduler","reportingInstance":"default-scheduler-node-1","action":"Scheduling","reason":"FailedScheduling","regarding":{"kind":"Pod","namespace":"default","name":"web-0","uid":"u","apiVersion":"v1","resourceVersion":"5"},"note":"0/3 nodes are available","type":"Warning"`)))

	// Strings: what JSON escapes, and what protobuf leaves alone.
	for _, c := range []struct{ name, text string }{
		{"html-characters", `<a href=\"x\">&amp;</a>`},
		{"line-and-paragraph-separators", "a\u2028b\u2029c"},
		{"separators-given-as-escapes", `a\u2028b\u2029c`},
		{"quotes-and-backslashes", `\"\\\/`},
		{"short-escapes", `\b\f\n\r\t`},
		{"all-control-characters", `\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\u0008\u0009\u000a\u000b\u000c\u000d\u000e\u000f\u0010\u0011\u0012\u0013\u0014\u0015\u0016\u0017\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f`},
		{"nul-by-escape", `a\u0000b`},
		{"delete-and-c1-controls", "\x7f\u0080\u009f"},
		{"two-byte-letters", "äöüß Ωμέγα Привет"},
		{"three-byte-letters", "日本語 한국어 ไทย"},
		{"four-byte-letters", "😀𝒳𠜎"},
		{"surrogate-pair-escapes", `\ud83d\ude00\uD835\uDCB3`},
		{"combining-and-joined", "e\u0301 👩‍👩‍👧 \u202eabc"},
		{"lone-high-surrogate", `a\ud83db`},
		{"lone-low-surrogate", `a\ude00b`},
		{"two-high-surrogates", `\ud83d\ud83d\ude00`},
		{"surrogates-the-wrong-way-round", `\ude00\ud83d`},
		{"high-surrogate-at-the-end", `a\ud83d`},
		{"high-surrogate-then-another-escape", `\ud83d\n`},
		{"high-surrogate-then-an-ordinary-escape", `\ud83d\u0041`},
		{"byte-order-mark-inside", "\ufeffa"},
		{"noncharacters", "\ufffe\uffff\U0010ffff\U0001fffe"},
		{"replacement-character", "\ufffd"},
		{"upper-case-hex-escapes", `\u00AB\u00e9`},
	} {
		core("text-"+c.name, `"metadata":{"name":"a","labels":{"`+c.text+`":"`+c.text+`"}},"message":"`+c.text+`"`)
	}
	events("text-html-characters", `"metadata":{"name":"a"},"note":"<&>`+"\u2028"+`"`)
	for _, c := range []struct{ name, bytes string }{
		{"stray-continuation", "a\x80b"},
		{"truncated-two-byte", "a\xc3"},
		{"truncated-three-byte", "a\xe2\x82b"},
		{"truncated-four-byte", "a\xf0\x9f\x98"},
		{"overlong-slash", "\xc0\xaf"},
		{"overlong-nul", "\xc0\x80"},
		{"encoded-surrogate", "\xed\xa0\x80"},
		{"beyond-unicode", "\xf4\x90\x80\x80"},
		{"latin-1", "\xe9t\xe9"},
		{"all-bad-bytes", "\xfe\xff"},
	} {
		core("invalid-utf8-"+c.name, `"metadata":{"name":"a"},"message":"`+c.bytes+`"`)
	}
	core("invalid-utf8-in-map-keys-and-values", "\"metadata\":{\"name\":\"a\",\"labels\":{\"k\xff\":\"v\xfe\"},\"annotations\":{\"\xc3\":\"1\"}}")
	core("invalid-utf8-keys-that-become-equal", "\"metadata\":{\"name\":\"a\",\"labels\":{\"k\xff\":\"1\",\"k\xfe\":\"2\"}}")
	core("invalid-utf8-in-lists-and-references", "\"metadata\":{\"name\":\"a\",\"finalizers\":[\"f\xff\"],\"ownerReferences\":[{\"apiVersion\":\"v\xff\",\"kind\":\"k\",\"name\":\"n\xff\",\"uid\":\"u\xff\"}]},\"involvedObject\":{\"name\":\"n\xff\"}")

	// Numbers.
	for _, n := range []string{"-1", "0", "-0", "127", "128", "16383", "16384", "2147483647", "-2147483648"} {
		core("count-is-"+n, `"metadata":{"name":"a"},"count":`+n+`,"series":{"count":`+n+`}`)
	}
	for _, n := range []string{"0", "1", "-1", "9223372036854775807", "-9223372036854775808"} {
		core("grace-period-and-generation-are-"+n, `"metadata":{"name":"a","generation":`+n+`,"deletionGracePeriodSeconds":`+n+`}`)
	}

	// Presence: a set pointer to nothing is not the same as no pointer.
	core("empty-series-and-related", `"metadata":{"name":"a"},"series":{},"related":{}`)
	events("empty-series-and-related", `"metadata":{"name":"a"},"series":{},"related":{}`)
	core("empty-maps-and-lists", `"metadata":{"name":"a","labels":{},"annotations":{},"ownerReferences":[],"finalizers":[],"managedFields":[]},"involvedObject":{},"source":{}`)
	core("empty-elements", `"metadata":{"name":"a","labels":{"":""},"ownerReferences":[{}],"finalizers":[""],"managedFields":[{}]}`)
	core("null-everywhere", `"metadata":{"name":null,"generateName":null,"namespace":null,"selfLink":null,"uid":null,"resourceVersion":null,"generation":null,"creationTimestamp":null,"deletionTimestamp":null,"deletionGracePeriodSeconds":null,"labels":null,"annotations":null,"ownerReferences":null,"finalizers":null,"managedFields":null},"involvedObject":null,"reason":null,"message":null,"source":null,"firstTimestamp":null,"lastTimestamp":null,"count":null,"type":null,"eventTime":null,"series":null,"action":null,"related":null,"reportingComponent":null,"reportingInstance":null`)
	events("null-everywhere", `"metadata":null,"eventTime":null,"series":null,"reportingController":null,"reportingInstance":null,"action":null,"reason":null,"regarding":null,"related":null,"note":null,"type":null,"deprecatedSource":null,"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null,"deprecatedCount":null`)
	core("null-inside-lists-and-maps", `"metadata":{"name":"a","labels":{"a":null},"annotations":{"b":null,"c":"d"},"ownerReferences":[null],"finalizers":[null,"x"],"managedFields":[null]}`)
	core("null-inside-structs", `"metadata":{"name":"a","ownerReferences":[{"uid":null,"controller":null}],"managedFields":[{"time":null,"fieldsV1":null}]},"series":{"count":null,"lastObservedTime":null},"source":{"host":null}`)
	core("unset-members-of-either-spelling-are-dropped", `"metadata":{"name":"a"},"note":"belongs to the other spelling","regarding":{"name":"x"}`)

	// managedFields carries JSON that must survive as it came.
	for _, c := range []struct{ name, raw string }{
		{"empty-object", `{}`},
		{"white-space", "{ \"f:a\" : { } ,\n\t\"f:b\":{}}"},
		{"html-characters", `{"k:{\"x\":\"<&>\"}":{}}`},
		{"escapes-kept", `{"f:\u0041\/":{}}`},
		{"numbers-kept", `{"a":1.50,"b":1e3,"c":-0,"d":12345678901234567890}`},
		{"duplicate-keys-kept", `{"a":1,"a":2}`},
		{"string", `"text"`},
		{"list", `[ 1, 2 ]`},
		{"number", `7`},
		{"false", `false`},
		{"null", `null`},
		{"separators", "{\"a\u2028\":\"\u2029\"}"},
		{"invalid-utf8", "{\"a\xff\":{}}"},
	} {
		core("fields-v1-"+c.name, `"metadata":{"name":"a","managedFields":[{"manager":"m","fieldsType":"FieldsV1","fieldsV1":`+c.raw+`}]}`)
	}

	// Times.
	for _, t := range []string{"0001-01-01T00:00:00Z", "0001-01-01T00:00:01Z", "0000-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2024-06-30T23:59:59+05:30", "2024-01-01T00:30:00-08:00", "2024-02-29T12:00:00.999999999Z", "1969-12-31T23:59:59.5Z"} {
		core("time-"+t, `"metadata":{"name":"a","creationTimestamp":"`+t+`","deletionTimestamp":"`+t+`"},"firstTimestamp":"`+t+`"`)
	}
	for _, t := range []string{"0001-01-01T00:00:00.000000Z", "0001-01-01T00:00:00.000001Z", "0000-01-01T00:00:00.000000Z", "1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z", "2024-06-30T23:59:59.100000+05:30", "2024-01-01T00:30:00.000010-08:00"} {
		core("micro-time-"+t, `"metadata":{"name":"a"},"eventTime":"`+t+`","series":{"count":2,"lastObservedTime":"`+t+`"}`)
	}

	// Size.
	add("message-of-200-kilobytes", coreAPI, lit(`{"kind":"Event","apiVersion":"v1","metadata":{"name":"a"},"message":"`).repeat("0123456789abcdef<", 12047).then(`"}`))
	add("message-of-many-newlines", coreAPI, lit(`{"kind":"Event","apiVersion":"v1","metadata":{"name":"a"},"message":"`).repeat(`\n`, 3000).then(`"}`))
	var labels []string
	for i := range 60 {
		labels = append(labels, fmt.Sprintf(`"l%d/k%d":"v%d"`, i%7, (i*37)%60, i))
	}
	core("sixty-labels-come-out-sorted", `"metadata":{"name":"a","labels":{`+strings.Join(labels, ",")+`}}`)
	core("labels-sorted-by-bytes", `"metadata":{"name":"a","labels":{"b":"1","B":"2","a.b":"3","a-b":"4","a/b":"5","a":"6","é":"7","z":"8","😀":"9","\uffff":"10"}}`)
	core("two-hundred-finalizers-keep-their-order", `"metadata":{"name":"a","finalizers":[`+strings.TrimSuffix(strings.Repeat(`"b","a",`, 100), ",")+`]}`)
	return out
}
