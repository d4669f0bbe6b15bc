package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/pager"
	watchtools "k8s.io/client-go/tools/watch"
)

// withoutWire is for looking at the server without it being noted.
func withoutWire(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.WrapTransport = nil
	return config
}

// hostless hides the machine's name, which tools/events appends.
func hostless(instance string) string {
	if host, err := os.Hostname(); err == nil {
		return strings.ReplaceAll(instance, host, "HOST")
	}
	return instance
}

var moment = metav1.NewMicroTime(time.Date(2023, 11, 14, 22, 13, 20, 123456000, time.UTC))

func coreEvent(name string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": "web"}},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "web", UID: "pod-1"},
		Reason:         "Started", Message: "started", Type: corev1.EventTypeNormal, Count: 1,
		FirstTimestamp: metav1.NewTime(moment.Time), LastTimestamp: metav1.NewTime(moment.Time),
		Source: corev1.EventSource{Component: "suite"},
	}
}

func newEvent(name string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": "web"}},
		EventTime:  moment, ReportingController: "suite", ReportingInstance: "suite-0", Action: "Binding", Reason: "Scheduled",
		Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "web", UID: "pod-1"},
		Note:      "bound", Type: corev1.EventTypeNormal,
	}
}

// tellError says of an error what a program decides by.
func (s session) tellError(what string, err error) {
	if err == nil {
		s.say("%s: no error", what)
		return
	}
	s.say("%s: %s: %s", what, apierrors.ReasonForError(err), plain(err.Error()))
}

// objects is what the typed clients of both groups have in common.
type objects[T runtime.Object, L runtime.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
}

func typedCore(mediaType string) func(session) {
	return func(s session) {
		s.config.ContentType = mediaType
		exercise(s, s.client().CoreV1().Events(namespace), coreEvent,
			func(event *corev1.Event) { event.Count++ }, `{"count":7,"message":"patched"}`,
			func(event *corev1.Event) string { return fmt.Sprintf("count %d, %s", event.Count, event.Message) },
			"involvedObject.name=web,reason=Started")
	}
}

func typedNew(mediaType string) func(session) {
	return func(s session) {
		s.config.ContentType = mediaType
		exercise(s, s.client().EventsV1().Events(namespace), newEvent,
			func(event *eventsv1.Event) {
				event.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: moment}
			}, `{"series":{"count":3}}`,
			func(event *eventsv1.Event) string {
				return fmt.Sprintf("series %v, %s, %s", event.Series != nil && event.Series.Count > 0, event.Note,
					event.EventTime.UTC().Format(metav1.RFC3339Micro))
			},
			"regarding.name=web,reason=Scheduled")
	}
}

func exercise[T runtime.Object, L runtime.Object](s session, client objects[T, L], event func(string) T, change func(T),
	patch string, tell func(T) string, selector string) {
	accessor := meta.NewAccessor()
	version := func(object runtime.Object) string { return must(accessor.ResourceVersion(object)) }
	created := must(client.Create(s.ctx, event("a"), metav1.CreateOptions{}))
	s.say("created %s: %s", must(accessor.Name(created)), tell(created))
	_, err := client.Create(s.ctx, event("a"), metav1.CreateOptions{})
	s.tellError("created again", err)
	watcher := must(client.Watch(s.ctx, metav1.ListOptions{ResourceVersion: version(created)}))

	change(created)
	stale := created.DeepCopyObject().(T)
	updated := must(client.Update(s.ctx, created, metav1.UpdateOptions{}))
	s.say("updated: %s, newer: %t", tell(updated), newer(version(updated), version(stale)))
	_, err = client.Update(s.ctx, stale, metav1.UpdateOptions{})
	s.tellError("updated what is stale", err)
	patched := must(client.Patch(s.ctx, "a", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}))
	s.say("patched: %s", tell(patched))
	_, err = client.Patch(s.ctx, "nothing", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	s.tellError("patched what is missing", err)
	_, err = client.Get(s.ctx, "nothing", metav1.GetOptions{})
	s.tellError("got what is missing", err)
	s.say("got: %s", tell(must(client.Get(s.ctx, "a", metav1.GetOptions{}))))

	must(client.Create(s.ctx, event("b"), metav1.CreateOptions{}))
	must(client.Create(s.ctx, event("c"), metav1.CreateOptions{}))
	page := must(client.List(s.ctx, metav1.ListOptions{Limit: 2}))
	listed := must(meta.ListAccessor(page))
	s.say("page: %s, more: %t, remaining: %d", names(page), listed.GetContinue() != "", *listed.GetRemainingItemCount())
	s.say("rest: %s", names(must(client.List(s.ctx, metav1.ListOptions{Limit: 2, Continue: listed.GetContinue()}))))
	s.say("selected: %s", names(must(client.List(s.ctx, metav1.ListOptions{LabelSelector: "app in (web)", FieldSelector: selector}))))
	_, err = client.List(s.ctx, metav1.ListOptions{FieldSelector: "nonsense=1"})
	s.tellError("selected by nonsense", err)
	_, err = client.Watch(s.ctx, metav1.ListOptions{LabelSelector: "a b"})
	s.tellError("watched by nonsense", err)

	must0(client.Delete(s.ctx, "a", metav1.DeleteOptions{}))
	s.tellError("deleted again", client.Delete(s.ctx, "a", metav1.DeleteOptions{}))
	other := types.UID("other")
	s.tellError("deleted another", client.Delete(s.ctx, "b", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}))
	must0(client.DeleteCollection(s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=web"}))
	s.say("left: %s", names(must(client.List(s.ctx, metav1.ListOptions{}))))
	for range 7 {
		s.next(watcher)
	}
	watcher.Stop()
}

// next tells the next event of a watch.
func (s session) next(watcher watch.Interface) {
	select {
	case event, open := <-watcher.ResultChan():
		if !open {
			s.say("watch ended")
			return
		}
		if status, isStatus := event.Object.(*metav1.Status); isStatus {
			s.say("watch: %s %s", event.Type, status.Reason)
			return
		}
		kind := event.Object.GetObjectKind().GroupVersionKind().Kind
		s.say("watch: %s %s%s", event.Type, kind, must(meta.NewAccessor().Name(event.Object)))
	case <-s.ctx.Done():
		s.say("watch: NEVER CAME")
	}
}

func newer(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

func names(list runtime.Object) string {
	var names []string
	must0(meta.EachListItem(list, func(object runtime.Object) error {
		names = append(names, must(meta.NewAccessor().Name(object)))
		return nil
	}))
	return "[" + strings.Join(names, " ") + "]"
}

func (s session) fill(names ...string) {
	client := must(eventsClient(withoutWire(s.config)))
	for _, name := range names {
		must(client.Create(s.ctx, coreEvent(name), metav1.CreateOptions{}))
	}
}

func dynamicClient(s session) {
	s.fill("a", "b")
	client := must(dynamic.NewForConfig(s.config))
	for _, version := range []schema.GroupVersion{corev1.SchemeGroupVersion, eventsv1.SchemeGroupVersion} {
		resource := client.Resource(version.WithResource("events")).Namespace(namespace)
		list := must(resource.List(s.ctx, metav1.ListOptions{}))
		s.say("%s of %s: %s; items are %s", list.GetKind(), list.GetAPIVersion(), names(list), list.Items[0].GetKind())
	}
}

func metadataClient(s session) {
	s.fill("a", "b")
	client := must(metadata.NewForConfig(s.config)).Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(namespace)
	s.say("list: %s", names(must(client.List(s.ctx, metav1.ListOptions{}))))
	s.say("get: %s", must(client.Get(s.ctx, "a", metav1.GetOptions{})).Name)
	watcher := must(client.Watch(s.ctx, metav1.ListOptions{}))
	s.next(watcher)
	s.next(watcher)
	watcher.Stop()
}

func discoveryClient(s session) {
	client := s.client().Discovery()
	groups, lists, err := client.ServerGroupsAndResources()
	must0(err)
	for _, group := range groups {
		if group.Name == "" || group.Name == "events.k8s.io" {
			s.say("group %q prefers %s", group.Name, group.PreferredVersion.GroupVersion)
		}
	}
	// client-go keeps them in a map.
	slices.SortFunc(lists, func(a, b *metav1.APIResourceList) int { return strings.Compare(a.GroupVersion, b.GroupVersion) })
	for _, list := range lists {
		for _, resource := range list.APIResources {
			if resource.Name == "events" {
				s.say("%s has %s: %s, %s, %s, namespaced %t, %v", list.GroupVersion, resource.Name, resource.Kind, resource.SingularName,
					resource.ShortNames, resource.Namespaced, resource.Verbs)
			}
		}
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	for _, resource := range []string{"events", "event"} {
		s.say("%s means %s", resource, must(mapper.KindFor(schema.GroupVersionResource{Resource: resource})))
	}
}

func pages(s session) {
	s.fill("a", "b", "c", "d", "e")
	client := s.client().CoreV1().Events(namespace)
	lister := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		return client.List(s.ctx, options)
	}))
	lister.PageSize = 2
	list, paginated, err := lister.List(s.ctx, metav1.ListOptions{})
	must0(err)
	s.say("%s, in pages: %t", names(list), paginated)
}

// resumes reads events one watch at a time, as RetryWatcher does when streams end.
func resumes(s session) {
	client := s.client().CoreV1().Events(namespace)
	first := must(client.Create(s.ctx, coreEvent("a"), metav1.CreateOptions{}))
	timeout := int64(1)
	watcher := must(watchtools.NewRetryWatcherWithContext(s.ctx, first.ResourceVersion, watcherFunc(
		func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.TimeoutSeconds = &timeout
			return client.Watch(ctx, options)
		})))
	// Each is written into another stream than the one before.
	for _, name := range []string{"b", "c"} {
		time.Sleep(1500 * time.Millisecond)
		s.fill(name)
		s.next(watcher)
	}
	watcher.Stop()
}

type watcherFunc func(context.Context, metav1.ListOptions) (watch.Interface, error)

func (f watcherFunc) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return f(ctx, options)
}
