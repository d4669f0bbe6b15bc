// Package bench measures the peer: what Herald's own benchmarks of the same
// names are compared with.
package bench

import (
	"encoding/json"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
)

// ordinary is the event of all benchmarks, 600 bytes of it.
const ordinary = `{"kind":"Event","apiVersion":"v1","metadata":{"name":"web-0.18e84d8123e3aa33","namespace":"default","creationTimestamp":null},"involvedObject":{"kind":"Pod","namespace":"default","name":"web-0","uid":"ce611c62-6c1a-4bd8-9029-136a1adf7de4","apiVersion":"v1","resourceVersion":"429837"},"reason":"Started","message":"Started container web","source":{"component":"kubelet","host":"node-1"},"firstTimestamp":"2026-11-15T19:00:00Z","lastTimestamp":"2026-11-15T19:00:00Z","count":1,"type":"Normal","eventTime":null,"reportingComponent":"kubelet","reportingInstance":"node-1"}`

// repeat is what a recorder sends when the event is seen once more.
const repeat = `{"count":2,"lastTimestamp":"2026-11-15T19:05:00Z","message":"Started container web again"}`

var v1 = schema.GroupVersion{Version: "v1"}

// measure runs the loop and reports, beside the usual figures, the processor
// time of all threads: the collector works on others than the one that loops.
func measure(b *testing.B, bytes int, work func()) {
	b.Helper()
	b.ReportAllocs()
	work()
	b.ResetTimer()
	before := cpuTime(b)
	for range b.N {
		work()
	}
	after := cpuTime(b)
	b.StopTimer()
	b.ReportMetric(float64(after-before)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(bytes), "wire-bytes/op")
}

func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func event(b *testing.B) *corev1.Event {
	b.Helper()
	var e corev1.Event
	if err := json.Unmarshal([]byte(ordinary), &e); err != nil {
		b.Fatal(err)
	}
	return &e
}

// encoder is what a typed client's REST client uses for request bodies.
func encoder(b *testing.B, mediaType string) runtime.Encoder {
	b.Helper()
	e, err := runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), v1).Encoder(mediaType, nil)
	if err != nil {
		b.Fatal(err)
	}
	return e
}

func decoder(b *testing.B, mediaType string) runtime.Decoder {
	b.Helper()
	d, err := runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), v1).Decoder(mediaType, nil)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

func encode(b *testing.B, e runtime.Encoder, obj runtime.Object) []byte {
	data, err := runtime.Encode(e, obj)
	if err != nil {
		b.Fatal(err)
	}
	return data
}

func BenchmarkJSONEncode(b *testing.B) {
	e, obj := encoder(b, runtime.ContentTypeJSON), event(b)
	measure(b, len(encode(b, e, obj)), func() { encode(b, e, obj) })
}

func BenchmarkJSONDecode(b *testing.B) {
	data := []byte(ordinary)
	d := scheme.Codecs.UniversalDeserializer()
	measure(b, len(data), func() {
		if _, _, err := d.Decode(data, nil, &corev1.Event{}); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkProtobufEncode(b *testing.B) {
	e, obj := encoder(b, runtime.ContentTypeProtobuf), event(b)
	measure(b, len(encode(b, e, obj)), func() { encode(b, e, obj) })
}

func BenchmarkProtobufDecode(b *testing.B) {
	data := encode(b, encoder(b, runtime.ContentTypeProtobuf), event(b))
	d := decoder(b, runtime.ContentTypeProtobuf)
	measure(b, len(data), func() {
		if _, _, err := d.Decode(data, nil, &corev1.Event{}); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkStrategicMergePatch goes from bytes to bytes.
func BenchmarkStrategicMergePatch(b *testing.B) {
	original, patch := []byte(ordinary), []byte(repeat)
	measure(b, len(original)+len(patch), func() {
		if _, err := strategicpatch.StrategicMergePatch(original, patch, corev1.Event{}); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkStrategicMergePatchObject goes from object to object, through the
// steps of the API server.
func BenchmarkStrategicMergePatchObject(b *testing.B) {
	obj, patch := event(b), []byte(repeat)
	converter := runtime.DefaultUnstructuredConverter
	measure(b, len(patch), func() {
		original, err := converter.ToUnstructured(obj)
		if err != nil {
			b.Fatal(err)
		}
		changes := map[string]any{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(patch, &changes); err != nil {
			b.Fatal(err)
		}
		patched, err := strategicpatch.StrategicMergeMapPatch(original, changes, &corev1.Event{})
		if err != nil {
			b.Fatal(err)
		}
		if err := converter.FromUnstructured(patched, &corev1.Event{}); err != nil {
			b.Fatal(err)
		}
	})
}
