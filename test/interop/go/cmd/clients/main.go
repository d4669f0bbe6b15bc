// Command clients lets the real client-go work with events on a server, and
// prints what came of it: what the recorders wrote, what the typed clients
// read, what the informers saw, and which requests they sent for it.
//
// The report holds nothing that a server or a clock chooses, so that the report
// of one server can be compared with that of another.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/features"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// patience bounds each wait. A server that needs longer has lost something.
const patience = 30 * time.Second

const namespace = "suite-clients"

// session is what a section of the report works with: a fresh configuration
// whose requests are noted, and a namespace without events.
type session struct {
	ctx    context.Context
	config *rest.Config
	wire   *wire
}

func (s session) client() kubernetes.Interface { return must(kubernetes.NewForConfig(s.config)) }

func (s session) say(format string, arguments ...any) { fmt.Printf("  "+format+"\n", arguments...) }

// gates switches single features of client-go and leaves the rest alone.
type gates struct {
	features.Gates
	watchList bool
}

func (g gates) Enabled(feature features.Feature) bool {
	if feature == features.WatchListClient {
		return g.watchList
	}
	return g.Gates.Enabled(feature)
}

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "whose server to use")
	flag.Parse()
	klog.SetLogger(logr.Discard())
	base := must(clientcmd.BuildConfigFromFlags("", *kubeconfig))
	// Rates of our own would only cost time.
	base.QPS = -1
	setup := must(kubernetes.NewForConfig(base))
	// A server without namespaces takes any; then this fails, and that is well.
	_, _ = setup.CoreV1().Namespaces().Create(context.Background(), namespaceObject(), metav1.CreateOptions{})
	original := features.FeatureGates()

	sections := []struct {
		name string
		run  func(session)
	}{
		{"tools/record writes an event and counts its repeats", recordCounts},
		{"tools/record makes one event of many that are alike", recordAggregates},
		{"tools/events writes an event and makes a series of its repeats", eventsSeries},
		{"tools/events chooses the API by discovery", eventsAdapter},
		{"typed client of v1 in JSON", typedCore("application/json")},
		{"typed client of v1 in protobuf", typedCore("application/vnd.kubernetes.protobuf")},
		{"typed client of events.k8s.io/v1 in JSON", typedNew("application/json")},
		{"typed client of events.k8s.io/v1 in protobuf", typedNew("application/vnd.kubernetes.protobuf")},
		{"dynamic client", dynamicClient},
		{"metadata client", metadataClient},
		{"discovery and REST mapper", discoveryClient},
		{"pager", pages},
		{"watcher that resumes", resumes},
		{"informer that lists and watches", informer(original, false)},
		{"informer that streams its list", informer(original, true)},
		{"informer of a selector", selectedInformer(original)},
	}
	for _, section := range sections {
		fmt.Printf("%s:\n", section.name)
		must0(setup.CoreV1().Events(namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{}))
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		config := rest.CopyConfig(base)
		wire := &wire{}
		config.Wrap(wire.wrap)
		section.run(session{ctx: ctx, config: config, wire: wire})
		cancel()
		wire.print()
	}
	must0(setup.CoreV1().Events(namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{}))
}

func must[T any](value T, err error) T {
	must0(err)
	return value
}

func must0(err error) {
	if err != nil {
		fmt.Printf("  FAILED: %v\n", err)
		os.Exit(1)
	}
}

// until waits for a condition and says whether it came.
func until(ctx context.Context, condition func() bool) bool {
	for !condition() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true
}
