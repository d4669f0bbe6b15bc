package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"

	appsv1 "k8s.io/api/apps/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// referenceVectors builds references to objects. "typed" names the Go type an
// object was read into, whose kind the scheme knows; without it the object is
// unstructured and must say what it is.
func referenceVectors() []vector {
	var out []vector
	add := func(name, text, fieldPath string, typed runtime.Object, typeName string) {
		var obj runtime.Object = typed
		if typed == nil {
			u := &unstructured.Unstructured{}
			mustJSON([]byte(text), &u.Object)
			obj = u
			if _, ok := u.Object["items"]; ok {
				obj = must1(u.ToList())
			}
		} else {
			mustJSON([]byte(text), typed)
		}
		v := named(name).text("object", []byte(text))
		if typeName != "" {
			v = v.with("typed", typeName)
		}
		var ref *corev1.ObjectReference
		var err error
		if fieldPath != "" {
			v = v.with("field_path", fieldPath)
			ref, err = reference.GetPartialReference(scheme.Scheme, obj, fieldPath)
		} else {
			ref, err = reference.GetReference(scheme.Scheme, obj)
		}
		if err != nil {
			out = append(out, v.with("ok", false).with("error", err.Error()))
			return
		}
		out = append(out, v.with("ok", true).with("reference_json", string(compact(ref))))
	}
	const meta = `"metadata":{"name":"web-0","namespace":"default","uid":"u-1","resourceVersion":"17","generation":2,"labels":{"a":"b"}}`
	const clusterMeta = `"metadata":{"name":"node-1","uid":"u-2","resourceVersion":"18"}`

	add("pod-that-says-its-kind", `{"kind":"Pod","apiVersion":"v1",`+meta+`}`, "", &corev1.Pod{}, "v1.Pod")
	add("pod-without-kind", `{`+meta+`}`, "", &corev1.Pod{}, "v1.Pod")
	add("pod-with-only-kind", `{"kind":"Pod",`+meta+`}`, "", &corev1.Pod{}, "v1.Pod")
	add("pod-with-only-version", `{"apiVersion":"v1",`+meta+`}`, "", &corev1.Pod{}, "v1.Pod")
	add("pod-that-says-another-kind", `{"kind":"Web","apiVersion":"example.com/v2",`+meta+`}`, "", &corev1.Pod{}, "v1.Pod")
	add("pod-with-container", `{"kind":"Pod","apiVersion":"v1",`+meta+`}`, "spec.containers{web}", &corev1.Pod{}, "v1.Pod")
	add("node-without-kind", `{`+clusterMeta+`}`, "", &corev1.Node{}, "v1.Node")
	add("namespace-without-kind", `{`+clusterMeta+`}`, "", &corev1.Namespace{}, "v1.Namespace")
	add("cluster-role-without-kind", `{`+clusterMeta+`}`, "", &rbacv1.ClusterRole{}, "rbac.authorization.k8s.io/v1.ClusterRole")
	add("deployment-without-kind", `{`+meta+`}`, "", &appsv1.Deployment{}, "apps/v1.Deployment")
	add("event-without-kind", `{`+meta+`}`, "", &corev1.Event{}, "v1.Event")
	add("new-event-without-kind", `{`+meta+`}`, "", &eventsv1.Event{}, "events.k8s.io/v1.Event")
	add("pod-with-nothing-set", `{}`, "", &corev1.Pod{}, "v1.Pod")
	add("pod-list", `{"metadata":{"resourceVersion":"99"},"items":[]}`, "", &corev1.PodList{}, "v1.PodList")
	add("reference-itself", `{"kind":"Pod","namespace":"default","name":"web-0","uid":"u-1","apiVersion":"v1","resourceVersion":"17","fieldPath":"status"}`, "", &corev1.ObjectReference{}, "v1.ObjectReference")
	add("reference-itself-with-other-field-path", `{"kind":"Pod","name":"web-0","fieldPath":"status"}`, "spec", &corev1.ObjectReference{}, "v1.ObjectReference")
	add("empty-reference", `{}`, "", &corev1.ObjectReference{}, "v1.ObjectReference")

	add("unstructured-pod", `{"kind":"Pod","apiVersion":"v1",`+meta+`}`, "", nil, "")
	add("unstructured-node", `{"kind":"Node","apiVersion":"v1",`+clusterMeta+`}`, "", nil, "")
	add("unstructured-custom", `{"kind":"Widget","apiVersion":"example.com/v1alpha1",`+meta+`}`, "", nil, "")
	add("unstructured-custom-with-field-path", `{"kind":"Widget","apiVersion":"example.com/v1alpha1",`+meta+`}`, "spec.parts[2]", nil, "")
	add("unstructured-without-kind", `{"apiVersion":"example.com/v1",`+meta+`}`, "", nil, "")
	add("unstructured-without-version", `{"kind":"Widget",`+meta+`}`, "", nil, "")
	add("unstructured-without-either", `{`+meta+`}`, "", nil, "")
	add("unstructured-without-metadata", `{"kind":"Widget","apiVersion":"example.com/v1"}`, "", nil, "")
	add("unstructured-with-null-metadata", `{"kind":"Widget","apiVersion":"example.com/v1","metadata":null}`, "", nil, "")
	add("unstructured-with-odd-version", `{"kind":"Widget","apiVersion":"a/b/c",`+meta+`}`, "", nil, "")
	add("unstructured-with-empty-version", `{"kind":"Widget","apiVersion":"",`+meta+`}`, "", nil, "")
	add("unstructured-with-number-as-name", `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":7}}`, "", nil, "")
	add("unstructured-with-odd-text", `{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"<&>\u2028"}}`, "", nil, "")
	add("unstructured-list", `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"99"},"items":[]}`, "", nil, "")
	return out
}
