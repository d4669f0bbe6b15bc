package main

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// twoWayVectors are the patches that recorders compute from what they sent
// before and what they want to be stored now.
func twoWayVectors() []vector {
	var out []vector
	add := func(name string, a *api, original, modified string) {
		var into any = corev1.Event{}
		if a == eventsAPI {
			into = eventsv1.Event{}
		}
		v := named(name).with("api", a.name).text("original", []byte(original)).text("modified", []byte(modified))
		patch, err := strategicpatch.CreateTwoWayMergePatch([]byte(original), []byte(modified), into)
		if err != nil {
			out = append(out, v.with("ok", false).with("error", err.Error()))
			return
		}
		out = append(out, v.with("ok", true).with("patch", string(patch)))
	}
	core := func(name, original, modified string) {
		add(name, coreAPI, coreEvent(original), coreEvent(modified))
	}
	events := func(name, original, modified string) {
		add("events-"+name, eventsAPI, regardingEvent(original), regardingEvent(modified))
	}
	const first = `"metadata":{"name":"a","namespace":"ns"},"involvedObject":{"kind":"Pod","name":"p"},"reason":"R","source":{},"firstTimestamp":"2024-01-01T00:00:00Z",`
	const tail = `,"eventTime":null,"reportingComponent":"","reportingInstance":""`

	add("no-difference", coreAPI, ordinary, ordinary)
	core("counted-once-more", first+`"message":"m","lastTimestamp":"2024-01-01T00:00:00Z","count":1`+tail, first+`"message":"m","lastTimestamp":"2024-01-01T00:05:00Z","count":2`+tail)
	// A recorder zeroes count, lastTimestamp and message in its old copy, so
	// that these three are always sent.
	core("recorder-zeroes-the-old-copy", first+`"lastTimestamp":null`+tail, first+`"message":"m","lastTimestamp":"2024-01-01T00:05:00Z","count":2,"type":"Normal"`+tail)
	core("combined-message", first+`"message":"m1","count":1`+tail, first+`"message":"(combined from similar events): m2","count":12`+tail)
	core("message-removed", first+`"message":"m"`+tail, first[:len(first)-1]+tail)
	core("message-with-odd-text", first+`"message":"m"`+tail, first+`"message":"<&>\u2028\n\"😀"`+tail)
	core("time-becomes-null", `"firstTimestamp":"2024-01-01T00:00:00Z"`, `"firstTimestamp":null`)
	core("series-added", first+`"count":1`, first+`"count":1,"series":{"count":2,"lastObservedTime":"2024-01-01T00:00:00.000000Z"}`)
	core("series-removed", first+`"series":{"count":2}`, first+`"count":1`)
	core("label-added", `"metadata":{"name":"a"}`, `"metadata":{"name":"a","labels":{"x":"1"}}`)
	core("label-changed-and-removed", `"metadata":{"labels":{"a":"1","b":"2","c":"3"}}`, `"metadata":{"labels":{"a":"1","b":"9"}}`)
	core("all-labels-removed", `"metadata":{"labels":{"a":"1"}}`, `"metadata":{}`)
	core("owner-added", `"metadata":{"ownerReferences":[{"uid":"1","name":"a"}]}`, `"metadata":{"ownerReferences":[{"uid":"1","name":"a"},{"uid":"2","name":"b"}]}`)
	core("owner-changed", `"metadata":{"ownerReferences":[{"uid":"1","name":"a"},{"uid":"2","name":"b"}]}`, `"metadata":{"ownerReferences":[{"uid":"1","name":"z"},{"uid":"2","name":"b"}]}`)
	core("owner-removed", `"metadata":{"ownerReferences":[{"uid":"1","name":"a"},{"uid":"2","name":"b"}]}`, `"metadata":{"ownerReferences":[{"uid":"2","name":"b"}]}`)
	core("owners-reordered", `"metadata":{"ownerReferences":[{"uid":"1"},{"uid":"2"}]}`, `"metadata":{"ownerReferences":[{"uid":"2"},{"uid":"1"}]}`)
	core("owner-without-uid", `"metadata":{"ownerReferences":[{"name":"a"}]}`, `"metadata":{"ownerReferences":[{"name":"b"}]}`)
	core("finalizer-added-and-removed", `"metadata":{"finalizers":["a","b"]}`, `"metadata":{"finalizers":["b","c"]}`)
	core("all-finalizers-removed", `"metadata":{"finalizers":["a","b"]}`, `"metadata":{}`)
	core("managed-fields-replaced", `"metadata":{"managedFields":[{"manager":"a"}]}`, `"metadata":{"managedFields":[{"manager":"b"},{"manager":"c"}]}`)
	core("number-changes-type", `"count":1`, `"count":"1"`)
	core("object-becomes-text", `"source":{"host":"h"}`, `"source":"h"`)
	core("unknown-field-added", `"reason":"R"`, `"reason":"R","foo":{"bar":1}`)
	core("large-numbers", `"metadata":{"generation":9223372036854775806}`, `"metadata":{"generation":9223372036854775807}`)
	add("everything-appears", coreAPI, `{}`, fullCore)
	add("everything-disappears", coreAPI, fullCore, `{}`)
	add("original-is-not-json", coreAPI, `{`, ordinary)
	add("modified-is-not-json", coreAPI, ordinary, `x`)
	add("both-empty", coreAPI, ``, ``)

	const regarding = `"metadata":{"name":"a","namespace":"ns"},"eventTime":"2024-01-01T00:00:00.000000Z","reportingController":"c","reportingInstance":"i","action":"A","reason":"R","regarding":{"kind":"Pod","name":"p"},"note":"n","type":"Normal"`
	const deprecated = `,"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null`
	events("series-starts", regarding+deprecated, regarding+`,"series":{"count":2,"lastObservedTime":"2024-01-01T00:00:01.000000Z"}`+deprecated)
	// The sink compares with an old copy without a series, so the whole
	// series is sent each time.
	events("series-counts-on", regarding+`,"series":{"count":2,"lastObservedTime":"2024-01-01T00:00:01.000000Z"}`+deprecated, regarding+`,"series":{"count":3,"lastObservedTime":"2024-01-01T00:00:02.000000Z"}`+deprecated)
	events("series-only-time-moves", regarding+`,"series":{"count":2,"lastObservedTime":"2024-01-01T00:00:01.000000Z"}`, regarding+`,"series":{"count":2,"lastObservedTime":"2024-01-01T00:06:01.000000Z"}`)
	events("note-changes", regarding, regarding[:len(regarding)-len(`"note":"n","type":"Normal"`)]+`"note":"other","type":"Normal"`)
	add("events-no-difference", eventsAPI, fullEvents, fullEvents)
	return out
}
