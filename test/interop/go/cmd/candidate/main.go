// Command candidate competes for a Lease as every controller does that is
// written with client-go. It prints "leading" when it has it, and gives it back
// when it is told to end.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "whose server to use")
	namespace := flag.String("namespace", "kube-system", "of the Lease")
	name := flag.String("name", "", "of the Lease")
	lease := flag.Duration("lease-duration", 15*time.Second, "until others take over")
	renew := flag.Duration("renew-deadline", 10*time.Second, "until a leader gives up")
	retry := flag.Duration("retry-period", 2*time.Second, "between two tries")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: *namespace, Name: *name},
			Client:     kubernetes.NewForConfigOrDie(config).CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "client-go"},
		},
		LeaseDuration:   *lease,
		RenewDeadline:   *renew,
		RetryPeriod:     *retry,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Println("leading") },
			OnStoppedLeading: func() {},
		},
	})
	if ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "the lease was lost")
		os.Exit(1)
	}
}
