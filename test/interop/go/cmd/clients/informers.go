package main

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/features"
	"k8s.io/client-go/informers"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func eventsClient(config *rest.Config) (typedcorev1.EventInterface, error) {
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return client.Events(namespace), nil
}

// seen is what an informer's handlers were told, in order.
type seen struct {
	mu    sync.Mutex
	lines []string
}

func (s *seen) add(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

func name(object any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	must0(err)
	return key
}

func informer(original features.Gates, watchList bool) func(session) {
	return func(s session) {
		features.ReplaceFeatureGates(gates{original, watchList})
		defer features.ReplaceFeatureGates(original)
		s.inform("")
	}
}

func selectedInformer(original features.Gates) func(session) {
	return func(s session) {
		features.ReplaceFeatureGates(gates{original, true})
		defer features.ReplaceFeatureGates(original)
		s.inform("app=web")
	}
}

// inform runs an informer over events that exist, and over changes made one by one.
func (s session) inform(selector string) {
	s.fill("a", "b", "c")
	write := must(eventsClient(withoutWire(s.config)))
	factory := informers.NewSharedInformerFactoryWithOptions(s.client(), 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = selector }))
	events := factory.Core().V1().Events().Informer()
	var seen seen
	registration := must(events.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { seen.add("added " + name(object)) },
		UpdateFunc: func(_, object any) { seen.add("updated " + name(object)) },
		DeleteFunc: func(object any) { seen.add("deleted " + name(object)) },
	}))
	stop := make(chan struct{})
	factory.Start(stop)
	if !until(s.ctx, registration.HasSynced) {
		s.say("NEVER SYNCED")
	}
	s.say("synced with %d", seen.count())
	expect := seen.count()
	step := func(change func()) {
		change()
		expect++
		if !until(s.ctx, func() bool { return seen.count() >= expect }) {
			s.say("NEVER CAME")
		}
	}
	label := func(value string) func() {
		return func() {
			event := must(write.Get(s.ctx, "b", metav1.GetOptions{}))
			event.Labels["app"] = value
			must(write.Update(s.ctx, event, metav1.UpdateOptions{}))
		}
	}
	step(func() { must(write.Create(s.ctx, coreEvent("d"), metav1.CreateOptions{})) })
	step(label("other"))
	step(label("web"))
	step(func() { must0(write.Delete(s.ctx, "a", metav1.DeleteOptions{})) })
	close(stop)
	factory.Shutdown()
	// The initial events may come in any order.
	initial := map[string]bool{}
	for _, line := range seen.lines[:3] {
		initial[line] = true
	}
	for _, key := range []string{"a", "b", "c"} {
		s.say("%s at first: %t", key, initial["added "+namespace+"/"+key])
	}
	for _, line := range seen.lines[3:] {
		s.say("%s", line)
	}
	s.say("cache holds %d", len(events.GetStore().ListKeys()))
}
