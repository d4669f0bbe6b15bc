package main

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// instant is what metav1.Time and metav1.MicroTime have in common.
type instant interface {
	MarshalJSON() ([]byte, error)
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

var instantTypes = []string{"Time", "MicroTime"}

func newInstant(kind string) instant {
	if kind == "Time" {
		return &metav1.Time{}
	}
	return &metav1.MicroTime{}
}

// timeVectors covers both time types in both directions: from a JSON token, and
// from the bare protobuf message.
func timeVectors() []vector {
	var out []vector
	add := func(token string) {
		for _, kind := range instantTypes {
			out = append(out, timeFromJSON(kind, token))
		}
	}
	for _, t := range timeTokens() {
		add(t)
	}
	for _, m := range timeMessages() {
		for _, kind := range instantTypes {
			out = append(out, timeFromProtobuf(kind, m.name, m.data))
		}
	}
	return out
}

func timeFromJSON(kind, token string) vector {
	v := named(kind+"-"+token).with("type", kind).with("input", token)
	// Read as a field, because the decoder looks at the token first.
	t := newInstant(kind)
	field := struct {
		T any `json:"t"`
	}{t}
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(`{"t":`+token+`}`), &field); err != nil {
		return v.with("ok", false).with("error", err.Error())
	}
	return timeOut(v.with("ok", true), t)
}

func timeFromProtobuf(kind, name string, data []byte) vector {
	v := named(kind+"-from-protobuf-"+name).with("type", kind).binary("pb_in", data)
	t := newInstant(kind)
	if err := t.Unmarshal(data); err != nil {
		return v.with("ok", false).with("error", err.Error())
	}
	return timeOut(v.with("ok", true), t)
}

func timeOut(v vector, t instant) vector {
	if text, err := t.MarshalJSON(); err != nil {
		v = v.with("json_error", err.Error())
	} else {
		v = v.with("json", string(text))
	}
	return v.binary("pb", must1(t.Marshal()))
}

func timeTokens() []string {
	quoted := []string{
		"2024-02-29T12:34:56Z", "2024-02-29T12:34:56.000000Z", "2024-02-29T12:34:56.123456Z",
		// Offsets.
		"2024-02-29T12:34:56+00:00", "2024-02-29T12:34:56-00:00", "2024-02-29T12:34:56-07:30", "2024-02-29T12:34:56+23:59", "2024-02-29T12:34:56+24:00", "2024-02-29T12:34:56+24:01", "2024-02-29T12:34:56+25:00", "2024-02-29T12:34:56+12:60", "2024-02-29T12:34:56+12:61", "2024-02-29T12:34:56+0530", "2024-02-29T12:34:56+05", "2024-02-29T12:34:56+5:30", "2024-02-29T12:34:56+05:3", "2024-02-29T12:34:56", "2024-02-29T12:34:56z", "2024-02-29T12:34:56ZZ", "2024-02-29T12:34:56Z00:00", "2024-02-29T12:34:56 UTC", "2024-02-29T12:34:56−07:00",
		"2024-02-29T12:34:56.123456+05:30", "2024-02-29T12:34:56.123456-08:00", "2024-02-29T12:34:56.123456+24:00", "2024-02-29T12:34:56.123456z", "2024-02-29T12:34:56.123456",
		// Fractions.
		"2024-02-29T12:34:56.Z", "2024-02-29T12:34:56.1Z", "2024-02-29T12:34:56.12Z", "2024-02-29T12:34:56.123Z", "2024-02-29T12:34:56.1234Z", "2024-02-29T12:34:56.12345Z", "2024-02-29T12:34:56.1234567Z", "2024-02-29T12:34:56.12345678Z", "2024-02-29T12:34:56.123456789Z", "2024-02-29T12:34:56.1234567891Z", "2024-02-29T12:34:56.12345678912Z", "2024-02-29T12:34:56.123456789123Z", "2024-02-29T12:34:56.999999Z", "2024-02-29T12:34:56.999999999Z", "2024-02-29T12:34:56,5Z", "2024-02-29T12:34:56,123456Z", "2024-02-29T12:34:56.12345xZ", "2024-02-29T12:34:56.-12345Z", "2024-02-29T12:34:56.+12345Z", "2024-02-29T12:34:56. 12345Z", "2024-02-29T12:34:56:123456Z", "2024-02-29T12:34:56;123456Z",
		// Shape.
		"2024-02-29t12:34:56Z", "2024-02-29 12:34:56Z", "2024-02-29T1:34:56Z", "2024-02-29T12:4:56Z", "2024-02-29T12:34:6Z", "2024-2-29T12:34:56Z", "2024-02-9T12:34:56Z", "24-02-29T12:34:56Z", "20240229T123456Z", "2024/02/29T12:34:56Z", "2024-02-29T12.34.56Z", "2024-02-29T12:34Z", "2024-02-29", "12:34:56Z", "T", "Z", "x", "", " ", "null", "now", "1709210096", "2024-02-29T1:34:56.123456Z",
		" 2024-02-29T12:34:56Z", "2024-02-29T12:34:56Z ", "2024-02-29T12:34:56Z\\n", "+2024-02-29T12:34:56Z", "2024-02-29T12:34:56Zx", "2024-02-29T12:34:56.123456Z ", " 2024-02-29T12:34:56.123456Z",
		// Ranges.
		"2024-00-10T00:00:00Z", "2024-13-10T00:00:00Z", "2024-01-00T00:00:00Z", "2024-01-32T00:00:00Z", "2024-04-31T00:00:00Z", "2023-02-29T00:00:00Z", "2024-02-30T00:00:00Z", "1900-02-29T00:00:00Z", "2000-02-29T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T23:60:00Z", "2024-06-30T23:59:60Z", "2024-06-30T23:59:61Z", "2016-12-31T23:59:60.000000Z", "2024-13-10T00:00:00.000000Z", "2024-02-30T00:00:00.000000Z", "2024-01-01T24:00:00.000000Z", "2024-01-01T00:00:99Z",
		// Years.
		"0000-01-01T00:00:00Z", "0000-02-29T00:00:00Z", "0000-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.5Z", "0001-01-01T00:00:00+01:00", "0001-01-01T00:00:00-01:00", "0001-01-01T01:00:00+01:00", "0000-01-01T00:00:00+01:00", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-01:00", "9999-12-31T23:59:59.999999-23:59", "10000-01-01T00:00:00Z", "-001-01-01T00:00:00Z", "-2024-01-01T00:00:00Z", "999-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z", "0001-01-01T00:00:00.000001Z", "0000-01-01T00:00:00.000000Z",
		// Around the epoch.
		"1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z", "1970-01-01T00:00:00.000001Z", "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.5Z", "2038-01-19T03:14:08Z", "1677-09-21T00:12:43Z", "2262-04-11T23:47:17Z",
		// JSON escapes are undone before the time is read.
		`2024-02-29T12:34:56\u005a`, `2024-02-29T12\u003a34:56Z`, `2024\/02-29T12:34:56Z`, `2024-02-29T12:34:56\u005A`, `2024-02-29T12:34:56Z\u0000`, `2024-02-29T12:34:56.123456\u005a`, `２０２４-02-29T12:34:56Z`, `\"2024-02-29T12:34:56Z\"`, `2024-02-29T12:34:56Zé`, `<&>`,
	}
	var out []string
	for _, q := range quoted {
		out = append(out, `"`+q+`"`)
	}
	return append(out, "null", "true", "false", "0", "1709210096", "1.5", "-1", "1e3", "{}", "[]", `{"seconds":1}`, `["2024-02-29T12:34:56Z"]`)
}

type message struct {
	name string
	data []byte
}

func timeMessages() []message {
	var out []message
	add := func(name string, data []byte) { out = append(out, message{name, data}) }
	pair := func(seconds int64, nanos int32) {
		add(fmt.Sprintf("%d-seconds-%d-nanos", seconds, nanos), cat(varintField(1, uint64(seconds)), varintField(2, uint64(int64(nanos)))))
	}
	for _, s := range []int64{0, 1, -1, 1709210096, -62135596800, -62135596801, -62135596799, -62167219200, -62167219201, 253402300799, 253402300800, 2147483648, 9223372036854775807, -9223372036854775808, 9223371966579724799, 9223371966579724800} {
		pair(s, 0)
	}
	for _, n := range []int32{1, 999, 1000, 1001, 123456789, 999999999, 1000000000, 1999999999, 2147483647, -1, -1000, -999999999, -1000000000, -2147483648} {
		pair(1709210096, n)
	}
	pair(-1, 999999999)
	pair(-62135596800, 1)
	pair(-62135596800, 1000)
	pair(-62135596800, -1)
	pair(253402300799, 999999999)
	pair(253402300799, 1000000000)
	add("empty", nil)
	add("seconds-only", varintField(1, 5))
	add("nanos-only", varintField(2, 5000))
	add("nanos-before-seconds", cat(varintField(2, 5000), varintField(1, 5)))
	add("seconds-twice", cat(varintField(1, 5), varintField(1, 6)))
	add("unknown-field", cat(varintField(1, 5), varintField(9, 1)))
	add("seconds-as-fixed64", cat([]byte{1<<3 | 1}, make([]byte, 8)))
	add("truncated-tag-value", []byte{1 << 3})
	add("truncated-varint", []byte{1 << 3, 0x80})
	add("nanos-beyond-32-bits", cat(varintField(1, 5), varintField(2, 1<<32|7000)))
	add("varint-of-ten-bytes", cat([]byte{1 << 3}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}))
	add("varint-of-eleven-bytes", cat([]byte{1 << 3}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}))
	add("varint-with-padding", []byte{1 << 3, 0x85, 0x80, 0x00})
	return out
}
