package main

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// decodeProtobufVectors posts protobuf bodies, good and bad. There is no strict
// reading of protobuf, so each has one verdict.
func decodeProtobufVectors() []vector {
	var out []vector
	for _, s := range protobufSamples() {
		reply, event := s.api.create("", protobufType, s.input.bytes())
		v := named(s.name).with("api", s.api.name)
		if s.input[0].times == 1 && len(s.input) == 1 {
			v = v.binary("input", s.input.bytes())
		} else {
			v = v.with("input_recipe", s.input)
		}
		for _, m := range verdict(reply) {
			v = append(v, m)
		}
		if reply.ok() {
			v = v.text("core_json", coreAPI.encode(jsonType, event))
		}
		out = append(out, v)
	}
	return out
}

// The pieces of a message. Written by hand, because the point is to write what
// no generated code would.
func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func tag(n, wire int) []byte {
	return protowire.AppendTag(nil, protowire.Number(n), protowire.Type(wire))
}

func varintField(n int, v uint64) []byte { return protowire.AppendVarint(tag(n, 0), v) }

func bytesField(n int, data ...[]byte) []byte {
	return protowire.AppendBytes(tag(n, 2), cat(data...))
}

func stringField(n int, s string) []byte { return bytesField(n, []byte(s)) }

var magic = []byte("k8s\x00")

// envelope wraps an event the way clients do.
func envelope(apiVersion, kind string, raw ...[]byte) []byte {
	return cat(magic, bytesField(1, stringField(1, apiVersion), stringField(2, kind)), bytesField(2, raw...))
}

func coreEnvelope(raw ...[]byte) []byte { return envelope("v1", "Event", raw...) }

func protobufSamples() []sample {
	var out []sample
	body := func(name string, data []byte) { out = append(out, sample{name, coreAPI, lit(string(data))}) }
	core := func(name string, raw ...[]byte) { body(name, coreEnvelope(raw...)) }
	events := func(name string, data []byte) {
		out = append(out, sample{"events-" + name, eventsAPI, lit(string(data))})
	}
	meta := func(parts ...[]byte) []byte { return bytesField(1, parts...) }
	name := meta(stringField(1, "a"))

	// What our own encoders would send.
	for _, s := range []sample{
		{"ordinary-kubelet-event", coreAPI, lit(ordinary)},
		{"every-field-set", coreAPI, lit(fullCore)},
		{"events-every-field-set", eventsAPI, lit(fullEvents)},
		{"nothing-set", coreAPI, lit(`{}`)},
		{"events-nothing-set", eventsAPI, lit(`{}`)},
	} {
		event := must1(s.api.decode(s.input.bytes()))
		out = append(out, sample{s.name, s.api, lit(string(s.api.encode(protobufType, event)))})
	}

	// The envelope.
	body("empty-body", nil)
	body("one-byte", []byte("k"))
	body("magic-only", magic)
	body("magic-cut", magic[:3])
	body("magic-without-nul", append([]byte("k8s"), coreEnvelope(name)[4:]...))
	body("no-magic", coreEnvelope(name)[4:])
	body("magic-twice", cat(magic, coreEnvelope(name)))
	body("json-instead", []byte(ordinary))
	body("bare-event-without-envelope", name)
	body("envelope-without-raw", cat(magic, bytesField(1, stringField(1, "v1"), stringField(2, "Event"))))
	body("envelope-with-empty-raw", coreEnvelope())
	body("envelope-without-type", cat(magic, bytesField(2, name)))
	body("envelope-with-empty-type", cat(magic, bytesField(1), bytesField(2, name)))
	body("envelope-with-empty-strings-as-type", envelope("", "", name))
	body("envelope-with-raw-before-type", cat(magic, bytesField(2, name), bytesField(1, stringField(1, "v1"), stringField(2, "Event"))))
	body("envelope-with-raw-twice", cat(coreEnvelope(name), bytesField(2, meta(stringField(1, "b")))))
	body("envelope-with-type-twice", cat(magic, bytesField(1, stringField(1, "v1")), bytesField(1, stringField(2, "Event")), bytesField(2, name)))
	body("envelope-with-unknown-field", cat(coreEnvelope(name), varintField(9, 1)))
	body("envelope-with-only-kind", envelope("", "Event", name))
	body("envelope-with-only-version", envelope("v1", "", name))
	body("envelope-of-a-pod", envelope("v1", "Pod", name))
	body("envelope-of-an-unknown-kind", envelope("v1", "Foo", name))
	body("envelope-of-an-event-list", envelope("v1", "EventList", bytesField(1)))
	body("envelope-of-an-unknown-version", envelope("v2", "Event", name))
	body("envelope-of-an-unknown-group", envelope("example.com/v1", "Event", name))
	body("envelope-of-the-other-group", envelope("events.k8s.io/v1", "Event", name))
	body("envelope-version-with-two-slashes", envelope("a/b/c", "Event", name))
	body("envelope-with-content-type-json", cat(coreEnvelope([]byte(`{"metadata":{"name":"a"}}`)), stringField(4, "application/json")))
	body("envelope-with-content-type-protobuf", cat(coreEnvelope(name), stringField(4, "application/vnd.kubernetes.protobuf")))
	body("envelope-with-content-type-unknown", cat(coreEnvelope(name), stringField(4, "text/plain")))
	body("envelope-with-content-encoding", cat(coreEnvelope(name), stringField(3, "gzip")))
	body("envelope-with-both-empty", cat(coreEnvelope(name), stringField(3, ""), stringField(4, "")))
	body("envelope-raw-longer-than-body", cat(magic, bytesField(1, stringField(1, "v1"), stringField(2, "Event")), []byte{0x12, 0x7f, 0x0a}))
	body("envelope-type-of-wrong-wire-type", cat(magic, varintField(1, 1), bytesField(2, name)))
	body("envelope-followed-by-garbage", cat(coreEnvelope(name), []byte{0xff}))
	body("envelope-with-invalid-utf8-kind", envelope("v1", "Ev\xff", name))
	events("envelope-of-its-own-group", envelope("events.k8s.io/v1", "Event", name))
	events("envelope-without-type", cat(magic, bytesField(2, name)))
	events("envelope-of-the-core-group", envelope("v1", "Event", name))

	// A small event, its inner message cut at every byte.
	small := cat(meta(stringField(1, "a"), varintField(7, 300), bytesField(8, varintField(1, 1700000000), varintField(2, 0)), bytesField(11, stringField(1, "k"), stringField(2, "v"))),
		bytesField(2, stringField(1, "Pod")), stringField(3, "R"), varintField(8, 200), bytesField(11, varintField(1, 2)))
	for i := range len(small) {
		core(fmt.Sprintf("inner-message-cut-after-%d-bytes", i), small[:i])
	}
	whole := coreEnvelope(small)
	for i := 5; i < 24; i++ {
		body(fmt.Sprintf("envelope-cut-after-%d-bytes", i), whole[:i])
	}

	// Unknown fields are skipped whatever their wire type.
	core("unknown-varint", name, varintField(99, 1<<63))
	core("unknown-fixed64", name, tag(99, 1), make([]byte, 8))
	core("unknown-bytes", name, stringField(99, "skip me"))
	core("unknown-fixed32", name, tag(99, 5), make([]byte, 4))
	core("unknown-group", name, tag(99, 3), varintField(1, 1), tag(99, 4))
	core("unknown-group-nested", name, tag(99, 3), tag(5, 3), stringField(1, "x"), tag(5, 4), tag(99, 4))
	core("unknown-group-with-other-end-number", name, tag(99, 3), tag(98, 4))
	core("unknown-group-never-ended", name, tag(99, 3), varintField(1, 1))
	core("group-end-without-start", name, tag(99, 4))
	core("wire-type-six", name, []byte{99<<3&0x7f | 6})
	core("wire-type-seven", name, []byte{7})
	core("unknown-fixed64-cut", name, tag(99, 1), make([]byte, 3))
	core("unknown-fixed32-cut", name, tag(99, 5), make([]byte, 3))
	core("unknown-bytes-cut", name, tag(99, 2), []byte{5, 'a'})
	core("unknown-varint-cut", name, tag(99, 0), []byte{0x80})
	core("unknown-field-number-at-the-limit", name, varintField(1<<29-1, 1))
	core("unknown-before-known", varintField(99, 1), name)
	core("unknown-in-metadata", meta(stringField(1, "a"), stringField(99, "x")))
	core("unknown-in-reference", name, bytesField(2, stringField(99, "x"), stringField(1, "Pod")))
	core("retired-cluster-name", meta(stringField(1, "a"), stringField(15, "cluster")))
	core("retired-series-state", name, bytesField(11, varintField(1, 2), stringField(3, "Ongoing")))
	core("retired-managed-fields-number", meta(stringField(1, "a"), bytesField(17, stringField(1, "m"), stringField(5, "x"))))
	core("field-number-zero", name, []byte{0, 0})
	core("field-number-zero-bytes", name, []byte{2, 0})
	core("field-number-negative", name, []byte{0xf8, 0xff, 0xff, 0xff, 0x0f, 0})
	core("tag-of-ten-bytes", name, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	core("tag-of-eleven-bytes", name, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	core("tag-padded", name, []byte{0x9a, 0x80, 0x00, 1, 'R'})

	// Wrong wire types for known fields.
	core("metadata-as-varint", varintField(1, 1))
	core("reason-as-varint", name, varintField(3, 1))
	core("reason-as-fixed32", name, tag(3, 5), make([]byte, 4))
	core("count-as-bytes", name, stringField(8, "1"))
	core("count-as-fixed32", name, tag(8, 5), []byte{1, 0, 0, 0})
	core("time-as-varint", name, varintField(6, 1))
	core("series-as-varint", name, varintField(11, 1))
	core("reason-as-group", name, tag(3, 3), tag(3, 4))
	core("labels-as-varint", meta(varintField(11, 1)))
	core("finalizers-as-varint", meta(varintField(14, 1)))
	core("owner-controller-as-bytes", meta(bytesField(13, stringField(6, "x"))))

	// Varints.
	for _, c := range []struct {
		name string
		v    uint64
	}{{"zero", 0}, {"largest-int32", 1<<31 - 1}, {"one-above-int32", 1 << 31}, {"minus-one-in-ten-bytes", 1<<64 - 1}, {"minus-one-in-five-bytes", 1<<32 - 1}, {"above-32-bits", 1<<32 | 5}, {"largest-uint64", 1<<64 - 1}, {"smallest-int32", 0xffffffff80000000}} {
		core("count-"+c.name, name, varintField(8, c.v))
	}
	core("count-padded-varint", name, tag(8, 0), []byte{0x85, 0x80, 0x80, 0x00})
	core("count-varint-of-ten-bytes-with-high-bits", name, tag(8, 0), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	core("count-varint-of-eleven-bytes", name, tag(8, 0), []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01})
	core("bool-of-two", meta(bytesField(13, varintField(6, 2), varintField(7, 0))))
	core("bool-of-large-value", meta(bytesField(13, varintField(6, 1<<40))))
	core("grace-period-negative", meta(varintField(10, 1<<64-1)))
	core("grace-period-zero", meta(varintField(10, 0)))

	// Lengths.
	core("reason-longer-than-message", name, tag(3, 2), []byte{100, 'x'})
	core("reason-length-negative-as-int", name, tag(3, 2), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, []byte("x"))
	core("reason-length-largest-positive", name, tag(3, 2), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, []byte("x"))
	core("metadata-length-overflows", tag(1, 2), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, []byte("x"))
	core("metadata-longer-than-message", tag(1, 2), []byte{100})
	core("inner-string-longer-than-its-message", meta(tag(1, 2), []byte{100, 'x'}), stringField(3, "R"))

	// The same field again.
	core("reason-twice", name, stringField(3, "first"), stringField(3, "second"))
	core("reason-then-empty", name, stringField(3, "first"), stringField(3, ""))
	core("count-twice", name, varintField(8, 1), varintField(8, 2))
	core("metadata-twice-merges", meta(stringField(1, "a"), stringField(3, "ns")), meta(stringField(1, "b"), stringField(5, "u")))
	core("reference-twice-merges", name, bytesField(2, stringField(1, "Pod")), bytesField(2, stringField(3, "web")))
	core("series-twice", name, bytesField(11, varintField(1, 2)), bytesField(11, bytesField(2, varintField(1, 5))))
	core("time-twice", name, bytesField(6, varintField(1, 5)), bytesField(6, varintField(1, 6)))
	core("time-then-empty", name, bytesField(6, varintField(1, 5)), bytesField(6))
	core("event-time-twice-with-nanos", name, bytesField(10, varintField(1, 5), varintField(2, 1000)), bytesField(10, varintField(2, 2000)))
	core("grace-period-twice", meta(varintField(10, 1), varintField(10, 2)))
	core("finalizers-collect", meta(stringField(14, "a"), stringField(1, "n"), stringField(14, "b")))
	core("fields-in-descending-order", stringField(15, "i"), stringField(14, "c"), varintField(8, 3), stringField(3, "R"), name)
	core("related-empty", name, bytesField(13))
	core("series-empty", name, bytesField(11))
	core("deletion-timestamp-empty", meta(bytesField(9)))
	core("managed-time-empty", meta(bytesField(17, bytesField(4))))

	// Times.
	core("time-with-nanos", name, bytesField(6, varintField(1, 5), varintField(2, 999999999)))
	core("event-time-with-nanos", name, bytesField(10, varintField(1, 5), varintField(2, 123456789)))
	core("event-time-zero-seconds-present", name, bytesField(10, varintField(1, 0), varintField(2, 0)))
	core("time-in-year-10000", name, bytesField(6, varintField(1, 253402300800)))
	core("event-time-in-year-10000", name, bytesField(10, varintField(1, 253402300800)))
	core("time-before-year-0", name, bytesField(6, varintField(1, 0xfffffff000000000)))

	// Maps.
	entry := func(parts ...[]byte) []byte { return meta(stringField(1, "a"), bytesField(11, parts...)) }
	core("label", entry(stringField(1, "k"), stringField(2, "v")))
	core("label-value-first", entry(stringField(2, "v"), stringField(1, "k")))
	core("label-without-key", entry(stringField(2, "v")))
	core("label-without-value", entry(stringField(1, "k")))
	core("label-entry-empty", entry())
	core("label-with-extra-field", entry(stringField(1, "k"), stringField(2, "v"), stringField(3, "x")))
	core("label-with-extra-field-cut", entry(stringField(1, "k"), tag(3, 2), []byte{9}))
	core("label-key-twice-in-entry", entry(stringField(1, "k"), stringField(1, "l"), stringField(2, "v")))
	core("label-twice", meta(bytesField(11, stringField(1, "k"), stringField(2, "1")), bytesField(11, stringField(1, "k"), stringField(2, "2"))))
	core("label-key-as-varint", entry(varintField(1, 1), stringField(2, "v")))
	core("label-value-longer-than-entry", entry(stringField(1, "k"), tag(2, 2), []byte{9, 'v'}), stringField(3, "following"))
	core("annotations-and-labels", meta(bytesField(12, stringField(1, "k"), stringField(2, "v")), bytesField(11, stringField(1, "l"), stringField(2, "w"))))

	// Strings are not checked.
	core("invalid-utf8-in-reason", name, stringField(3, "a\xff"))
	core("invalid-utf8-in-label", entry(stringField(1, "k\xff"), stringField(2, "v\xfe")))
	core("nul-in-name", meta(stringField(1, "a\x00b")))
	core("fields-v1-raw", meta(bytesField(17, bytesField(7, stringField(1, `{"f:a":{}}`)))))
	core("fields-v1-with-white-space", meta(bytesField(17, bytesField(7, stringField(1, `{ "f:a" : {} }`)))))
	core("fields-v1-empty-message", meta(bytesField(17, bytesField(7))))

	// Groups inside groups: how deep skipping goes.
	for _, depth := range []int{100, 9998, 10000, 10001} {
		head := cat(name)
		inner := recipe{}.then(string(head)).repeat(string(tag(99, 3)), depth).repeat(string(tag(99, 4)), depth)
		size := len(inner.bytes())
		r := recipe{}.then(string(cat(magic, bytesField(1, stringField(1, "v1"), stringField(2, "Event")), tag(2, 2), protowire.AppendVarint(nil, uint64(size)))))
		out = append(out, sample{fmt.Sprintf("unknown-groups-%d-deep", depth), coreAPI, append(r, inner...)})
	}
	big := 200000
	r := recipe{}.then(string(cat(magic, bytesField(1, stringField(1, "v1"), stringField(2, "Event")), tag(2, 2), protowire.AppendVarint(nil, uint64(big+4)), tag(4, 2), protowire.AppendVarint(nil, uint64(big))))).repeat("m", big)
	out = append(out, sample{"message-of-200-kilobytes", coreAPI, r})
	return out
}
