package bench

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
)

// The peers of bench/record_bench.cc, which says what each of them is about. Nobody
// logs what was dropped, on either side.

// poll is what waiting for others sleeps for between two looks.
const poll = 50 * time.Microsecond

var kubelet = corev1.EventSource{Component: "kubelet", Host: "node-1"}

func pod() *corev1.ObjectReference {
	return &corev1.ObjectReference{
		Kind:            "Pod",
		Namespace:       "default",
		Name:            "web-0",
		UID:             "ce611c62-6c1a-4bd8-9029-136a1adf7de4",
		APIVersion:      "v1",
		ResourceVersion: "429837",
	}
}

// podNumber is one of many pods. All names are of one length.
func podNumber(n int) *corev1.ObjectReference {
	p := pod()
	p.Name = fmt.Sprintf("web-%07d", n)
	p.UID = types.UID(fmt.Sprintf("ce611c62-6c1a-4bd8-9029-%012x", n))
	return p
}

func eventName(object string, nanoseconds int64) string {
	return fmt.Sprintf("%s.%x", object, nanoseconds)
}

// eventAbout is what a recorder would have made of the call.
func eventAbout(p *corev1.ObjectReference, message string) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: eventName(p.Name, now.UnixNano()), Namespace: p.Namespace},
		InvolvedObject:      *p,
		Reason:              "Started",
		Message:             message,
		Source:              kubelet,
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
		Type:                corev1.EventTypeNormal,
		ReportingController: kubelet.Component,
		ReportingInstance:   kubelet.Host,
	}
}

// together does the work on so many goroutines, which start at one time, and returns
// the sum of what each of them took.
func together(goroutines int, work func()) time.Duration {
	var ready atomic.Int32
	var spent atomic.Int64
	var done sync.WaitGroup
	for range goroutines {
		done.Go(func() {
			ready.Add(1)
			for int(ready.Load()) < goroutines {
				runtime.Gosched()
			}
			start := time.Now()
			work()
			spent.Add(int64(time.Since(start)))
		})
	}
	done.Wait()
	return time.Duration(spent.Load())
}

// countedRecorder is a recorder whose events are counted by one listener.
type countedRecorder struct {
	record.EventRecorder
	delivered atomic.Int64
	pod       *corev1.ObjectReference
	container string
}

func newCountedRecorder(b *testing.B) *countedRecorder {
	broadcaster := record.NewBroadcaster()
	b.Cleanup(broadcaster.Shutdown)
	r := &countedRecorder{pod: pod(), container: "web"}
	broadcaster.StartEventWatcher(func(*corev1.Event) { r.delivered.Add(1) })
	r.EventRecorder = broadcaster.NewRecorder(scheme.Scheme, kubelet).WithLogger(logr.Discard())
	return r
}

func (r *countedRecorder) record(calls int) {
	for range calls {
		r.Eventf(r.pod, corev1.EventTypeNormal, "Started", "Started container %s", r.container)
	}
}

func (r *countedRecorder) awaitDelivered(count int64) {
	for r.delivered.Load() < count {
		time.Sleep(poll)
	}
}

// awaitQuiet waits until no more comes: some may have been dropped.
func (r *countedRecorder) awaitQuiet() {
	before := int64(-1)
	for quiet := 0; quiet < 5; quiet++ {
		if now := r.delivered.Load(); now != before {
			before, quiet = now, 0
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func eventfInBursts(b *testing.B, goroutines int) {
	const burst = 500 // of all goroutines together
	r := newCountedRecorder(b)
	var calls int64
	var spent time.Duration
	for range b.N {
		spent += together(goroutines, func() { r.record(burst / goroutines) })
		calls += burst
		r.awaitDelivered(calls)
	}
	b.ReportMetric(float64(spent)/float64(calls), "ns/call")
}

func BenchmarkEventfBurst1(b *testing.B) { eventfInBursts(b, 1) }
func BenchmarkEventfBurst4(b *testing.B) { eventfInBursts(b, 4) }

func eventfFlatOut(b *testing.B, goroutines int) {
	const perRound = 200_000 // of all goroutines together
	r := newCountedRecorder(b)
	var calls, cpu int64
	for range b.N {
		before := cpuTime(b)
		together(goroutines, func() { r.record(perRound / goroutines) })
		r.awaitQuiet()
		cpu += cpuTime(b) - before
		calls += perRound
	}
	delivered := float64(r.delivered.Load())
	b.ReportMetric(float64(cpu)/delivered, "cpu-ns/event")
	b.ReportMetric(delivered/float64(calls), "share")
}

func BenchmarkEventfFlatOut1(b *testing.B) { eventfFlatOut(b, 1) }
func BenchmarkEventfFlatOut4(b *testing.B) { eventfFlatOut(b, 4) }

// broadcast hands out events to watchers that each have a goroutine. The queues are as
// long as Herald's.
func broadcast(b *testing.B, watchers int, nextEvent func() *corev1.Event) {
	const deliveries = 256_000 // per round, to all watchers together
	events := deliveries / watchers
	broadcaster := watch.NewLongQueueBroadcaster(1000, watch.WaitIfChannelFull)
	done := make(chan struct{}, watchers)
	for range watchers {
		w, err := broadcaster.Watch()
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			taken := 0
			for item := range w.ResultChan() {
				if item.Object == nil {
					panic("no event")
				}
				if taken++; taken%events == 0 {
					done <- struct{}{}
				}
			}
		}()
	}
	b.ResetTimer()
	cpu := cpuTime(b)
	for range b.N {
		for range events {
			if err := broadcaster.Action(watch.Added, nextEvent()); err != nil {
				b.Fatal(err)
			}
		}
		for range watchers {
			<-done
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N*events*watchers)/b.Elapsed().Seconds(), "deliveries/s")
	broadcaster.Shutdown()
}

func broadcastOneEvent(b *testing.B, watchers int) {
	event := eventAbout(pod(), "Started container web")
	broadcast(b, watchers, func() *corev1.Event { return event })
}

func broadcastManyEvents(b *testing.B, watchers int) {
	sample := eventAbout(pod(), "Started container web")
	nanoseconds := time.Now().UnixNano()
	broadcast(b, watchers, func() *corev1.Event {
		event := *sample
		nanoseconds++
		event.Name = eventName(event.InvolvedObject.Name, nanoseconds)
		return &event
	})
}

func BenchmarkBroadcast1(b *testing.B)          { broadcastOneEvent(b, 1) }
func BenchmarkBroadcast8(b *testing.B)          { broadcastOneEvent(b, 8) }
func BenchmarkBroadcast64(b *testing.B)         { broadcastOneEvent(b, 64) }
func BenchmarkBroadcastDistinct1(b *testing.B)  { broadcastManyEvents(b, 1) }
func BenchmarkBroadcastDistinct8(b *testing.B)  { broadcastManyEvents(b, 8) }
func BenchmarkBroadcastDistinct64(b *testing.B) { broadcastManyEvents(b, 64) }

// correlateAll correlates the events again and again, in their order. Those before the
// first timed one fill the caches. The spam filter lets everything through.
func correlateAll(b *testing.B, events []*corev1.Event, patched bool) {
	correlator := record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{BurstSize: 1_000_000_000, QPS: 1e9})
	next := 0
	correlate := func() *record.EventCorrelateResult {
		result, err := correlator.EventCorrelate(events[next])
		if err != nil {
			b.Fatal(err)
		}
		if next++; next == len(events) {
			next = 0
		}
		return result
	}
	for range 2 * len(events) {
		correlate()
	}
	asExpected := true
	b.ResetTimer()
	cpu := cpuTime(b)
	for range b.N {
		result := correlate()
		asExpected = asExpected && !result.Skip && (len(result.Patch) > 0) == patched
	}
	b.StopTimer()
	if !asExpected {
		b.Fatal("an event became another request than it should")
	}
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkCorrelateUnique(b *testing.B) {
	var events []*corev1.Event
	for i := range 3 * 4096 {
		events = append(events, eventAbout(podNumber(i), "Started container web"))
	}
	correlateAll(b, events, false)
}

func BenchmarkCorrelateRepeated(b *testing.B) {
	correlateAll(b, []*corev1.Event{eventAbout(pod(), "Started container web")}, true)
}

func BenchmarkCorrelateSimilar(b *testing.B) {
	var events []*corev1.Event
	for i := range 4096 {
		events = append(events, eventAbout(pod(), fmt.Sprintf("Started container web-%04d", i)))
	}
	correlateAll(b, events, true)
}

// answering is a sink that answers as a server does.
type answering struct{ written atomic.Int64 }

func (s *answering) answer(event *corev1.Event) (*corev1.Event, error) {
	answer := *event
	answer.ResourceVersion = "429838"
	s.written.Add(1)
	return &answer, nil
}

func (s *answering) Create(event *corev1.Event) (*corev1.Event, error) { return s.answer(event) }
func (s *answering) Update(event *corev1.Event) (*corev1.Event, error) { return s.answer(event) }
func (s *answering) Patch(event *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.answer(event)
}

// fullRecorder is a recorder whose sink was told of as many objects as the caches
// remember.
func fullRecorder() (record.EventBroadcaster, record.EventRecorder) {
	broadcaster := record.NewBroadcaster()
	sink := &answering{}
	broadcaster.StartRecordingToSink(sink)
	recorder := broadcaster.NewRecorder(scheme.Scheme, kubelet)
	for i := range 4096 {
		recorder.Eventf(podNumber(i), corev1.EventTypeNormal, "Started", "Started container %s", "web")
		if (i+1)%512 != 0 {
			continue
		}
		for sink.written.Load() <= int64(i) {
			time.Sleep(poll)
		}
	}
	return broadcaster, recorder
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC() // the first may have left what had finalizers
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func BenchmarkFullRecorderMemory(b *testing.B) {
	first, _ := fullRecorder() // what is allocated once and for all
	first.Shutdown()
	var bytes int64
	for range b.N {
		before := heapBytes()
		broadcaster, recorder := fullRecorder()
		bytes += heapBytes() - before
		broadcaster.Shutdown()
		runtime.KeepAlive(recorder)
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "bytes")
}
