// Command load works on an event server with the real client-go and says how
// fast that went. bench/load costs a tenth of it, so this one shows what a
// program in Go would see, not what the server can do.
//
// It expects the events that bench/load --work fill has made, and prints one
// line of JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// work is one request of each kind, told by its number.
type work func(ctx context.Context, events typed.EventInterface, n int64) error

func eventName(run string, n int64) string { return fmt.Sprintf("web-%d.%s%012x", n, run, n) }

func newEvent(namespace, run string, n int64) *corev1.Event {
	at := metav1.NewTime(time.Date(2026, 11, 15, 19, 0, 0, 0, time.UTC))
	pod := fmt.Sprintf("web-%d", n)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: eventName(run, n), Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{
			Kind: "Pod", Namespace: namespace, Name: pod, APIVersion: "v1", ResourceVersion: "429837",
			UID: types.UID(fmt.Sprintf("ce611c62-6c1a-4bd8-9029-%012x", n)),
		},
		Reason: "Started", Message: "Started container web", Type: corev1.EventTypeNormal,
		Source:         corev1.EventSource{Component: "kubelet", Host: "node-1"},
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
		ReportingController: "kubelet", ReportingInstance: "node-1",
	}
}

func kinds(namespace, run string, stored int64) map[string]work {
	return map[string]work{
		"create": func(ctx context.Context, events typed.EventInterface, n int64) error {
			_, err := events.Create(ctx, newEvent(namespace, run, n), metav1.CreateOptions{})
			return err
		},
		"patch": func(ctx context.Context, events typed.EventInterface, n int64) error {
			body := fmt.Sprintf(`{"count":%d,"lastTimestamp":"2026-11-15T20:00:00Z"}`, n/stored+2)
			_, err := events.Patch(ctx, eventName(run, n%stored), types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{})
			return err
		},
		"get": func(ctx context.Context, events typed.EventInterface, n int64) error {
			_, err := events.Get(ctx, eventName(run, n*7919%stored), metav1.GetOptions{})
			return err
		},
		"list": func(ctx context.Context, events typed.EventInterface, _ int64) error {
			_, err := events.List(ctx, metav1.ListOptions{})
			return err
		},
		"list-by-object": func(ctx context.Context, events typed.EventInterface, n int64) error {
			selector := fmt.Sprintf("involvedObject.name=web-%d", n*7919%stored)
			_, err := events.List(ctx, metav1.ListOptions{FieldSelector: selector})
			return err
		},
	}
}

func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func main() {
	server := flag.String("server", "", "")
	ca := flag.String("ca", "", "")
	token := flag.String("token", "", "")
	kind := flag.String("work", "create", "create, patch, get, list, list-by-object")
	run := flag.String("run", "a", "distinguishes the names of one run from those of another")
	namespace := flag.String("namespace", "default", "")
	inFlight := flag.Int("in-flight", 32, "")
	seconds := flag.Int("seconds", 10, "")
	stored := flag.Int64("events", 10_000, "how many there are to work on")
	flag.Parse()

	do, known := kinds(*namespace, *run, *stored)[*kind]
	if !known {
		fmt.Fprintf(os.Stderr, "load: there is no work %q\n", *kind)
		os.Exit(2)
	}
	clients, err := kubernetes.NewForConfig(&rest.Config{
		Host: *server, BearerToken: *token, TLSClientConfig: rest.TLSClientConfig{CAFile: *ca},
		QPS: -1, // its own rate limit would be all that is measured
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}

	var (
		next, failed atomic.Int64
		mu           sync.Mutex
		took         []time.Duration
		workers      sync.WaitGroup
	)
	begun, cpu := time.Now(), ownCPU()
	ends := begun.Add(time.Duration(*seconds) * time.Second)
	for range *inFlight {
		workers.Go(func() {
			var own []time.Duration
			for time.Now().Before(ends) {
				start := time.Now()
				if err := do(context.Background(), clients.CoreV1().Events(*namespace), next.Add(1)-1); err != nil {
					if failed.Add(1) == 1 {
						fmt.Fprintln(os.Stderr, "load: the first failure:", err)
					}
					continue
				}
				own = append(own, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
		})
	}
	workers.Wait()
	wall := time.Since(begun)
	cpu = ownCPU() - cpu

	sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
	quantile := func(q float64) float64 {
		if len(took) == 0 {
			return 0
		}
		return float64(took[int(q*float64(len(took)-1))]) / 1e6
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"work": *kind, "in_flight": *inFlight, "completed": len(took), "failed": failed.Load(),
		"seconds": wall.Seconds(), "per_second": float64(len(took)) / wall.Seconds(),
		"p50_ms": quantile(0.5), "p99_ms": quantile(0.99),
		"cpu_share": cpu.Seconds() / wall.Seconds() / float64(runtime.NumCPU()),
	})
}
