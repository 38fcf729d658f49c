// Command null-scheduler is the ceiling that benchmarks compare schedulers with. It watches the pods of one
// schedulerName, binds each to the next node in turn, and writes one Scheduled event per pod behind the binds.
// For a pod with ResourceClaims it first makes the writes that schedulers make before they bind such a pod.
// It decides nothing: no filter, no score, no account of what is free. Never run it on a cluster that matters.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// attempts bounds the repeats of one write, so that one bad pod cannot keep a binder for ever.
const attempts = 5

// eventBacklog is how many events may wait for their writers: more than any workload has pods, since a binder that
// waited for an event would make the ceiling too low.
const eventBacklog = 1 << 16

// What tests/lab/src/bench/claims.rs publishes, and what its claims call their request. Devices are numbered from 0 on each node.
const (
	driver      = "gpu.example.com"
	requestName = "gpu"
)

// protected adds the finalizer of an allocated claim. A write of the status ignores metadata, so it takes a write of its own.
const protected = `{"metadata":{"finalizers":["` + resourcev1.Finalizer + `"]}}`

type options struct {
	kubeconfig    string
	schedulerName string
	binders       int
	eventWriters  int
}

// placement is one binding that the API server accepted.
type placement struct {
	pod  *corev1.Pod
	node string
}

type nullScheduler struct {
	options
	client kubernetes.Interface
	nodes  []string
	next   atomic.Uint64
	bound  atomic.Uint64
	failed atomic.Uint64
	pods   chan *corev1.Pod
	events chan placement
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	flag.StringVar(&o.schedulerName, "scheduler-name", "", "schedulerName of the pods to bind")
	flag.IntVar(&o.binders, "binders", 32, "bindings in flight at a time")
	flag.IntVar(&o.eventWriters, "event-writers", 8, "events in flight at a time; 0 writes none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "null-scheduler:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.schedulerName == "" || o.binders < 1 || o.eventWriters < 0 {
		return fmt.Errorf("--scheduler-name must be given, --binders be at least 1 and --event-writers at least 0")
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	// Negative: no limit in the client; the API server alone decides how fast it goes.
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	s := &nullScheduler{options: o, client: client, pods: make(chan *corev1.Pod), events: make(chan placement, eventBacklog)}
	if s.nodes, err = nodeNames(ctx, client); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "null-scheduler: binding pods of %s round robin to %d nodes\n", o.schedulerName, len(s.nodes))
	if err := s.serve(ctx); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "null-scheduler: %d pods bound, %d given up\n", s.bound.Load(), s.failed.Load())
	return nil
}

func nodeNames(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the cluster has no nodes")
	}
	return names, nil
}

// serve binds until ctx ends. Only unassigned pods are watched: a bound pod leaves the selection and costs no more.
func (s *nullScheduler) serve(ctx context.Context) error {
	selector := fields.AndSelectors(
		fields.OneTermEqualSelector("spec.schedulerName", s.schedulerName),
		fields.OneTermEqualSelector("spec.nodeName", ""),
	).String()
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = selector }))
	// The informer queues notifications without bound, so the handler may wait for a free binder.
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			pod, ok := object.(*corev1.Pod)
			if !ok || pod.DeletionTimestamp != nil {
				return
			}
			select {
			case s.pods <- pod:
			case <-ctx.Done():
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	for range s.binders {
		go s.bindAll(ctx)
	}
	for range s.eventWriters {
		go s.writeAll(ctx)
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	return nil
}

func (s *nullScheduler) bindAll(ctx context.Context) {
	for {
		select {
		case pod := <-s.pods:
			s.place(ctx, pod)
		case <-ctx.Done():
			return
		}
	}
}

func (s *nullScheduler) place(ctx context.Context, pod *corev1.Pod) {
	turn, nodes := s.next.Add(1)-1, uint64(len(s.nodes))
	node := s.nodes[turn%nodes]
	var err error
	if len(pod.Spec.ResourceClaims) > 0 {
		err = s.prepare(ctx, pod, node, turn/nodes)
	}
	if err == nil {
		err = s.bind(ctx, pod, node)
	}
	if err != nil {
		s.failed.Add(1)
		fmt.Fprintf(os.Stderr, "null-scheduler: binding %s/%s to %s: %v\n", pod.Namespace, pod.Name, node, err)
		return
	}
	s.bound.Add(1)
	if s.eventWriters > 0 {
		s.events <- placement{pod: pod, node: node}
	}
}

func (s *nullScheduler) bind(ctx context.Context, pod *corev1.Pod, node string) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	return repeat(ctx, func() error {
		return s.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	})
}

// prepare makes the writes before the bind of a pod with claims, which Berth and kube-scheduler have in common: the node is
// nominated, then each claim gets its finalizer, then the node's device of this number together with the reservation. Patches
// without a resourceVersion need nothing to be read, and so no watch of claims.
func (s *nullScheduler) prepare(ctx context.Context, pod *corev1.Pod, node string, device uint64) error {
	nomination, err := json.Marshal(map[string]any{"status": map[string]string{"nominatedNodeName": node}})
	if err != nil {
		return err
	}
	allocation, err := json.Marshal(map[string]any{"status": allocated(pod, node, device)})
	if err != nil {
		return err
	}
	err = repeat(ctx, func() error {
		_, err := s.client.CoreV1().Pods(pod.Namespace).Patch(
			ctx, pod.Name, types.MergePatchType, nomination, metav1.PatchOptions{}, "status")
		return err
	})
	if err != nil {
		return fmt.Errorf("nominating: %w", err)
	}
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		if entry.ResourceClaimName == nil {
			return fmt.Errorf("resource claim %s of the pod names no ResourceClaim", entry.Name)
		}
		if err := s.patchClaim(ctx, pod.Namespace, *entry.ResourceClaimName, []byte(protected)); err != nil {
			return err
		}
		if err := s.patchClaim(ctx, pod.Namespace, *entry.ResourceClaimName, allocation, "status"); err != nil {
			return err
		}
	}
	return nil
}

func (s *nullScheduler) patchClaim(ctx context.Context, namespace, name string, patch []byte, subresources ...string) error {
	return repeat(ctx, func() error {
		_, err := s.client.ResourceV1().ResourceClaims(namespace).Patch(
			ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, subresources...)
		return err
	})
}

func allocated(pod *corev1.Pod, node string, device uint64) resourcev1.ResourceClaimStatus {
	now := metav1.Now()
	return resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{
			Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{{
					Request: requestName,
					Driver:  driver,
					Pool:    node,
					Device:  fmt.Sprintf("gpu-%d", device),
				}},
			},
			NodeSelector: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchFields: []corev1.NodeSelectorRequirement{{
						Key:      "metadata.name",
						Operator: corev1.NodeSelectorOpIn,
						Values:   []string{node},
					}},
				}},
			},
			AllocationTimestamp: &now,
		},
		ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}},
	}
}

// repeat does again what failed, a few times.
func repeat(ctx context.Context, do func() error) (err error) {
	for range attempts {
		if err = do(); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

func (s *nullScheduler) writeAll(ctx context.Context) {
	for {
		select {
		case p := <-s.events:
			if err := s.write(ctx, p); err != nil && ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "null-scheduler: event on %s/%s: %v\n", p.pod.Namespace, p.pod.Name, err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (s *nullScheduler) write(ctx context.Context, p placement) error {
	now := time.Now()
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.pod.Namespace,
			Name:      fmt.Sprintf("%s.%x", p.pod.Name, now.UnixNano()),
		},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: s.schedulerName,
		ReportingInstance:   s.schedulerName + "-0",
		Type:                corev1.EventTypeNormal,
		Reason:              "Scheduled",
		Action:              "Binding",
		Note:                fmt.Sprintf("Successfully assigned %s/%s to %s", p.pod.Namespace, p.pod.Name, p.node),
		Regarding: corev1.ObjectReference{
			APIVersion:      "v1",
			Kind:            "Pod",
			Namespace:       p.pod.Namespace,
			Name:            p.pod.Name,
			UID:             p.pod.UID,
			ResourceVersion: p.pod.ResourceVersion,
		},
	}
	_, err := s.client.EventsV1().Events(p.pod.Namespace).Create(ctx, event, metav1.CreateOptions{})
	return err
}
