package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/event"
)

// fixedNames completes generateName like the server, with a suffix that does
// not change from run to run.
type fixedNames struct{ rest.RESTCreateStrategy }

func (s fixedNames) GenerateName(base string) string {
	name := s.RESTCreateStrategy.GenerateName(base)
	return name[:len(name)-5] + "bcdfg"
}

// validationVectors runs what the registry runs before it stores: the whole of
// create or update, so that the order of the layers is upstream's.
func validationVectors() []vector {
	var out []vector
	for _, c := range validationSamples() {
		for _, a := range c.apis {
			v := named(a.name+"-"+c.op+"-"+c.name).with("api", a.name).with("op", c.op)
			v = v.input("object", c.object)
			if c.op == "update" {
				v = v.input("old", c.old)
			}
			err := validate(a, c)
			v = v.with("ok", err == nil)
			if err != nil {
				var status apierrors.APIStatus
				if !errors.As(err, &status) {
					panic(err)
				}
				body := a.refusal(jsonType, err)
				v = v.with("http_code", status.Status().Code).text("status_json", body)
			}
			out = append(out, v)
		}
	}
	return out
}

func validate(a *api, c validationSample) error {
	read := func(r recipe) *core.Event {
		e, err := coreAPI.decode(r.bytes())
		if err != nil {
			panic(fmt.Sprintf("%s: %v", c.name, err))
		}
		return e
	}
	obj := read(c.object)
	ctx := request.WithRequestInfo(context.Background(), a.requestInfo("POST"))
	ctx = request.WithNamespace(ctx, obj.Namespace)
	if c.op == "update" {
		old := read(c.old)
		// An update without a version is unconditional; by now the store
		// has put the current version in.
		if obj.ResourceVersion == "" {
			obj.ResourceVersion = old.ResourceVersion
		}
		return rest.BeforeUpdate(event.Strategy, ctx, obj, old)
	}
	strategy := fixedNames{event.Strategy}
	rest.WipeObjectMetaSystemFields(obj)
	obj.UID = "2b9b8b2e-0000-4000-8000-000000000001"
	obj.CreationTimestamp = metav1.NewTime(time.Unix(1700000000, 0))
	if obj.GenerateName != "" && obj.Name == "" {
		obj.Name = strategy.GenerateName(obj.GenerateName)
	}
	return rest.BeforeCreate(strategy, ctx, obj)
}

type validationSample struct {
	name        string
	apis        []*api
	op          string
	object, old recipe
}

// tree is an event as a document, for saying "the good one, except that".
type tree = map[string]any

func asRecipe(t tree) recipe {
	return lit(string(compact(t)))
}

// edit returns a copy of a document with one member replaced. A path leads
// through objects; the value nil removes the member.
func edit(base tree, path string, value any) tree {
	var copied tree
	must(json.Unmarshal(compact(base), &copied))
	keys := strings.Split(path, "/")
	at := copied
	for _, k := range keys[:len(keys)-1] {
		next, ok := at[k].(map[string]any)
		if !ok {
			next = tree{}
			at[k] = next
		}
		at = next
	}
	last := keys[len(keys)-1]
	if value == nil {
		delete(at, last)
	} else {
		at[last] = value
	}
	return copied
}

func validationSamples() []validationSample {
	var out []validationSample
	both := bothAPIs

	// legacy passes through core only; modern passes through both.
	legacy := tree{"metadata": tree{"name": "a", "namespace": "ns"}, "involvedObject": tree{"namespace": "ns"}}
	modern := tree{"metadata": tree{"name": "a", "namespace": "ns"}, "involvedObject": tree{"namespace": "ns"}, "eventTime": "2024-01-01T00:00:00.000000Z", "reportingComponent": "c", "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal"}

	create := func(name string, t tree) {
		out = append(out, validationSample{name, both, "create", asRecipe(t), nil})
	}
	createIn := func(a *api, name string, t tree) {
		out = append(out, validationSample{name, []*api{a}, "create", asRecipe(t), nil})
	}
	with := func(name, path string, value any) { create(name, edit(modern, path, value)) }

	create("good", modern)
	create("legacy", legacy)
	create("empty", tree{})

	// The namespace rules.
	for _, timed := range []bool{false, true} {
		for _, ns := range []string{"", "default", "kube-system", "ns", "Bad_Ns", strings.Repeat("n", 63), strings.Repeat("n", 64), "a.b"} {
			for _, about := range []string{"", "ns"} {
				base := legacy
				label := "legacy"
				if timed {
					base, label = modern, "modern"
				}
				t := edit(edit(base, "metadata/namespace", ns), "involvedObject/namespace", about)
				short := ns
				if len(ns) > 20 {
					short = fmt.Sprintf("%d-letters", len(ns))
				}
				create(fmt.Sprintf("%s-event-in-%q-about-%q", label, short, about), t)
			}
		}
	}
	create("legacy-with-everything-else-wrong", edit(edit(edit(legacy, "type", "Nonsense"), "message", strings.Repeat("m", 2000)), "reason", strings.Repeat("r", 200)))
	create("legacy-series-of-one", edit(legacy, "series", tree{"count": 1}))
	create("legacy-with-bad-reporting-component", edit(legacy, "reportingComponent", "not qualified!"))

	// The reporting controller is a qualified name.
	for _, s := range []string{"c", "example.com/c", "a.b.c/d_e.f-g", "C", "9", "-c", "c-", "_c", "c.", "a/b/c", "/c", "example.com/", "/", "Example.com/c", "exa_mple/c", "é", "a b", "", strings.Repeat("c", 63), strings.Repeat("c", 64), strings.Repeat("p", 253) + "/c", strings.Repeat("p", 254) + "/c", "p/" + strings.Repeat("c", 63), "p/" + strings.Repeat("c", 64)} {
		label := s
		if len(s) > 20 {
			label = fmt.Sprintf("%s-%d-bytes", s[:2], len(s))
		}
		with(fmt.Sprintf("reporting-component-%q", label), "reportingComponent", s)
	}

	// Lengths are counted in bytes.
	for _, f := range []struct {
		field string
		limit int
	}{{"reportingInstance", 128}, {"action", 128}, {"reason", 128}, {"message", 1024}} {
		with(f.field+"-missing", f.field, nil)
		with(f.field+"-empty", f.field, "")
		with(f.field+"-of-one-blank", f.field, " ")
		with(f.field+"-at-the-limit", f.field, strings.Repeat("x", f.limit))
		with(f.field+"-above-the-limit", f.field, strings.Repeat("x", f.limit+1))
		with(f.field+"-at-the-limit-in-two-byte-letters", f.field, strings.Repeat("é", f.limit/2))
		with(f.field+"-above-the-limit-in-two-byte-letters", f.field, strings.Repeat("é", f.limit/2+1))
	}

	// The strict layer.
	for _, s := range []string{"Normal", "Warning", "normal", "Error", "", " Normal", "<&>"} {
		with(fmt.Sprintf("type-%q", s), "type", s)
	}
	with("type-missing", "type", nil)
	with("event-time-missing", "eventTime", nil)
	with("event-time-zero", "eventTime", "0001-01-01T00:00:00.000000Z")
	with("event-time-zero-in-another-zone", "eventTime", "0001-01-01T01:00:00.000000+01:00")
	with("event-time-epoch", "eventTime", "1970-01-01T00:00:00.000000Z")
	const series = "2024-01-01T00:00:01.000000Z"
	for _, n := range []int{-1, 0, 1, 2, 3} {
		with(fmt.Sprintf("series-count-%d", n), "series", tree{"count": n, "lastObservedTime": series})
	}
	with("series-empty", "series", tree{})
	with("series-without-time", "series", tree{"count": 2})
	// A time that was given is set, even if it is the zero time and would be
	// written as null.
	with("series-with-zero-time", "series", tree{"count": 2, "lastObservedTime": "0001-01-01T00:00:00.000000Z"})
	with("first-timestamp-zero", "firstTimestamp", "0001-01-01T00:00:00Z")
	with("last-timestamp-zero", "lastTimestamp", "0001-01-01T00:00:00Z")
	with("first-timestamp-set", "firstTimestamp", "2024-01-01T00:00:00Z")
	with("last-timestamp-set", "lastTimestamp", "2024-01-01T00:00:00Z")
	with("count-set", "count", 1)
	with("count-negative", "count", -1)
	with("source-component-set", "source/component", "c")
	with("source-host-set", "source/host", "h")
	create("everything-deprecated-set", edit(edit(edit(edit(modern, "firstTimestamp", "2024-01-01T00:00:00Z"), "lastTimestamp", "2024-01-01T00:00:00Z"), "count", 1), "source", tree{"host": "h"}))
	create("everything-wrong-at-once", tree{"metadata": tree{"name": "Bad/Name", "namespace": "Ns"}, "eventTime": "2024-01-01T00:00:00.000000Z", "count": 1, "series": tree{}, "type": "x", "message": strings.Repeat("m", 1025)})
	create("nothing-but-event-time", tree{"metadata": tree{"name": "a", "namespace": "default"}, "eventTime": "2024-01-01T00:00:00.000000Z"})

	// Names.
	for _, s := range []string{"a", "web-0.17", "UPPER", "a_b", "a:b", "a/b", "a%b", ".", "..", "...", "a..b", "-a", "a-", "a.", ".a", "é", "a b", " ", "a\n", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a", 254), strings.Repeat("a.", 130) + "a"} {
		label := s
		if len(s) > 20 {
			label = fmt.Sprintf("%s-%d-bytes", s[:2], len(s))
		}
		with(fmt.Sprintf("name-%q", label), "metadata/name", s)
	}
	with("name-missing", "metadata/name", nil)
	for _, s := range []string{"a-", "a", "A-", "a.", "a/", "%", ".", "a_", "-", "é-", strings.Repeat("a", 58), strings.Repeat("a", 300), strings.Repeat("a", 57) + "/-"} {
		label := s
		if len(s) > 20 {
			label = fmt.Sprintf("%s-%d-bytes", s[:2], len(s))
		}
		create(fmt.Sprintf("generate-name-%q", label), edit(edit(modern, "metadata/name", nil), "metadata/generateName", s))
	}
	create("name-and-bad-generate-name", edit(modern, "metadata/generateName", "Bad/"))
	create("name-and-long-generate-name", edit(modern, "metadata/generateName", strings.Repeat("a", 300)))

	// Labels and annotations.
	for _, s := range []string{"app", "example.com/app", "App", "1", "a_b", "-a", "a-", "", "a/b/c", "/a", "a/", "é", "a b", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("p", 253) + "/a", strings.Repeat("p", 254) + "/a", "Example.com/a"} {
		label := s
		if len(s) > 20 {
			label = fmt.Sprintf("%s-%d-bytes", s[:2], len(s))
		}
		// Both layers check these alike, so each is asked through one door.
		createIn(eventsAPI, fmt.Sprintf("label-key-%q", label), edit(modern, "metadata", tree{"name": "a", "namespace": "ns", "labels": tree{s: "v"}}))
		createIn(coreAPI, fmt.Sprintf("annotation-key-%q", label), edit(modern, "metadata", tree{"name": "a", "namespace": "ns", "annotations": tree{s: "v <&>"}}))
	}
	for _, s := range []string{"", "v", "V.1_2-3", "-v", "v-", "a b", "a/b", "é", strings.Repeat("v", 63), strings.Repeat("v", 64)} {
		label := s
		if len(s) > 20 {
			label = fmt.Sprintf("%s-%d-bytes", s[:2], len(s))
		}
		createIn(coreAPI, fmt.Sprintf("label-value-%q", label), edit(modern, "metadata/labels", tree{"k": s}))
	}
	with("two-bad-labels-in-key-order", "metadata/labels", tree{"z": "-", "a": "-"})
	big := func(size int) recipe {
		head := `{"metadata":{"name":"a","namespace":"ns","annotations":{"k":"`
		return lit(head).repeat("v", size-1).then(`"}},` + strings.TrimPrefix(string(compact(edit(modern, "metadata", nil))), "{"))
	}
	for _, size := range []int{262144, 262145} {
		out = append(out, validationSample{fmt.Sprintf("annotations-of-%d-bytes", size), both, "create", big(size), nil})
	}

	// Owners, finalizers, managed fields.
	owner := func(changes tree) tree {
		o := tree{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}
		for k, v := range changes {
			if v == nil {
				delete(o, k)
			} else {
				o[k] = v
			}
		}
		return o
	}
	owners := func(name string, list ...tree) { with("owners-"+name, "metadata/ownerReferences", list) }
	owners("good", owner(nil))
	owners("good-controller", owner(tree{"controller": true, "blockOwnerDeletion": true}))
	owners("without-version", owner(tree{"apiVersion": nil}))
	owners("without-kind", owner(tree{"kind": nil}))
	owners("without-name", owner(tree{"name": nil}))
	owners("without-uid", owner(tree{"uid": nil}))
	owners("empty", tree{})
	owners("bad-version", owner(tree{"apiVersion": "a/b/c"}))
	owners("odd-version", owner(tree{"apiVersion": "apps/"}))
	owners("an-event", owner(tree{"apiVersion": "v1", "kind": "Event"}))
	owners("an-event-of-the-new-group", owner(tree{"apiVersion": "events.k8s.io/v1", "kind": "Event"}))
	owners("two-controllers", owner(tree{"controller": true}), owner(tree{"controller": true, "uid": "u2", "name": "other"}))
	owners("one-controller-of-two", owner(tree{"controller": true}), owner(tree{"controller": false, "uid": "u2"}))
	owners("same-uid-twice", owner(nil), owner(nil))
	owners("second-is-bad", owner(nil), owner(tree{"uid": nil, "kind": nil}))
	for _, f := range []string{"example.com/f", "f", "orphan", "foregroundDeletion", "kubernetes", "", "bad finalizer", "a/b/c", strings.Repeat("f", 64)} {
		label := f
		if len(f) > 20 {
			label = fmt.Sprintf("%d-bytes", len(f))
		}
		with(fmt.Sprintf("finalizer-%q", label), "metadata/finalizers", []string{f})
	}
	with("finalizers-orphan-and-foreground", "metadata/finalizers", []string{"orphan", "foregroundDeletion"})
	with("finalizers-second-bad", "metadata/finalizers", []string{"example.com/f", "-"})
	managed := func(name string, entries ...tree) { with("managed-"+name, "metadata/managedFields", entries) }
	entry := func(changes tree) tree {
		e := tree{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": tree{"f:count": tree{}}}
		for k, v := range changes {
			e[k] = v
		}
		return e
	}
	managed("good", entry(nil))
	managed("empty-entry", tree{})
	managed("bad-operation", entry(tree{"operation": "Delete"}))
	managed("no-operation", entry(tree{"operation": ""}))
	managed("bad-fields-type", entry(tree{"fieldsType": "FieldsV2"}))
	managed("no-fields-type", entry(tree{"fieldsType": ""}))
	managed("long-manager", entry(tree{"manager": strings.Repeat("m", 129)}))
	managed("manager-at-the-limit", entry(tree{"manager": strings.Repeat("m", 128)}))
	managed("unprintable-manager", entry(tree{"manager": "a\u0001b"}))
	managed("long-subresource", entry(tree{"subresource": strings.Repeat("s", 257)}))
	managed("apply", entry(tree{"operation": "Apply"}))

	// Other metadata.
	with("generation-set", "metadata/generation", 5)
	with("generation-negative", "metadata/generation", -1)
	with("grace-period-set", "metadata/deletionGracePeriodSeconds", 5)
	with("self-link-set", "metadata/selfLink", "/x")
	with("resource-version-set", "metadata/resourceVersion", "5")
	create("labels-and-strict-errors-together", edit(edit(modern, "metadata/labels", tree{"-": "v"}), "count", 1))
	create("labels-wrong-on-a-legacy-event", edit(legacy, "metadata/labels", tree{"-": "v"}))
	create("name-wrong-and-namespace-rule-broken", edit(edit(legacy, "metadata/name", "a/b"), "involvedObject/namespace", "other"))

	// Updates.
	stored := edit(edit(edit(modern, "metadata/uid", "u-1"), "metadata/resourceVersion", "10"), "metadata/creationTimestamp", "2024-01-01T00:00:00Z")
	change := func(name string, old, t tree) {
		out = append(out, validationSample{name, both, "update", asRecipe(t), asRecipe(old)})
	}
	set := func(name, path string, value any) { change(name, stored, edit(stored, path, value)) }
	change("nothing", stored, stored)
	for _, f := range []string{"reason", "message", "type", "action", "reportingComponent", "reportingInstance"} {
		set(f+"-changed", f, "Changed")
		set(f+"-removed", f, nil)
	}
	set("message-with-odd-text", "message", "<&>\u2028\"")
	set("involved-object-name-changed", "involvedObject/name", "q")
	set("involved-object-removed", "involvedObject", nil)
	set("involved-object-every-field", "involvedObject", tree{"kind": "Node", "namespace": "ns", "name": "n", "uid": "u", "apiVersion": "v1", "resourceVersion": "1", "fieldPath": "f"})
	set("source-changed", "source", tree{"component": "c", "host": "h"})
	set("first-timestamp-changed", "firstTimestamp", "2024-01-02T00:00:00Z")
	set("last-timestamp-changed", "lastTimestamp", "2024-01-02T00:00:00Z")
	set("count-changed", "count", 2)
	set("count-negative", "count", -2)
	set("event-time-changed", "eventTime", "2024-01-01T00:00:00.000001Z")
	set("event-time-in-another-zone", "eventTime", "2024-01-01T01:00:00.000000+01:00")
	set("event-time-removed", "eventTime", nil)
	set("related-added", "related", tree{"name": "r"})
	change("related-removed", edit(stored, "related", tree{"name": "r"}), stored)
	change("related-changed", edit(stored, "related", tree{"name": "r"}), edit(stored, "related", tree{"name": "s"}))
	set("series-added", "series", tree{"count": 2, "lastObservedTime": series})
	set("series-added-too-small", "series", tree{"count": 1, "lastObservedTime": series})
	set("series-added-without-time", "series", tree{"count": 2})
	withBadSeries := edit(stored, "series", tree{"count": 1})
	change("bad-series-kept", withBadSeries, withBadSeries)
	change("bad-series-removed", withBadSeries, stored)
	change("series-counts-on", edit(stored, "series", tree{"count": 2, "lastObservedTime": series}), edit(stored, "series", tree{"count": 3, "lastObservedTime": "2024-01-01T00:00:02.000000Z"}))
	change("many-fields-changed", stored, edit(edit(edit(edit(stored, "reason", "X"), "action", "Y"), "count", 3), "type", "Warning"))
	set("reason-too-long", "reason", strings.Repeat("r", 129))
	set("message-too-long", "message", strings.Repeat("m", 1025))
	set("labels-added", "metadata/labels", tree{"a": "b"})
	set("bad-label-added", "metadata/labels", tree{"a": "-"})
	set("uid-removed", "metadata/uid", nil)
	set("uid-changed", "metadata/uid", "u-2")
	set("name-changed", "metadata/name", "b")
	set("namespace-changed", "metadata/namespace", "other")
	set("resource-version-changed", "metadata/resourceVersion", "9")
	set("creation-timestamp-changed", "metadata/creationTimestamp", "2025-01-01T00:00:00Z")
	set("creation-timestamp-removed", "metadata/creationTimestamp", nil)
	set("deletion-timestamp-added", "metadata/deletionTimestamp", "2025-01-01T00:00:00Z")
	set("grace-period-added", "metadata/deletionGracePeriodSeconds", 5)
	deleting := edit(edit(edit(stored, "metadata/deletionTimestamp", "2025-01-01T00:00:00Z"), "metadata/deletionGracePeriodSeconds", 0), "metadata/finalizers", []string{"example.com/f"})
	change("deletion-timestamp-removed", deleting, edit(deleting, "metadata/deletionTimestamp", nil))
	change("grace-period-changed-while-deleting", deleting, edit(deleting, "metadata/deletionGracePeriodSeconds", 5))
	change("finalizer-added-while-deleting", deleting, edit(deleting, "metadata/finalizers", []string{"example.com/f", "example.com/g"}))
	change("finalizer-removed-while-deleting", deleting, edit(deleting, "metadata/finalizers", nil))
	set("generation-changed", "metadata/generation", 7)
	set("bad-finalizer-added", "metadata/finalizers", []string{"-"})
	set("owner-without-uid-added", "metadata/ownerReferences", []tree{owner(tree{"uid": nil})})
	oldLegacy := edit(edit(edit(edit(legacy, "metadata/uid", "u-1"), "metadata/resourceVersion", "10"), "metadata/creationTimestamp", "2024-01-01T00:00:00Z"), "count", 1)
	change("legacy-counts-on", oldLegacy, edit(edit(oldLegacy, "count", 2), "lastTimestamp", "2024-01-02T00:00:00Z"))
	change("legacy-namespace-rule-broken", oldLegacy, edit(oldLegacy, "involvedObject/namespace", "other"))
	change("legacy-gets-event-time", oldLegacy, edit(oldLegacy, "eventTime", "2024-01-01T00:00:00.000000Z"))
	change("no-resource-version-anywhere", edit(stored, "metadata/resourceVersion", nil), edit(stored, "metadata/resourceVersion", nil))
	return out
}
