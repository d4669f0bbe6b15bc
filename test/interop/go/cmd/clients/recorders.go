package main

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

func namespaceObject() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
}

func pod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: "pod-1"}}
}

func describe(event corev1.Event) string {
	series := "none"
	if event.Series != nil {
		series = strconv.Itoa(int(event.Series.Count))
	}
	return fmt.Sprintf("%s: %s %s %q action=%q count=%d series=%s source=%q reporting=%q/%q object=%s/%s uid=%s first=%t last=%t time=%t",
		plain(event.Name), event.Type, event.Reason, event.Message, event.Action, event.Count, series, event.Source.Component,
		event.ReportingController, event.ReportingInstance, event.InvolvedObject.Kind, event.InvolvedObject.Name, event.InvolvedObject.UID,
		!event.FirstTimestamp.IsZero(), !event.LastTimestamp.IsZero(), !event.EventTime.IsZero())
}

// stored waits until the server's events are as wanted, then tells them.
func (s session) stored(wanted func([]corev1.Event) bool) {
	client := must(typedcorev1.NewForConfig(withoutWire(s.config))).Events(namespace)
	var items []corev1.Event
	if !until(s.ctx, func() bool {
		items = must(client.List(s.ctx, metav1.ListOptions{})).Items
		return wanted(items)
	}) {
		s.say("NEVER CAME")
	}
	for _, event := range items {
		event.ReportingInstance = hostless(event.ReportingInstance)
		s.say("stored %s", describe(event))
	}
}

func total(items []corev1.Event) int {
	sum := 0
	for _, event := range items {
		sum += int(event.Count)
	}
	return sum
}

func recordCounts(s session) {
	broadcaster := record.NewBroadcaster(record.WithContext(s.ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: s.client().CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "suite", Host: "node-1"})
	for range 3 {
		recorder.Event(pod(), corev1.EventTypeNormal, "Started", "started it")
	}
	recorder.AnnotatedEventf(pod(), map[string]string{"a": "b"}, corev1.EventTypeWarning, "Failed", "failed %d times", 2)
	s.stored(func(items []corev1.Event) bool { return len(items) == 2 && total(items) == 4 })
}

func recordAggregates(s session) {
	broadcaster := record.NewBroadcaster(record.WithContext(s.ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: s.client().CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "suite"})
	for i := range 12 {
		recorder.Eventf(pod(), corev1.EventTypeNormal, "Alike", "message %02d", i)
	}
	s.stored(func(items []corev1.Event) bool { return total(items) == 12 })
}

func eventsSeries(s session) {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: s.client().EventsV1()})
	defer broadcaster.Shutdown()
	must0(broadcaster.StartRecordingToSinkWithContext(s.ctx))
	recorder := broadcaster.NewRecorder(scheme.Scheme, "suite.example.com/recorder")
	recorder.Eventf(pod(), nil, corev1.EventTypeNormal, "Scheduled", "Binding", "bound it")
	// The second is a series only once the first is in the broadcaster's cache.
	s.stored(func(items []corev1.Event) bool { return len(items) == 1 })
	recorder.Eventf(pod(), nil, corev1.EventTypeNormal, "Scheduled", "Binding", "bound it")
	s.stored(func(items []corev1.Event) bool { return len(items) == 1 && items[0].Series != nil })
}

func eventsAdapter(s session) {
	adapter := events.NewEventBroadcasterAdapterWithContext(s.ctx, s.client())
	defer adapter.Shutdown()
	stop := make(chan struct{})
	defer close(stop)
	adapter.StartRecordingToSink(stop)
	adapter.NewRecorder("suite").Eventf(pod(), pod(), corev1.EventTypeWarning, "Odd", "Looking", "looked")
	s.stored(func(items []corev1.Event) bool { return len(items) == 1 })
}
