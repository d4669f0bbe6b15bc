package main

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/kubernetes/pkg/apis/core"
)

const tableAccept = ";as=Table;v=v1;g=meta.k8s.io"

// tableVectors has three kinds: "table" is the whole answer of the list
// handler, "row" the cells of one event, "age" the text of one duration.
//
// The printer measures ages against the clock and cannot be told the time. So
// rows only use times that print the same for ever: ages above 292 years are
// cut to that, and times to come are "<invalid>".
func tableVectors() []vector {
	var out []vector
	list := &core.EventList{ListMeta: metav1.ListMeta{ResourceVersion: "42", Continue: "next"}, Items: []core.Event{
		*must1(coreAPI.decode([]byte(coreEvent(`"metadata":{"name":"a.17","namespace":"default","uid":"u1","resourceVersion":"41","creationTimestamp":"2024-01-01T00:00:00Z","labels":{"k":"v"}},"involvedObject":{"kind":"Pod","name":"a","fieldPath":"spec.containers{web}"},"reason":"R","message":" m <&> ","source":{"component":"c","host":"h"},"firstTimestamp":"1500-01-01T00:00:00Z","lastTimestamp":"1600-01-01T00:00:00Z","count":3,"type":"Normal"`)))),
		*must1(coreAPI.decode([]byte(coreEvent(`"metadata":{"name":"b.18","namespace":"default"}`)))),
	}}
	for _, a := range bothAPIs {
		for _, include := range []string{"", "Metadata", "Object", "None", "Nonsense"} {
			r := a.list("includeObject="+include, jsonType+tableAccept, list)
			out = append(out, named("table-"+a.name+"-include-"+include).with("kind", "table").with("api", a.name).with("include_object", include).with("http_code", r.code).with("json", string(r.body)))
		}
		r := a.list("", jsonType+tableAccept, &core.EventList{ListMeta: metav1.ListMeta{ResourceVersion: "42"}})
		out = append(out, named("table-"+a.name+"-no-rows").with("kind", "table").with("api", a.name).with("http_code", r.code).with("json", string(r.body)))
		r = a.list("", jsonType+";as=Table;v=v1beta1;g=meta.k8s.io", list)
		out = append(out, named("table-"+a.name+"-beta").with("kind", "table").with("api", a.name).with("http_code", r.code).with("json", string(r.body)))
		r = a.list("", jsonType+";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", list)
		out = append(out, named("table-"+a.name+"-partial-metadata-list").with("kind", "partial").with("api", a.name).with("http_code", r.code).with("json", string(r.body)))
	}
	for _, c := range rowSamples() {
		event := must1(coreAPI.decode([]byte(coreEvent(c.members))))
		r := coreAPI.list("includeObject=None", jsonType+tableAccept, &core.EventList{Items: []core.Event{*event}})
		var table metav1.Table
		mustJSON(r.body, &table)
		out = append(out, named("row-"+c.name).with("kind", "row").with("event", coreEvent(c.members)).with("cells", table.Rows[0].Cells))
	}
	return append(out, ageVectors()...)
}

type rowSample struct{ name, members string }

func rowSamples() []rowSample {
	const old, future = `"1500-01-01T00:00:00Z"`, `"9999-01-01T00:00:00Z"`
	const oldMicro, futureMicro = `"1500-01-01T00:00:00.000000Z"`, `"9999-01-01T00:00:00.000000Z"`
	return []rowSample{
		{"nothing-set", `"metadata":{}`},
		{"first-timestamp-only", `"firstTimestamp":` + old},
		{"last-timestamp-only", `"lastTimestamp":` + old},
		{"event-time-only", `"eventTime":` + oldMicro},
		{"first-old-last-future", `"firstTimestamp":` + old + `,"lastTimestamp":` + future},
		{"first-future-event-time-old", `"firstTimestamp":` + future + `,"eventTime":` + oldMicro},
		{"event-time-future-last-old", `"eventTime":` + futureMicro + `,"lastTimestamp":` + old},
		{"series-overrides-last", `"lastTimestamp":` + old + `,"series":{"count":7,"lastObservedTime":` + futureMicro + `}`},
		{"series-without-time", `"lastTimestamp":` + old + `,"firstTimestamp":` + old + `,"series":{"count":7}`},
		{"series-empty", `"count":4,"series":{}`},
		{"count-zero", `"count":0`}, {"count-negative", `"count":-3`}, {"count-large", `"count":2147483647`},
		{"series-count-wins", `"count":4,"series":{"count":9}`},
		{"kind-lower-cased", `"involvedObject":{"kind":"ReplicaSet","name":"Web"}`},
		{"kind-without-name", `"involvedObject":{"kind":"Node"}`}, {"name-without-kind", `"involvedObject":{"name":"n"}`},
		{"kind-beyond-ascii", `"involvedObject":{"kind":"ÄÖÜİẞ","name":"n"}`},
		{"object-with-group", `"involvedObject":{"kind":"Deployment","apiVersion":"apps/v1","namespace":"x","name":"n"}`},
		{"field-path", `"involvedObject":{"kind":"Pod","name":"n","fieldPath":"spec.containers{a}"}`},
		{"source-component", `"source":{"component":"c"}`}, {"source-host", `"source":{"host":"h"}`}, {"source-both", `"source":{"component":"c","host":"h"}`},
		{"reporting-component", `"reportingComponent":"rc"`}, {"reporting-instance", `"reportingInstance":"ri"`}, {"reporting-both", `"reportingComponent":"rc","reportingInstance":"ri"`},
		{"source-component-reporting-instance", `"source":{"component":"c"},"reportingComponent":"rc","reportingInstance":"ri"`}, {"source-host-reporting-component", `"source":{"host":"h"},"reportingComponent":"rc","reportingInstance":"ri"`},
		{"message-trimmed", `"message":" \t\n a\n b \r\n"`}, {"message-trimmed-of-wide-spaces", `"message":"\u00a0\u2003\u3000x\u0085\u2028"`}, {"message-not-trimmed-of-zero-width-space", `"message":"\u200bx\ufeff"`}, {"message-of-blanks", `"message":"   "`},
		{"type-reason-name-verbatim", `"metadata":{"name":" n "},"type":" t ","reason":" r\n"`},
	}
}

func ageVectors() []vector {
	const day = 24 * time.Hour
	const year = 365 * day
	var out []vector
	for _, d := range []time.Duration{
		-time.Duration(1) << 62, -time.Hour, -2 * time.Second, -2*time.Second + 1, -time.Second - 1, -time.Second, -time.Second + 1, -1, 0, 1, 999999999,
		time.Second, 59 * time.Second, 60 * time.Second, 119 * time.Second, 2*time.Minute - 1, 2 * time.Minute, 2*time.Minute + time.Second, 9*time.Minute + 59*time.Second, 10*time.Minute - 1, 10 * time.Minute, 10*time.Minute + 59*time.Second,
		59 * time.Minute, time.Hour, 179 * time.Minute, 3*time.Hour - 1, 3 * time.Hour, 3*time.Hour + 59*time.Second, 3*time.Hour + time.Minute, 7*time.Hour + 59*time.Minute, 8*time.Hour - 1, 8 * time.Hour, 8*time.Hour + 59*time.Minute, 47 * time.Hour, 48*time.Hour - 1, 48 * time.Hour, 49 * time.Hour, 48*time.Hour + 59*time.Minute,
		3 * day, 7*day + 23*time.Hour, 8*day - 1, 8 * day, 8*day + 23*time.Hour, 100 * day, year - 1, year, 2*year - 1, 2 * year, 2*year + day - 1, 2*year + day, 3*year + 364*day, 8*year - 1, 8 * year, 8*year + 364*day, 9 * year, 100 * year, 1<<63 - 1,
	} {
		out = append(out, named(fmt.Sprintf("age-%d", int64(d))).with("kind", "age").with("duration_ns", int64(d)).with("text", duration.HumanDuration(d)))
	}
	return out
}
