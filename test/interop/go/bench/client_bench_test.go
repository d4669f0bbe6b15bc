package bench

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	restclientwatch "k8s.io/client-go/rest/watch"
	"k8s.io/client-go/tools/record"
)

// The peers of bench/client_bench.cc, which says what each of them is about. They talk to
// the servers that tools/bench started.

// maxOutstanding keeps the queue of the broadcaster, which drops silently, from filling.
const maxOutstanding = 500

// countingSink counts what came to an end.
type countingSink struct {
	record.EventSink
	done atomic.Int64
}

func (s *countingSink) Create(e *corev1.Event) (*corev1.Event, error) {
	defer s.done.Add(1)
	return s.EventSink.Create(e)
}

func recordTo(b *testing.B, variable string) {
	url := os.Getenv(variable)
	if url == "" {
		b.Skipf("%s is not set; run tools/bench", variable)
	}
	// The client's own limit of five a second is off, as it is on our side.
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: url, QPS: -1})
	sink := &countingSink{EventSink: &typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")}}
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	watching := broadcaster.StartRecordingToSink(sink)
	defer watching.Stop()
	recorder := broadcaster.NewRecorder(scheme.Scheme, kubelet)
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		for int64(i)-sink.done.Load() >= maxOutstanding {
			time.Sleep(poll)
		}
		recorder.Eventf(podNumber(i), corev1.EventTypeNormal, "Started", "Started container %s", "nginx")
	}
	for sink.done.Load() < int64(b.N) {
		time.Sleep(poll)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkRecordToServer(b *testing.B)     { recordTo(b, "HERALD_ECHO_URL") }
func BenchmarkRecordToSlowServer(b *testing.B) { recordTo(b, "HERALD_SLOW_ECHO_URL") }

// serversEvent is what the API server would say of one of many events.
func serversEvent(n int) *corev1.Event {
	when := metav1.Unix(1_700_000_000, 0)
	object := *podNumber(n)
	object.UID = "ce611c62-6c1a-4bd8-9029-136a1adf7de4"
	object.FieldPath = "spec.containers{nginx}"
	return &corev1.Event{
		TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name:              fmt.Sprintf("web-%07d.17978a1f2b3c4d5e", n),
			Namespace:         "default",
			UID:               types.UID(fmt.Sprintf("ce611c62-6c1a-4bd8-9029-%012x", n)),
			ResourceVersion:   fmt.Sprint(429837 + n),
			CreationTimestamp: when,
		},
		InvolvedObject:      object,
		Reason:              "Started",
		Message:             "Started container nginx",
		Source:              kubelet,
		FirstTimestamp:      when,
		LastTimestamp:       when,
		Count:               1,
		Type:                corev1.EventTypeNormal,
		ReportingController: "kubelet",
		ReportingInstance:   "node-1",
	}
}

func serializer(mediaType string) kruntime.SerializerInfo {
	info, ok := kruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		panic("no serializer for " + mediaType)
	}
	return info
}

// watchDecode reads a watch as client-go's own Watch() does, up to the channel it hands out.
func watchDecode(b *testing.B, mediaType string) {
	const frames = 1000
	info := serializer(mediaType)
	objects := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	var stream bytes.Buffer
	writer := streaming.NewEncoder(info.StreamSerializer.Framer.NewFrameWriter(&stream), info.StreamSerializer.Serializer)
	for i := 0; i < frames; i++ {
		raw, err := kruntime.Encode(objects, serversEvent(i))
		if err != nil {
			b.Fatal(err)
		}
		frame := &metav1.WatchEvent{Type: string(watch.Added), Object: kruntime.RawExtension{Raw: bytes.TrimSpace(raw)}}
		if err := writer.Encode(frame); err != nil {
			b.Fatal(err)
		}
	}
	decoder := scheme.Codecs.WithoutConversion().DecoderToVersion(info.Serializer, corev1.SchemeGroupVersion)
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		reader := info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(bytes.NewReader(stream.Bytes())))
		watcher := watch.NewStreamWatcher(
			restclientwatch.NewDecoder(streaming.NewDecoder(reader, info.StreamSerializer.Serializer), decoder), nil)
		seen := 0
		for event := range watcher.ResultChan() {
			if event.Type == watch.Added {
				seen++
			}
		}
		if seen != frames {
			b.Fatalf("saw %d of %d events", seen, frames)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)*frames/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkWatchDecodeJSON(b *testing.B) { watchDecode(b, kruntime.ContentTypeJSON) }
func BenchmarkWatchDecodeProtobuf(b *testing.B) {
	watchDecode(b, kruntime.ContentTypeProtobuf)
}

// kernelBytes is what the kernel says of our memory: VmRSS is what we have, VmHWM the most
// that we have had since clear_refs was written to.
func kernelBytes(b *testing.B, field string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		if rest, found := strings.CutPrefix(line, field); found {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kilobytes * 1024
		}
	}
	b.Fatalf("no %s in /proc/self/status", field)
	return 0
}

// BenchmarkList10k reads the body of a list of 10,000 events.
func BenchmarkList10k(b *testing.B) {
	list := &corev1.EventList{ListMeta: metav1.ListMeta{ResourceVersion: "439837"}}
	for i := 0; i < 10_000; i++ {
		list.Items = append(list.Items, *serversEvent(i))
	}
	info := serializer(kruntime.ContentTypeJSON)
	body, err := kruntime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), list)
	if err != nil {
		b.Fatal(err)
	}
	list = nil
	decoder := scheme.Codecs.WithoutConversion().DecoderToVersion(info.Serializer, corev1.SchemeGroupVersion)
	heap := func() int64 {
		// Pools give up what they hold at the second collection.
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	read := func() *corev1.EventList {
		list := &corev1.EventList{}
		if _, _, err := decoder.Decode(body, nil, list); err != nil || len(list.Items) != 10_000 {
			b.Fatal(err, len(list.Items))
		}
		return list
	}
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		read()
	}
	b.StopTimer()
	// The most that is taken while one list is read, what is kept of it included; what was
	// freed before does not count.
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		b.Fatal(err)
	}
	resident := kernelBytes(b, "VmRSS:")
	kept := []*corev1.EventList{read()}
	b.ReportMetric(float64(kernelBytes(b, "VmHWM:")-resident), "peak-bytes")
	// What is kept: the difference between one list and several, so that nothing else counts.
	const more = 4
	one := heap()
	for i := 0; i < more; i++ {
		kept = append(kept, read())
	}
	b.ReportMetric(float64(heap()-one)/more, "bytes")
	runtime.KeepAlive(kept)
}
