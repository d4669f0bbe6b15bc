package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var patchTypes = map[string]types.PatchType{
	"strategic": types.StrategicMergePatchType,
	"merge":     types.MergePatchType,
	"json":      types.JSONPatchType,
}

type patchSample struct {
	name, kind string
	api        *api
	original   string
	patch      recipe
}

// patchVectors sends patches through the patch handler.
//
// The verdict at the top is that of fieldValidation=Ignore. "warn" and "strict"
// are given where they differ from it; "warnings" are those of Warn, which is
// what the server does when a request does not say.
func patchVectors() []vector {
	var out []vector
	for _, c := range patchSamples() {
		stored := must1(c.api.decode([]byte(c.original)))
		v := named(c.kind+"-"+c.name).with("api", c.api.name).with("type", c.kind).
			with("original", c.original).input("patch", c.patch)
		send := func(validation string) answer {
			return c.api.patch("fieldValidation="+validation, string(patchTypes[c.kind]), stored, c.patch.bytes())
		}
		ignore, warn, strict := send("Ignore"), send("Warn"), send("Strict")
		v = append(v, patchVerdict(ignore)...)
		if ignore.ok() {
			v = v.text("result_json", ignore.body)
		}
		if len(warn.warnings) > 0 {
			v = v.with("warnings", warn.warnings)
		}
		if string(warn.body) != string(ignore.body) {
			v = v.with("warn", patchVerdict(warn))
		}
		if string(strict.body) != string(ignore.body) {
			v = v.with("strict", patchVerdict(strict))
		}
		out = append(out, v)
	}
	return out
}

func patchVerdict(r answer) vector {
	v := verdict(r)
	if !r.ok() {
		v = v.with("reason", string(r.status.Reason))
		// A failed operation of a JSON Patch is told only here.
		if d := r.status.Details; d != nil && len(d.Causes) == 1 && d.Causes[0].Type == metav1.CauseTypeUnexpectedServerResponse {
			v = v.with("cause", d.Causes[0].Message)
		}
	}
	return v
}

// patched is small on purpose: the result of each patch can be read.
const patched = `{"metadata":{"name":"e","namespace":"ns","uid":"u","labels":{"a":"1","b":"2"},"annotations":{"x~y/z":"t"},"ownerReferences":[{"apiVersion":"v1","kind":"N","name":"n1","uid":"1"},{"apiVersion":"v1","kind":"P","name":"n2","uid":"2","controller":true}],"finalizers":["x/a","x/b"]},"involvedObject":{"name":"p"},"reason":"R","message":"m","source":{"component":"c","host":"h"},"firstTimestamp":"2024-01-01T00:00:00Z","count":1}`

const patchedEvents = `{"metadata":{"name":"e","namespace":"ns","uid":"u"},"eventTime":"2024-01-01T00:00:00.000000Z","reportingController":"c","action":"A","reason":"R","regarding":{"kind":"Pod","name":"p"},"note":"n"}`

func patchSamples() []patchSample {
	var out []patchSample
	add := func(kind, name string, a *api, original string, patch recipe) {
		out = append(out, patchSample{name, kind, a, original, patch})
	}
	strategic := func(name, patch string) { add("strategic", name, coreAPI, patched, lit(patch)) }
	merge := func(name, patch string) { add("merge", name, coreAPI, patched, lit(patch)) }
	jsonPatch := func(name, patch string) { add("json", name, coreAPI, patched, lit(patch)) }
	maps := func(name, patch string) { strategic(name, patch); merge(name, patch) }

	// What both kinds of merge understand.
	for _, c := range []struct{ name, patch string }{
		{"nothing", `{}`}, {"recorder-counts-on", `{"count":2,"lastTimestamp":"2024-01-01T00:05:00Z","message":"again"}`}, {"string", `{"reason":"X"}`}, {"string-to-empty", `{"reason":""}`}, {"string-deleted", `{"reason":null}`}, {"number-deleted", `{"count":null}`}, {"absent-member-deleted", `{"action":null,"series":null,"related":null}`}, {"unknown-member-deleted", `{"foo":null}`},
		{"nested-member", `{"source":{"host":"other"}}`}, {"nested-member-deleted", `{"source":{"host":null}}`}, {"struct-deleted", `{"source":null}`}, {"struct-emptied-does-nothing", `{"source":{}}`}, {"series-from-nothing", `{"series":{"count":2,"lastObservedTime":"2024-01-01T00:00:00.000000Z"}}`}, {"series-from-nothing-with-null-inside", `{"series":{"count":2,"lastObservedTime":null}}`}, {"series-empty", `{"series":{}}`}, {"related-from-nothing", `{"related":{"kind":"Node","name":"n"}}`}, {"involved-object", `{"involvedObject":{"name":"q","uid":"v"}}`},
		{"label-added", `{"metadata":{"labels":{"c":"3"}}}`}, {"label-changed", `{"metadata":{"labels":{"a":"9"}}}`}, {"label-deleted", `{"metadata":{"labels":{"a":null}}}`}, {"all-labels-deleted-one-by-one", `{"metadata":{"labels":{"a":null,"b":null}}}`}, {"labels-deleted", `{"metadata":{"labels":null}}`}, {"absent-label-deleted", `{"metadata":{"labels":{"zzz":null}}}`}, {"annotation-added", `{"metadata":{"annotations":{"n":"<&>\u2028"}}}`}, {"metadata-null", `{"metadata":null}`}, {"metadata-emptied-does-nothing", `{"metadata":{}}`}, {"name-changed", `{"metadata":{"name":"other"}}`}, {"name-deleted", `{"metadata":{"name":null}}`}, {"namespace-changed", `{"metadata":{"namespace":"other"}}`}, {"namespace-deleted", `{"metadata":{"namespace":null}}`}, {"uid-deleted", `{"metadata":{"uid":null}}`}, {"resource-version-changed", `{"metadata":{"resourceVersion":"1"}}`}, {"kind-changed", `{"kind":"Pod"}`}, {"kind-deleted", `{"kind":null}`}, {"api-version-changed", `{"apiVersion":"events.k8s.io/v1"}`}, {"api-version-to-unknown", `{"apiVersion":"v9"}`}, {"api-version-deleted", `{"apiVersion":null}`}, {"managed-fields-set", `{"metadata":{"managedFields":[{}]}}`},
		{"time", `{"firstTimestamp":"2025-06-01T12:00:00+02:00"}`}, {"time-with-fraction", `{"firstTimestamp":"2025-06-01T12:00:00.5Z"}`}, {"time-null", `{"firstTimestamp":null}`}, {"time-empty", `{"firstTimestamp":""}`}, {"time-bad", `{"firstTimestamp":"yesterday"}`}, {"time-number", `{"firstTimestamp":5}`}, {"micro-time", `{"eventTime":"2025-06-01T12:00:00.000001Z"}`}, {"micro-time-without-fraction", `{"eventTime":"2025-06-01T12:00:00Z"}`}, {"micro-time-null", `{"eventTime":null}`},
		{"unknown-field", `{"foo":1}`}, {"unknown-nested-fields", `{"metadata":{"foo":1},"source":{"bar":{"baz":2}}}`}, {"unknown-and-known", `{"foo":1,"reason":"X"}`}, {"field-of-the-other-spelling", `{"note":"x"}`}, {"letter-case", `{"Reason":"X"}`}, {"duplicate-key", `{"reason":"X","reason":"Y"}`}, {"duplicate-key-nested", `{"metadata":{"labels":{"a":"x","a":"y"}}}`}, {"duplicate-and-unknown", `{"reason":"X","foo":1,"reason":"Y"}`}, {"duplicate-object-merges-or-not", `{"source":{"host":"1"},"source":{"component":"2"}}`},
		{"number-for-string", `{"reason":1}`}, {"string-for-number", `{"count":"2"}`}, {"fraction-for-number", `{"count":2.5}`}, {"whole-fraction-for-number", `{"count":2.0}`}, {"exponent-for-number", `{"count":1e2}`}, {"number-overflows", `{"count":2147483648}`}, {"number-overflows-int64", `{"count":9223372036854775808}`}, {"number-negative", `{"count":-7}`}, {"bool-for-string", `{"type":true}`}, {"list-for-string", `{"type":["x"]}`}, {"object-for-string", `{"type":{"x":"y"}}`}, {"string-for-object", `{"source":"x"}`}, {"list-for-object", `{"source":[]}`}, {"string-for-map", `{"metadata":{"labels":"x"}}`}, {"number-for-label", `{"metadata":{"labels":{"a":1}}}`}, {"string-for-list", `{"metadata":{"finalizers":"x"}}`}, {"object-for-list", `{"metadata":{"finalizers":{}}}`}, {"string-for-metadata", `{"metadata":"x"}`}, {"grace-period", `{"metadata":{"deletionGracePeriodSeconds":5}}`}, {"generation", `{"metadata":{"generation":9223372036854775807}}`}, {"odd-text", `{"message":"\u0000\ud83d\ude00\ud83d<&>"}`},
		{"finalizers-replaced-or-merged", `{"metadata":{"finalizers":["x/c"]}}`}, {"finalizers-repeated", `{"metadata":{"finalizers":["x/b","x/a"]}}`}, {"finalizers-empty", `{"metadata":{"finalizers":[]}}`}, {"finalizers-null", `{"metadata":{"finalizers":null}}`}, {"finalizers-with-null-inside", `{"metadata":{"finalizers":[null]}}`}, {"finalizers-of-numbers", `{"metadata":{"finalizers":[1]}}`}, {"finalizers-twice-the-same", `{"metadata":{"finalizers":["x/c","x/c"]}}`},
		{"owner-added", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"n3","uid":"3"}]}}`}, {"owner-changed", `{"metadata":{"ownerReferences":[{"uid":"2","name":"changed"}]}}`}, {"owner-member-deleted", `{"metadata":{"ownerReferences":[{"uid":"2","controller":null}]}}`}, {"owner-without-uid", `{"metadata":{"ownerReferences":[{"name":"n"}]}}`}, {"owner-with-null-uid", `{"metadata":{"ownerReferences":[{"uid":null}]}}`}, {"owner-with-number-uid", `{"metadata":{"ownerReferences":[{"uid":2,"name":"x"}]}}`}, {"owner-twice", `{"metadata":{"ownerReferences":[{"uid":"3","name":"x"},{"uid":"3","name":"y"}]}}`}, {"owners-null", `{"metadata":{"ownerReferences":null}}`}, {"owners-empty", `{"metadata":{"ownerReferences":[]}}`}, {"owners-of-strings", `{"metadata":{"ownerReferences":["x"]}}`}, {"owners-with-null-inside", `{"metadata":{"ownerReferences":[null]}}`}, {"owner-with-unknown-field", `{"metadata":{"ownerReferences":[{"uid":"1","foo":1}]}}`}, {"owners-not-a-list", `{"metadata":{"ownerReferences":{"uid":"1"}}}`},
		{"not-an-object-list", `[]`}, {"not-an-object-null", `null`}, {"not-an-object-string", `"x"`}, {"not-an-object-number", `7`}, {"not-an-object-bool", `true`}, {"empty-body", ``}, {"blank-body", ` `}, {"truncated", `{"reason":"X"`}, {"garbage", `garbage`}, {"trailing-garbage", `{"reason":"X"}}`}, {"two-documents", `{"reason":"X"}{"reason":"Y"}`}, {"trailing-comma", `{"reason":"X",}`}, {"white-space", " {\n\"reason\" : \"X\" }\n"}, {"yaml", "reason: X\n"}, {"byte-order-mark", "\xef\xbb\xbf{}"}, {"invalid-utf8", "{\"reason\":\"a\xff\"}"},
	} {
		maps(c.name, c.patch)
	}
	add("strategic", "unknown-field-10000-deep", coreAPI, patched, lit(`{"foo":`).repeat("[", 9999).repeat("]", 9999).then(`}`))
	// Upstream's merge takes time quadratic in depth: seconds at 10000.
	add("merge", "unknown-field-1000-deep", coreAPI, patched, lit(`{"foo":`).repeat("[", 999).repeat("]", 999).then(`}`))
	add("strategic", "unknown-field-10001-deep", coreAPI, patched, lit(`{"foo":`).repeat("[", 10000).repeat("]", 10000).then(`}`))
	add("merge", "unknown-field-10001-deep", coreAPI, patched, lit(`{"foo":`).repeat("[", 10000).repeat("]", 10000).then(`}`))

	// Directives. A merge patch takes them for data, as two examples show.
	merge("directive-replace-source", `{"source":{"$patch":"replace","host":"only"}}`)
	merge("delete-from-finalizers", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x/a"]}}`)
	for _, c := range []struct{ name, patch string }{
		{"directive-replace-at-root", `{"$patch":"replace","metadata":{"name":"e","namespace":"ns"},"reason":"only this"}`}, {"directive-delete-at-root", `{"$patch":"delete"}`}, {"directive-merge-at-root", `{"$patch":"merge","reason":"X"}`}, {"directive-unknown-at-root", `{"$patch":"explode"}`}, {"directive-not-a-string", `{"$patch":1}`}, {"directive-null", `{"$patch":null,"reason":"X"}`},
		{"directive-replace-labels", `{"metadata":{"labels":{"$patch":"replace","z":"26"}}}`}, {"directive-replace-labels-by-nothing", `{"metadata":{"labels":{"$patch":"replace"}}}`}, {"directive-delete-labels", `{"metadata":{"labels":{"$patch":"delete"}}}`}, {"directive-merge-labels", `{"metadata":{"labels":{"$patch":"merge","z":"26"}}}`}, {"directive-replace-source", `{"source":{"$patch":"replace","host":"only"}}`}, {"directive-delete-source", `{"source":{"$patch":"delete"}}`}, {"directive-unknown-nested", `{"source":{"$patch":"explode"}}`}, {"directive-delete-absent-series", `{"series":{"$patch":"delete"}}`}, {"directive-replace-absent-series", `{"series":{"$patch":"replace","count":3}}`}, {"directive-merge-absent-series", `{"series":{"$patch":"merge","count":3}}`},
		{"directive-delete-owner", `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"1"}]}}`}, {"directive-delete-absent-owner", `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"9"}]}}`}, {"directive-delete-owner-without-uid", `{"metadata":{"ownerReferences":[{"$patch":"delete"}]}}`}, {"directive-delete-both-owners", `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"1"},{"$patch":"delete","uid":"2"}]}}`}, {"directive-replace-owners", `{"metadata":{"ownerReferences":[{"$patch":"replace"},{"apiVersion":"v1","kind":"Pod","name":"n9","uid":"9"}]}}`}, {"directive-replace-owners-by-nothing", `{"metadata":{"ownerReferences":[{"$patch":"replace"}]}}`}, {"directive-merge-in-owners", `{"metadata":{"ownerReferences":[{"$patch":"merge","uid":"1","name":"x"}]}}`}, {"directive-unknown-in-owners", `{"metadata":{"ownerReferences":[{"$patch":"explode","uid":"1"}]}}`}, {"directive-replace-one-owner", `{"metadata":{"ownerReferences":[{"$patch":"replace","uid":"1","name":"x"}]}}`}, {"directive-delete-and-add-owner", `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"1"},{"uid":"7","name":"x","kind":"K","apiVersion":"v1"}]}}`},
		{"delete-from-finalizers", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x/a"]}}`}, {"delete-absent-from-finalizers", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["zzz"]}}`}, {"delete-all-finalizers", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x/a","x/b"]}}`}, {"delete-and-add-finalizers", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x/a"],"finalizers":["x/c"]}}`}, {"delete-from-finalizers-not-a-list", `{"metadata":{"$deleteFromPrimitiveList/finalizers":"x"}}`}, {"delete-from-finalizers-null", `{"metadata":{"$deleteFromPrimitiveList/finalizers":null}}`}, {"delete-from-a-list-of-objects", `{"metadata":{"$deleteFromPrimitiveList/ownerReferences":["1"]}}`}, {"delete-from-unknown-list", `{"metadata":{"$deleteFromPrimitiveList/foo":["1"]}}`}, {"delete-from-without-field", `{"metadata":{"$deleteFromPrimitiveList":["1"]}}`},
		{"order-of-finalizers", `{"metadata":{"$setElementOrder/finalizers":["x/b","x/a"]}}`}, {"order-of-finalizers-with-addition", `{"metadata":{"$setElementOrder/finalizers":["x/c","x/b","x/a"],"finalizers":["x/c"]}}`}, {"order-of-finalizers-partial", `{"metadata":{"$setElementOrder/finalizers":["x/b"]}}`}, {"order-misses-the-addition", `{"metadata":{"$setElementOrder/finalizers":["x/b"],"finalizers":["x/c"]}}`}, {"order-disagrees-with-the-list", `{"metadata":{"$setElementOrder/finalizers":["x/b","x/c"],"finalizers":["x/c","x/b"]}}`}, {"order-with-deletion", `{"metadata":{"$setElementOrder/finalizers":["x/b"],"$deleteFromPrimitiveList/finalizers":["x/a"]}}`}, {"order-not-a-list", `{"metadata":{"$setElementOrder/finalizers":"x"}}`}, {"order-of-owners", `{"metadata":{"$setElementOrder/ownerReferences":[{"uid":"2"},{"uid":"1"}]}}`}, {"order-of-owners-with-addition", `{"metadata":{"$setElementOrder/ownerReferences":[{"uid":"3"},{"uid":"2"},{"uid":"1"}],"ownerReferences":[{"uid":"3","name":"n3"}]}}`}, {"order-of-owners-missing-addition", `{"metadata":{"$setElementOrder/ownerReferences":[{"uid":"2"}],"ownerReferences":[{"uid":"3"}]}}`}, {"order-of-owners-without-uid", `{"metadata":{"$setElementOrder/ownerReferences":[{"name":"x"}]}}`}, {"order-of-owners-with-deletion", `{"metadata":{"$setElementOrder/ownerReferences":[{"uid":"2"}],"ownerReferences":[{"$patch":"delete","uid":"1"}]}}`}, {"order-of-unknown-list", `{"metadata":{"$setElementOrder/foo":["1"]}}`}, {"order-of-owners-of-strings", `{"metadata":{"$setElementOrder/ownerReferences":["1"]}}`},
		{"retain-keys-in-source", `{"source":{"$retainKeys":["host"],"host":"x"}}`}, {"retain-keys-drops-others", `{"source":{"$retainKeys":["host"]}}`}, {"retain-keys-missing-the-patched", `{"source":{"$retainKeys":["component"],"host":"x"}}`}, {"retain-keys-empty", `{"source":{"$retainKeys":[]}}`}, {"retain-keys-not-a-list", `{"source":{"$retainKeys":"host"}}`}, {"retain-keys-of-numbers", `{"source":{"$retainKeys":[1]}}`}, {"retain-keys-in-labels", `{"metadata":{"labels":{"$retainKeys":["a"]}}}`}, {"retain-keys-at-root", `{"$retainKeys":["metadata","reason"],"reason":"X"}`},
		{"unknown-dollar-member", `{"$foo":1}`}, {"directive-inside-unknown-field", `{"foo":{"$patch":"replace","a":1}}`},
	} {
		strategic(c.name, c.patch)
	}
	for _, c := range []struct{ name, patch string }{
		{"events-series-starts", `{"series":{"count":2,"lastObservedTime":"2024-01-01T00:00:01.000000Z"}}`}, {"events-note", `{"note":"x"}`}, {"events-core-spelling", `{"message":"x","involvedObject":{"name":"q"}}`}, {"events-deprecated-fields", `{"deprecatedCount":3,"deprecatedSource":{"host":"h"},"deprecatedFirstTimestamp":"2024-01-01T00:00:00Z"}`}, {"events-regarding", `{"regarding":{"fieldPath":"x","name":null}}`}, {"events-labels-from-nothing", `{"metadata":{"labels":{"a":"b","c":null}}}`}, {"events-finalizers-from-nothing", `{"metadata":{"finalizers":["x/a"]}}`}, {"events-owners-from-nothing", `{"metadata":{"ownerReferences":[{"uid":"1","name":"n"}]}}`}, {"events-whole-event", patchedEvents},
	} {
		add("strategic", c.name, eventsAPI, patchedEvents, lit(c.patch))
		add("merge", c.name, eventsAPI, patchedEvents, lit(c.patch))
	}

	// JSON Patch.
	for _, c := range []struct{ name, patch string }{
		{"nothing", `[]`}, {"replace", `[{"op":"replace","path":"/reason","value":"X"}]`}, {"replace-absent", `[{"op":"replace","path":"/action","value":"X"}]`}, {"replace-in-absent-parent", `[{"op":"replace","path":"/series/count","value":2}]`}, {"replace-null-member", `[{"op":"replace","path":"/eventTime","value":"2024-01-01T00:00:00.000000Z"}]`}, {"replace-by-null", `[{"op":"replace","path":"/reason","value":null}]`}, {"replace-without-value", `[{"op":"replace","path":"/reason"}]`}, {"replace-root", `[{"op":"replace","path":"","value":{"kind":"Event","apiVersion":"v1","metadata":{"name":"e","namespace":"ns","uid":"u"},"reason":"new"}}]`}, {"replace-slash", `[{"op":"replace","path":"/","value":{}}]`},
		{"add", `[{"op":"add","path":"/action","value":"A"}]`}, {"add-over-existing", `[{"op":"add","path":"/reason","value":"X"}]`}, {"add-in-absent-parent", `[{"op":"add","path":"/series/count","value":2}]`}, {"add-object", `[{"op":"add","path":"/series","value":{"count":2}}]`}, {"add-label", `[{"op":"add","path":"/metadata/labels/c","value":"3"}]`}, {"add-label-with-slash", `[{"op":"add","path":"/metadata/labels/example.com~1c","value":"3"}]`}, {"add-with-tilde", `[{"op":"add","path":"/metadata/annotations/a~0b","value":"3"}]`}, {"add-without-value", `[{"op":"add","path":"/action"}]`}, {"add-unknown-field", `[{"op":"add","path":"/foo","value":1}]`}, {"add-root", `[{"op":"add","path":"","value":{}}]`},
		{"array-append", `[{"op":"add","path":"/metadata/finalizers/-","value":"x/c"}]`}, {"array-insert-first", `[{"op":"add","path":"/metadata/finalizers/0","value":"x/c"}]`}, {"array-insert-at-end", `[{"op":"add","path":"/metadata/finalizers/2","value":"x/c"}]`}, {"array-insert-beyond-end", `[{"op":"add","path":"/metadata/finalizers/3","value":"x"}]`}, {"array-insert-negative", `[{"op":"add","path":"/metadata/finalizers/-1","value":"x"}]`}, {"array-insert-far-negative", `[{"op":"add","path":"/metadata/finalizers/-4","value":"x"}]`}, {"array-index-not-a-number", `[{"op":"add","path":"/metadata/finalizers/x","value":"x"}]`}, {"array-index-leading-zero", `[{"op":"replace","path":"/metadata/finalizers/01","value":"x"}]`}, {"array-index-plus", `[{"op":"replace","path":"/metadata/finalizers/+1","value":"x"}]`}, {"array-index-huge", `[{"op":"replace","path":"/metadata/finalizers/99999999999999999999","value":"x"}]`}, {"array-replace", `[{"op":"replace","path":"/metadata/finalizers/1","value":"x/z"}]`}, {"array-replace-beyond-end", `[{"op":"replace","path":"/metadata/finalizers/2","value":"x"}]`}, {"array-replace-dash", `[{"op":"replace","path":"/metadata/finalizers/-","value":"x"}]`}, {"array-replace-negative", `[{"op":"replace","path":"/metadata/finalizers/-1","value":"x"}]`}, {"array-remove", `[{"op":"remove","path":"/metadata/finalizers/0"}]`}, {"array-remove-beyond-end", `[{"op":"remove","path":"/metadata/finalizers/2"}]`}, {"array-remove-negative", `[{"op":"remove","path":"/metadata/finalizers/-1"}]`}, {"array-remove-far-negative", `[{"op":"remove","path":"/metadata/finalizers/-9"}]`}, {"array-remove-dash", `[{"op":"remove","path":"/metadata/finalizers/-"}]`}, {"array-element-member", `[{"op":"replace","path":"/metadata/ownerReferences/1/name","value":"x"}]`}, {"array-element-member-negative", `[{"op":"replace","path":"/metadata/ownerReferences/-1/name","value":"x"}]`}, {"array-element-beyond-end-member", `[{"op":"replace","path":"/metadata/ownerReferences/2/name","value":"x"}]`},
		{"remove", `[{"op":"remove","path":"/reason"}]`}, {"remove-absent", `[{"op":"remove","path":"/action"}]`}, {"remove-in-absent-parent", `[{"op":"remove","path":"/series/count"}]`}, {"remove-label", `[{"op":"remove","path":"/metadata/labels/a"}]`}, {"remove-with-escapes", `[{"op":"remove","path":"/metadata/annotations/x~0y~1z"}]`}, {"remove-root", `[{"op":"remove","path":""}]`}, {"remove-metadata", `[{"op":"remove","path":"/metadata"}]`}, {"remove-kind", `[{"op":"remove","path":"/kind"}]`}, {"remove-null-member", `[{"op":"remove","path":"/eventTime"}]`},
		{"move", `[{"op":"move","from":"/message","path":"/action"}]`}, {"move-absent", `[{"op":"move","from":"/action","path":"/reason"}]`}, {"move-onto-itself", `[{"op":"move","from":"/reason","path":"/reason"}]`}, {"move-into-itself", `[{"op":"move","from":"/source","path":"/source/x"}]`}, {"move-label", `[{"op":"move","from":"/metadata/labels/a","path":"/metadata/labels/z"}]`}, {"move-in-array", `[{"op":"move","from":"/metadata/finalizers/0","path":"/metadata/finalizers/1"}]`}, {"move-to-array-end", `[{"op":"move","from":"/metadata/finalizers/0","path":"/metadata/finalizers/-"}]`}, {"move-without-from", `[{"op":"move","path":"/reason"}]`}, {"move-of-wrong-type", `[{"op":"move","from":"/source","path":"/reason"}]`},
		{"copy", `[{"op":"copy","from":"/reason","path":"/action"}]`}, {"copy-absent", `[{"op":"copy","from":"/action","path":"/reason"}]`}, {"copy-object", `[{"op":"copy","from":"/involvedObject","path":"/related"}]`}, {"copy-then-change", `[{"op":"copy","from":"/involvedObject","path":"/related"},{"op":"replace","path":"/related/name","value":"x"}]`}, {"copy-null", `[{"op":"copy","from":"/eventTime","path":"/firstTimestamp"}]`}, {"copy-in-array", `[{"op":"copy","from":"/metadata/finalizers/0","path":"/metadata/finalizers/-"}]`}, {"copy-without-from", `[{"op":"copy","path":"/reason"}]`},
		{"test-string", `[{"op":"test","path":"/reason","value":"R"}]`}, {"test-string-differs", `[{"op":"test","path":"/reason","value":"X"}]`}, {"test-number", `[{"op":"test","path":"/count","value":1}]`}, {"test-number-as-fraction", `[{"op":"test","path":"/count","value":1.0}]`}, {"test-number-as-exponent", `[{"op":"test","path":"/count","value":1e0}]`}, {"test-number-as-string", `[{"op":"test","path":"/count","value":"1"}]`}, {"test-null", `[{"op":"test","path":"/eventTime","value":null}]`}, {"test-absent-is-null", `[{"op":"test","path":"/action","value":null}]`}, {"test-absent-is-string", `[{"op":"test","path":"/action","value":"x"}]`}, {"test-present-is-null", `[{"op":"test","path":"/reason","value":null}]`}, {"test-without-value", `[{"op":"test","path":"/reason"}]`}, {"test-absent-without-value", `[{"op":"test","path":"/action"}]`}, {"test-object", `[{"op":"test","path":"/source","value":{"host":"h","component":"c"}}]`}, {"test-object-with-less", `[{"op":"test","path":"/source","value":{"host":"h"}}]`}, {"test-list", `[{"op":"test","path":"/metadata/finalizers","value":["x/a","x/b"]}]`}, {"test-list-order", `[{"op":"test","path":"/metadata/finalizers","value":["x/b","x/a"]}]`}, {"test-escaped-string", `[{"op":"test","path":"/reason","value":"\u0052"}]`}, {"test-root", `[{"op":"test","path":"","value":{}}]`}, {"test-in-absent-parent", `[{"op":"test","path":"/series/count","value":2}]`}, {"test-then-replace", `[{"op":"test","path":"/count","value":1},{"op":"replace","path":"/count","value":2}]`}, {"failing-test-undoes-all", `[{"op":"replace","path":"/count","value":2},{"op":"test","path":"/count","value":1}]`},
		{"op-missing", `[{"path":"/reason","value":"X"}]`}, {"op-unknown", `[{"op":"explode","path":"/reason"}]`}, {"op-upper-case", `[{"op":"Replace","path":"/reason","value":"X"}]`}, {"op-not-a-string", `[{"op":1,"path":"/reason"}]`}, {"op-null", `[{"op":null,"path":"/reason"}]`}, {"path-missing", `[{"op":"replace","value":"X"}]`}, {"path-not-a-string", `[{"op":"replace","path":1,"value":"X"}]`}, {"path-null", `[{"op":"replace","path":null,"value":"X"}]`}, {"path-without-slash", `[{"op":"replace","path":"reason","value":"X"}]`}, {"path-with-trailing-slash", `[{"op":"replace","path":"/reason/","value":"X"}]`}, {"path-through-string", `[{"op":"add","path":"/reason/x","value":"X"}]`}, {"path-with-bad-escape", `[{"op":"add","path":"/metadata/labels/a~2b","value":"X"}]`}, {"path-with-trailing-tilde", `[{"op":"add","path":"/metadata/labels/a~","value":"X"}]`}, {"from-not-a-string", `[{"op":"copy","from":1,"path":"/reason"}]`},
		{"unknown-member-in-operation", `[{"op":"replace","path":"/reason","value":"X","foo":1}]`}, {"duplicate-member-in-operation", `[{"op":"replace","path":"/reason","value":"X","value":"Y"}]`}, {"letter-case-in-operation", `[{"OP":"replace","path":"/reason","value":"X"}]`}, {"adds-duplicate-and-unknown", `[{"op":"add","path":"/foo","value":1,"bar":2}]`},
		{"wrong-type", `[{"op":"replace","path":"/count","value":"x"}]`}, {"bad-time", `[{"op":"replace","path":"/firstTimestamp","value":"x"}]`}, {"kind-changed", `[{"op":"replace","path":"/kind","value":"Pod"}]`}, {"name-changed", `[{"op":"replace","path":"/metadata/name","value":"other"}]`}, {"namespace-changed", `[{"op":"replace","path":"/metadata/namespace","value":"other"}]`}, {"second-operation-fails", `[{"op":"replace","path":"/reason","value":"X"},{"op":"remove","path":"/nothing"}]`},
		{"object-instead-of-list", `{"op":"replace","path":"/reason","value":"X"}`}, {"null", `null`}, {"string", `"x"`}, {"list-of-strings", `["x"]`}, {"list-of-null", `[null]`}, {"list-of-lists", `[[]]`}, {"empty-operation", `[{}]`}, {"empty-body", ``}, {"truncated", `[{"op":"replace"`}, {"trailing-garbage", `[]x`}, {"value-of-large-number", `[{"op":"add","path":"/metadata/generation","value":9223372036854775807}]`}, {"value-of-fraction", `[{"op":"replace","path":"/count","value":2.0}]`}, {"html-characters", `[{"op":"replace","path":"/message","value":"<&>"}]`},
	} {
		jsonPatch(c.name, c.patch)
	}
	const noop = `{"op":"test","path":"/reason","value":"R"}`
	add("json", "of-10000-operations", coreAPI, patched, lit(`[`).repeat(noop+`,`, 9999).then(noop+`]`))
	add("json", "of-10001-operations", coreAPI, patched, lit(`[`).repeat(noop+`,`, 10000).then(noop+`]`))
	// What copies add up to is limited to three mebibytes.
	for _, n := range []int{31, 32} {
		add("json", "of-"+itoa(n)+"-copies-of-100-kilobytes", coreAPI, patched, lit(`[{"op":"add","path":"/metadata/annotations/b","value":"`).repeat("v", 100000).then(`"}`).
			repeat(`,{"op":"copy","from":"/metadata/annotations/b","path":"/metadata/annotations/c"}`, n).then(`]`))
	}
	add("json", "events-note", eventsAPI, patchedEvents, lit(`[{"op":"replace","path":"/note","value":"x"},{"op":"add","path":"/series","value":{"count":2,"lastObservedTime":"2024-01-01T00:00:01.000000Z"}}]`))
	add("json", "events-core-spelling", eventsAPI, patchedEvents, lit(`[{"op":"replace","path":"/message","value":"x"}]`))
	return out
}
