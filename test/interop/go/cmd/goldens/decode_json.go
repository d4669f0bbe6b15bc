package main

import (
	"bytes"
	"fmt"
	"strings"

	"k8s.io/kubernetes/pkg/apis/core"
)

// decodeJSONVectors posts odd and bad bodies. The answers are those of the
// create handler, once for fieldValidation=Ignore and once for Strict.
//
// When strict reading accepts, it yields the same object as lenient reading;
// that is checked here, so the object is given once. Under Strict, "errors"
// lists what fieldValidation=Warn would have sent as warnings.
func decodeJSONVectors() []vector {
	var out []vector
	for _, s := range decodeSamples() {
		body := s.input.bytes()
		v := named(s.name).with("api", s.api.name).input("input", s.input)

		reply, event := s.api.create("fieldValidation=Ignore", jsonType, body)
		lenient := verdict(reply)
		if reply.ok() {
			lenient = lenient.text("core_json", coreAPI.encode(jsonType, event))
		}
		v = v.with("lenient", lenient)

		reply, strictEvent := s.api.create("fieldValidation=Strict", jsonType, body)
		strict := verdict(reply)
		if reply.ok() {
			sameEvent(s.name, event, strictEvent)
		} else if warn, _ := s.api.create("fieldValidation=Warn", jsonType, body); warn.ok() {
			strict = strict.with("errors", warn.warnings)
		}
		out = append(out, v.with("strict", strict))
	}
	return out
}

// verdict tells what the server answered, short of an object.
func verdict(r answer) vector {
	v := vector{{"ok", r.ok()}, {"http_code", r.code}}
	if !r.ok() {
		v = v.text("error", []byte(r.status.Message))
	}
	return v
}

func sameEvent(name string, a, b *core.Event) {
	if !bytes.Equal(coreAPI.encode(protobufType, a), coreAPI.encode(protobufType, b)) {
		panic(name + ": strict reading gives another object than lenient reading")
	}
}

func decodeSamples() []sample {
	var out []sample
	raw := func(name string, input recipe) { out = append(out, sample{name, coreAPI, input}) }
	text := func(name, input string) { raw(name, lit(input)) }
	core := func(name, members string) { text(name, coreEvent(members)) }
	events := func(name, members string) {
		out = append(out, sample{"events-" + name, eventsAPI, lit(regardingEvent(members))})
	}

	// Whole documents that are not an event.
	for _, c := range []struct{ name, body string }{
		{"empty", ""}, {"one-space", " "}, {"newline", "\n"}, {"null", "null"}, {"true", "true"}, {"false", "false"},
		{"zero", "0"}, {"negative", "-1"}, {"string", `"x"`}, {"empty-list", "[]"}, {"list-of-events", `[{"kind":"Event","apiVersion":"v1"}]`},
		{"word", "hello"}, {"html", "<html></html>"}, {"yaml", "kind: Event\napiVersion: v1\n"}, {"yaml-document-mark", "---\n{}"},
		{"byte-order-mark", "\xef\xbb\xbf{}"}, {"utf-16", "\xff\xfe{\x00}\x00"}, {"nul", "\x00"}, {"protobuf-magic", "k8s\x00"},
		{"open-brace", "{"}, {"close-brace", "}"}, {"open-bracket", "["}, {"only-a-quote", `"`}, {"minus", "-"}, {"half-a-word", "nul"}, {"half-true", "tr"},
	} {
		text("body-is-"+c.name, c.body)
	}

	// What surrounds a good document.
	good := coreEvent(`"metadata":{"name":"a"}`)
	for _, c := range []struct{ name, before, after string }{
		{"white-space-around", " \t\r\n", " \t\r\n"}, {"newline-after", "", "\n"}, {"vertical-tab-before", "\v", ""}, {"form-feed-before", "\f", ""},
		{"no-break-space-before", "\u00a0", ""}, {"nul-after", "", "\x00"}, {"comma-after", "", ","}, {"brace-after", "", "}"},
		{"second-document-after", "", "{}"}, {"second-document-after-newline", "", "\n{}"}, {"word-after", "", " x"}, {"line-comment-after", "", "//x"}, {"block-comment-before", "/* x */", ""},
	} {
		text("document-with-"+c.name, c.before+good+c.after)
	}

	// One small event, cut at every byte.
	small := `{"kind":"Event","apiVersion":"v1","count":-12,"series":null,"metadata":{"finalizers":["a\n"],"x":[true,1.5e3]}}`
	for i := range len(small) {
		text(fmt.Sprintf("cut-after-%d-bytes", i), small[:i])
	}

	// Syntax errors in the middle, each with its own message.
	for _, c := range []struct{ name, members string }{
		{"trailing-comma-in-object", `"reason":"a",`}, {"two-commas", `"reason":"a",,"type":"b"`}, {"missing-comma", `"reason":"a" "type":"b"`},
		{"missing-colon", `"reason" "a"`}, {"two-colons", `"reason"::"a"`}, {"missing-value", `"reason":`}, {"missing-value-before-comma", `"reason":,"type":"b"`},
		{"unquoted-key", `reason:"a"`}, {"single-quotes", `'reason':'a'`}, {"number-as-key", `1:"a"`}, {"null-as-key", `null:"a"`},
		{"leading-comma", `,"reason":"a"`}, {"colon-instead-of-comma", `"reason":"a":"b"`}, {"bracket-closes-object", `"source":{"host":"a"]`},
		{"brace-closes-list", `"metadata":{"finalizers":["a"}}`}, {"trailing-comma-in-list", `"metadata":{"finalizers":["a",]}`}, {"leading-comma-in-list", `"metadata":{"finalizers":[,"a"]}`},
		{"missing-comma-in-list", `"metadata":{"finalizers":["a" "b"]}`}, {"colon-in-list", `"metadata":{"finalizers":["a":"b"]}`},
		{"misspelt-true", `"x":ture`}, {"misspelt-false", `"x":falze`}, {"misspelt-null", `"x":nil`}, {"capital-true", `"x":True`}, {"capital-null", `"x":NULL`}, {"word-run-on", `"x":truefalse`},
		{"nan", `"count":NaN`}, {"infinity", `"count":Infinity`}, {"undefined", `"x":undefined`},
		{"plus-sign", `"count":+1`}, {"leading-zero", `"count":01`}, {"leading-zero-negative", `"count":-01`}, {"hex-number", `"count":0x10`}, {"lone-minus", `"count":-`}, {"minus-letter", `"count":-a`}, {"leading-dot", `"count":.5`}, {"trailing-dot", `"count":5.`}, {"dot-letter", `"count":5.x`}, {"empty-exponent", `"count":1e`}, {"exponent-sign-only", `"count":1e+`}, {"exponent-letter", `"count":1ex`}, {"two-dots", `"count":1.2.3`}, {"digit-separator", `"count":1_000`}, {"digit-comma", `"count":1,000`},
		{"bad-escape", `"reason":"\x41"`}, {"bad-escape-quote", `"reason":"\'"`}, {"bad-hex-escape", `"reason":"\u00g0"`}, {"short-hex-escape", `"reason":"\u12"`}, {"escape-of-newline", "\"reason\":\"\\\n\""},
		{"raw-newline-in-string", "\"reason\":\"a\nb\""}, {"raw-tab-in-string", "\"reason\":\"a\tb\""}, {"raw-nul-in-string", "\"reason\":\"a\x00b\""}, {"raw-control-in-string", "\"reason\":\"a\x1fb\""}, {"raw-newline-in-key", "\"rea\nson\":\"a\""}, {"raw-nul-between-tokens", "\"reason\":\x00\"a\""},
		{"raw-delete-in-string", "\"reason\":\"a\x7fb\""}, {"comment", `"reason":/* why */"a"`}, {"unterminated-string", `"reason":"a`}, {"unterminated-by-escape", `"reason":"a\`}, {"dollar", `"reason":$x`}, {"letter-beyond-ascii", `"reason":é`}, {"parenthesis", `"reason":("a")`},
		{"bad-hex-escape-in-skipped-value", `"unknown":"\uZZZZ"`}, {"bad-number-in-skipped-value", `"unknown":01`}, {"raw-newline-in-skipped-value", "\"unknown\":\"a\nb\""}, {"bad-hex-escape-in-key", `"\u00zz":1`},
	} {
		core("syntax-"+c.name, c.members)
	}

	// Each field with a value of each kind.
	inMeta := func(m string) string { return `"metadata":{"name":"a",` + m + `}` }
	plain := func(m string) string { return `"metadata":{"name":"a"},` + m }
	fields := []struct {
		name string
		wrap func(string) string
		key  string
	}{
		{"involved-object", plain, `"involvedObject":%s`}, {"reason", plain, `"reason":%s`}, {"source", plain, `"source":%s`}, {"first-timestamp", plain, `"firstTimestamp":%s`}, {"count", plain, `"count":%s`},
		{"event-time", plain, `"eventTime":%s`}, {"series", plain, `"series":%s`}, {"related", plain, `"related":%s`}, {"reporting-component", plain, `"reportingComponent":%s`},
		{"series-count", plain, `"series":{"count":%s}`}, {"last-observed-time", plain, `"series":{"lastObservedTime":%s}`}, {"involved-object-uid", plain, `"involvedObject":{"uid":%s}`},
		{"uid", inMeta, `"uid":%s`}, {"generation", inMeta, `"generation":%s`}, {"creation-timestamp", inMeta, `"creationTimestamp":%s`}, {"deletion-timestamp", inMeta, `"deletionTimestamp":%s`}, {"grace-period", inMeta, `"deletionGracePeriodSeconds":%s`},
		{"labels", inMeta, `"labels":%s`}, {"label-value", inMeta, `"labels":{"k":%s}`}, {"owner-references", inMeta, `"ownerReferences":%s`}, {"owner-reference", inMeta, `"ownerReferences":[%s]`}, {"owner-controller", inMeta, `"ownerReferences":[{"controller":%s}]`}, {"owner-uid", inMeta, `"ownerReferences":[{"uid":%s}]`},
		{"finalizers", inMeta, `"finalizers":%s`}, {"finalizer", inMeta, `"finalizers":[%s]`}, {"managed-fields", inMeta, `"managedFields":%s`}, {"managed-operation", inMeta, `"managedFields":[{"operation":%s}]`}, {"managed-time", inMeta, `"managedFields":[{"time":%s}]`}, {"managed-fields-v1", inMeta, `"managedFields":[{"fieldsV1":%s}]`},
	}
	values := []struct{ name, json string }{
		{"null", `null`}, {"true", `true`}, {"seven", `7`}, {"a-string", `"x"`}, {"an-object", `{}`}, {"a-list", `[]`},
	}
	for _, f := range fields {
		for _, v := range values {
			core(f.name+"-is-"+v.name, f.wrap(fmt.Sprintf(f.key, v.json)))
		}
	}
	for _, key := range []string{"firstTimestamp", "eventTime", "count", "reason", "series"} {
		core(key+"-is-an-empty-string", `"metadata":{"name":"a"},"`+key+`":""`)
	}
	for _, v := range values {
		core("metadata-is-"+v.name, `"metadata":`+v.json)
		text("kind-is-"+v.name, `{"kind":`+v.json+`,"apiVersion":"v1"}`)
		text("api-version-is-"+v.name, `{"kind":"Event","apiVersion":`+v.json+`}`)
		events("regarding-is-"+v.name, `"metadata":{"name":"a"},"regarding":`+v.json)
		events("note-is-"+v.name, `"metadata":{"name":"a"},"note":`+v.json)
		events("deprecated-count-is-"+v.name, `"metadata":{"name":"a"},"deprecatedCount":`+v.json)
	}

	// Numbers.
	for _, n := range []string{"-0", "0.0", "1.0", "-1.0", "1e2", "1E2", "1e+2", "1e-2", "1.5e1", "100e-2", "2147483647", "2147483648", "-2147483648", "-2147483649", "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551616", "1e400", "0.00000000000000000001", "123456789012345678901234567890"} {
		core("count-"+n, `"metadata":{"name":"a"},"count":`+n)
		core("generation-"+n, `"metadata":{"name":"a","generation":`+n+`}`)
	}
	for _, n := range []string{"-0", "1e2", "18446744073709551616", "1e400"} {
		core("number-in-unknown-field-"+n, `"metadata":{"name":"a"},"unknown":`+n)
	}
	raw("number-of-ten-thousand-digits-in-unknown-field", lit(`{"kind":"Event","apiVersion":"v1","unknown":1`).repeat("0", 10000).then(`}`))
	raw("number-of-ten-thousand-digits-in-count", lit(`{"kind":"Event","apiVersion":"v1","count":1`).repeat("0", 10000).then(`}`))

	// Depth. The limit counts every open brace and bracket.
	for _, n := range []int{1000, 9997, 9998, 9999, 10000, 10001, 100000} {
		raw(fmt.Sprintf("unknown-field-%d-lists-deep", n), lit(`{"kind":"Event","apiVersion":"v1","unknown":`).repeat("[", n).repeat("]", n).then(`}`))
	}
	for _, n := range []int{9998, 9999, 10000} {
		raw(fmt.Sprintf("unknown-field-%d-objects-deep", n), lit(`{"kind":"Event","apiVersion":"v1","unknown":`).repeat(`{"a":`, n).then("1").repeat("}", n).then(`}`))
		raw(fmt.Sprintf("fields-v1-%d-lists-below-the-top", n-3), lit(`{"kind":"Event","apiVersion":"v1","metadata":{"managedFields":[{"fieldsV1":`).repeat("[", n-3).repeat("]", n-3).then(`}]}}`))
	}
	raw("string-field-gets-10001-lists", lit(`{"kind":"Event","apiVersion":"v1","reason":`).repeat("[", 10001).repeat("]", 10001).then(`}`))
	raw("one-hundred-thousand-open-brackets", lit(``).repeat("[", 100000))
	raw("one-hundred-thousand-open-objects", lit(``).repeat(`{"a":`, 100000))

	// Size.
	raw("message-of-ten-million-bytes", lit(`{"kind":"Event","apiVersion":"v1","message":"`).repeat("a", 10000000).then(`"}`))
	raw("body-of-exactly-three-mebibytes", lit(`{"kind":"Event","apiVersion":"v1","message":"`).repeat("a", 3145728-47).then(`"}`))
	raw("body-one-byte-above-three-mebibytes", lit(`{"kind":"Event","apiVersion":"v1","message":"`).repeat("a", 3145729-47).then(`"}`))
	raw("unknown-string-of-one-million-bytes", lit(`{"kind":"Event","apiVersion":"v1","unknown":"`).repeat("b", 1000000).then(`"}`))
	raw("white-space-of-one-million-bytes", lit(`{"kind":"Event","apiVersion":"v1"`).repeat(" ", 1000000).then(`}`))
	raw("one-hundred-thousand-unknown-list-elements", lit(`{"kind":"Event","apiVersion":"v1","unknown":[`).repeat("1,", 100000).then(`1]}`))
	raw("key-of-one-hundred-thousand-bytes", lit(`{"kind":"Event","apiVersion":"v1","`).repeat("k", 100000).then(`":1}`))

	// Bytes that are not UTF-8.
	core("invalid-utf8-in-unknown-value", "\"metadata\":{\"name\":\"a\"},\"unknown\":\"\xff\xfe\"")
	core("invalid-utf8-in-unknown-key", "\"metadata\":{\"name\":\"a\"},\"unknown\xff\":1")
	core("invalid-utf8-makes-a-known-key-unknown", "\"metadata\":{\"name\":\"a\"},\"reason\xff\":\"x\"")
	core("invalid-utf8-between-tokens", "\"metadata\":\xff{\"name\":\"a\"}")
	core("nul-escape-in-unknown-key", `"metadata":{"name":"a"},"un\u0000known":1`)
	core("nul-escape-in-name", `"metadata":{"name":"a\u0000b"}`)

	// Unknown fields.
	for _, c := range []struct{ name, members string }{
		{"at-the-top", `"metadata":{"name":"a"},"foo":1`}, {"two-at-the-top", `"foo":1,"metadata":{"name":"a"},"bar":{"baz":2}`}, {"in-metadata", `"metadata":{"name":"a","foo":1}`}, {"in-series", `"series":{"count":1,"state":"Ongoing"}`}, {"in-reference", `"involvedObject":{"foo":1}`}, {"in-related", `"related":{"foo":1}`}, {"in-source", `"source":{"foo":1}`},
		{"in-list-element", `"metadata":{"ownerReferences":[{"foo":1},{"uid":"u","bar":2}]}`}, {"in-managed-fields", `"metadata":{"managedFields":[{"foo":1}]}`}, {"inside-fields-v1-are-not-unknown", `"metadata":{"managedFields":[{"fieldsV1":{"foo":1}}]}`}, {"inside-labels-are-not-unknown", `"metadata":{"labels":{"foo":"1"}}`},
		{"inside-an-unknown-field-are-reported-once", `"foo":{"a":1,"a":2,"b":{"c":3}}`}, {"the-same-twice", `"foo":1,"foo":2`}, {"with-dots-and-brackets-in-the-name", `"a.b[0]":1`}, {"with-quotes-in-the-name", `"a\"b\\c":1`}, {"with-an-empty-name", `"":1`}, {"with-letters-beyond-ascii", `"größe":1`}, {"with-control-characters", `"a\nb\u0001":1`}, {"of-the-retired-cluster-name", `"metadata":{"clusterName":"x"}`}, {"of-the-other-spelling", `"note":"x","regarding":{},"deprecatedCount":1`}, {"of-a-dash", `"-":1`}, {"of-inlined-type-meta", `"TypeMeta":{},"ObjectMeta":{}`},
	} {
		core("unknown-"+c.name, c.members)
	}
	events("unknown-of-the-other-spelling", `"involvedObject":{},"message":"x","count":1,"source":{}`)
	events("unknown-in-deprecated-source", `"deprecatedSource":{"foo":1},"regarding":{"bar":1}`)
	var many []string
	for i := range 130 {
		many = append(many, fmt.Sprintf(`"u%03d":%d`, i, i))
	}
	core("unknown-130-fields", strings.Join(many, ","))

	// Duplicate keys.
	for _, c := range []struct{ name, members string }{
		{"string", `"reason":"first","reason":"second"`}, {"string-then-null", `"reason":"first","reason":null`}, {"number", `"count":1,"count":2`}, {"number-then-null", `"count":1,"count":null`}, {"struct-merges", `"source":{"component":"a"},"source":{"host":"b"}`}, {"struct-then-null", `"source":{"component":"a"},"source":null`}, {"metadata-merges", `"metadata":{"name":"a","labels":{"x":"1"}},"metadata":{"namespace":"b","labels":{"y":"2"}}`},
		{"map-merges", `"metadata":{"labels":{"a":"1","b":"2"},"labels":{"b":"3"}}`}, {"map-then-null", `"metadata":{"labels":{"a":"1"},"labels":null}`}, {"map-then-empty", `"metadata":{"labels":{"a":"1"},"labels":{}}`}, {"key-in-labels", `"metadata":{"labels":{"a":"1","a":"2"}}`}, {"key-in-labels-three-times", `"metadata":{"labels":{"a":"1","a":"2","a":"3"}}`}, {"list-replaces", `"metadata":{"finalizers":["a","b"],"finalizers":["c"]}`}, {"list-then-null", `"metadata":{"finalizers":["a"],"finalizers":null}`}, {"list-then-empty", `"metadata":{"finalizers":["a"],"finalizers":[]}`},
		{"list-of-structs-reuses-elements", `"metadata":{"ownerReferences":[{"name":"a","uid":"1","controller":true},{"name":"b"}],"ownerReferences":[{"kind":"c"}]}`}, {"list-of-structs-grows", `"metadata":{"ownerReferences":[{"name":"a"}],"ownerReferences":[{"kind":"c"},{"kind":"d"}]}`}, {"pointer-merges", `"series":{"count":1},"series":{"lastObservedTime":"2024-01-01T00:00:00.000000Z"}`}, {"pointer-then-null", `"series":{"count":1},"series":null`}, {"pointer-null-then-set", `"series":null,"series":{"count":1}`}, {"time", `"firstTimestamp":"2024-01-01T00:00:00Z","firstTimestamp":"2025-01-01T00:00:00Z"`}, {"time-then-null", `"firstTimestamp":"2024-01-01T00:00:00Z","firstTimestamp":null`},
		{"pointer-to-number", `"metadata":{"deletionGracePeriodSeconds":1,"deletionGracePeriodSeconds":2}`}, {"pointer-to-time", `"metadata":{"deletionTimestamp":"2024-01-01T00:00:00Z","deletionTimestamp":"2025-01-01T00:00:00Z"}`}, {"pointer-to-bool", `"metadata":{"ownerReferences":[{"controller":true,"controller":null}]}`}, {"raw-json", `"metadata":{"managedFields":[{"fieldsV1":{"a":1},"fieldsV1":{"b":2}}]}`}, {"kind", `"kind":"Event"`}, {"kind-differs", `"kind":"Pod"`}, {"api-version-differs", `"apiVersion":"events.k8s.io/v1"`}, {"by-escape", `"reason":"a","r\u0065ason":"b"`}, {"three-times", `"reason":"a","reason":"b","reason":"c"`}, {"and-unknown", `"reason":"a","foo":1,"reason":"b"`}, {"in-list-element", `"metadata":{"ownerReferences":[{"uid":"a"},{"uid":"b","uid":"c"}]}`},
	} {
		core("duplicate-"+c.name, c.members)
	}
	events("duplicate-note", `"note":"a","note":"b"`)

	// Letter case and escaped keys.
	for _, c := range []struct{ name, body string }{
		{"kind-capitalised", `{"Kind":"Event","apiVersion":"v1"}`}, {"api-version-lower-case", `{"kind":"Event","apiversion":"v1"}`}, {"metadata-upper-case", `{"kind":"Event","apiVersion":"v1","METADATA":{"name":"a"}}`}, {"count-capitalised", `{"kind":"Event","apiVersion":"v1","Count":3}`}, {"count-in-both-cases", `{"kind":"Event","apiVersion":"v1","count":1,"Count":3}`}, {"name-capitalised", `{"kind":"Event","apiVersion":"v1","metadata":{"Name":"a"}}`}, {"kelvin-sign-for-k", "{\"\u212aind\":\"Event\",\"apiVersion\":\"v1\"}"}, {"long-s-for-s", "{\"kind\":\"Event\",\"apiVersion\":\"v1\",\"\u017fource\":{}}"},
		{"kind-by-escape", `{"\u006bind":"Event","apiVersion":"v1","rea\u0073on":"x"}`}, {"go-field-name", `{"kind":"Event","apiVersion":"v1","InvolvedObject":{},"ReportingController":"x"}`}, {"kind-value-lower-case", `{"kind":"event","apiVersion":"v1"}`}, {"version-value-upper-case", `{"kind":"Event","apiVersion":"V1"}`},
	} {
		text("case-"+c.name, c.body)
	}

	// What the document says it is.
	for _, c := range []struct{ name, body string }{
		{"neither-kind-nor-version", `{"metadata":{"name":"a"}}`}, {"only-kind", `{"kind":"Event"}`}, {"only-version", `{"apiVersion":"v1"}`}, {"only-wrong-kind", `{"kind":"Pod"}`}, {"only-unknown-kind", `{"kind":"Foo"}`}, {"only-wrong-version", `{"apiVersion":"v2"}`}, {"empty-kind", `{"kind":"","apiVersion":"v1"}`}, {"empty-version", `{"kind":"Event","apiVersion":""}`}, {"pod", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`}, {"unknown-kind", `{"kind":"Foo","apiVersion":"v1"}`}, {"event-list", `{"kind":"EventList","apiVersion":"v1","items":[]}`}, {"list", `{"kind":"List","apiVersion":"v1","items":[]}`}, {"status", `{"kind":"Status","apiVersion":"v1","status":"Failure"}`}, {"event-of-the-other-group", `{"kind":"Event","apiVersion":"events.k8s.io/v1","note":"x"}`}, {"event-of-the-old-beta", `{"kind":"Event","apiVersion":"events.k8s.io/v1beta1"}`}, {"unknown-group", `{"kind":"Event","apiVersion":"example.com/v1"}`}, {"unknown-version", `{"kind":"Event","apiVersion":"v2"}`}, {"internal-version", `{"kind":"Event","apiVersion":"__internal"}`}, {"slash-first", `{"kind":"Event","apiVersion":"/v1"}`}, {"slash-last", `{"kind":"Event","apiVersion":"v1/"}`}, {"two-slashes", `{"kind":"Event","apiVersion":"a/b/c"}`}, {"blank-around-version", `{"kind":"Event","apiVersion":" v1 "}`}, {"blank-around-kind", `{"kind":" Event","apiVersion":"v1"}`}, {"kind-last", `{"metadata":{"name":"a"},"apiVersion":"v1","kind":"Event"}`}, {"kind-with-newline", `{"kind":"Ev\nent","apiVersion":"v1"}`}, {"kind-with-quotes", `{"kind":"\"","apiVersion":"v1"}`}, {"delete-options", `{"kind":"DeleteOptions","apiVersion":"v1"}`}, {"watch-event", `{"kind":"WatchEvent","apiVersion":"v1","type":"ADDED"}`},
	} {
		text("says-"+c.name, c.body)
	}
	for _, c := range []struct{ name, body string }{
		{"neither-kind-nor-version", `{"metadata":{"name":"a"}}`}, {"core-version", `{"kind":"Event","apiVersion":"v1","message":"x"}`}, {"the-old-beta", `{"kind":"Event","apiVersion":"events.k8s.io/v1beta1"}`}, {"only-kind", `{"kind":"Event"}`}, {"only-core-version", `{"apiVersion":"v1"}`}, {"pod", `{"kind":"Pod","apiVersion":"v1"}`}, {"event-list", `{"kind":"EventList","apiVersion":"events.k8s.io/v1"}`}, {"unknown-kind", `{"kind":"Foo","apiVersion":"events.k8s.io/v1"}`},
	} {
		out = append(out, sample{"events-says-" + c.name, eventsAPI, lit(c.body)})
	}

	// Several things wrong at once: which is reported.
	for _, c := range []struct{ name, body string }{
		{"wrong-type-then-wrong-type", coreEvent(`"reason":1,"type":2`)}, {"wrong-type-then-syntax-error", coreEvent(`"reason":1,"type":}`)}, {"wrong-type-then-truncation", `{"kind":"Event","apiVersion":"v1","reason":1,"type":"x`}, {"wrong-type-then-garbage-after", coreEvent(`"reason":1`) + "x"}, {"wrong-type-and-wrong-kind", `{"reason":1,"kind":"Pod","apiVersion":"v1"}`}, {"wrong-type-and-unknown-kind", `{"reason":1,"kind":"Foo","apiVersion":"v1"}`}, {"syntax-error-and-wrong-kind", `{"kind":"Foo","apiVersion":"v1","x":}`}, {"bad-time-then-wrong-type", coreEvent(`"eventTime":"x","count":"y"`)}, {"wrong-type-then-bad-time", coreEvent(`"count":"y","eventTime":"x"`)}, {"two-bad-times", coreEvent(`"firstTimestamp":"x","lastTimestamp":"y"`)}, {"overflow-then-wrong-type", coreEvent(`"count":99999999999,"type":2`)}, {"unknown-and-wrong-type", coreEvent(`"foo":1,"reason":1`)}, {"duplicate-and-bad-time", coreEvent(`"reason":"a","reason":"b","eventTime":"x"`)}, {"wrong-types-in-two-lists", coreEvent(`"metadata":{"finalizers":[1,2],"ownerReferences":[3]}`)}, {"kind-and-version-of-wrong-type", `{"kind":1,"apiVersion":2}`}, {"unknown-duplicate-and-nested", coreEvent(`"metadata":{"foo":1,"name":"a","name":"b"},"bar":1,"reason":"c","reason":"d","series":{"baz":1,"count":1,"count":2}`)}, {"strict-errors-in-document-order", coreEvent(`"z":1,"reason":"a","a":1,"reason":"b","metadata":{"y":1},"m":1`)},
	} {
		text("several-"+c.name, c.body)
	}
	core("map-keys-of-every-kind", `"metadata":{"labels":{"":"a","null":"b","1":"c","a b":"d"}}`)
	core("wrong-type-in-map-keeps-the-others", `"metadata":{"labels":{"a":"1","b":2,"c":"3"}}`)
	core("object-in-annotations", `"metadata":{"annotations":{"a":{"b":"c"}}}`)
	core("deeply-wrong-owner-reference", `"metadata":{"ownerReferences":[{"uid":"a"},{"uid":"b","controller":"yes"}]}`)
	return out
}
