package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// nobody is the API server that no code reached from here writes to or reads from.
var nobody kubernetes.Interface = fake.NewClientset()

// cluster is one upstream scheduler, wired by its own constructor and never started: its cache, nominator and plugins
// hold the objects of one request.
type cluster struct {
	ctx    context.Context
	cancel context.CancelFunc
	panics *panics
	// frameworks are the profiles by schedulerName.
	frameworks map[string]framework.Framework
	// nodes are those of the snapshot, sorted by name.
	nodes []fwk.NodeInfo
	// node finds them by name.
	node map[string]fwk.NodeInfo
}

func newCluster(of *objects, config *config.KubeSchedulerConfiguration) (built *cluster, err error) {
	panics := &panics{}
	ctx, cancel := context.WithCancel(panics.within(context.Background()))
	defer func() {
		if built == nil {
			cancel()
		}
	}()
	defer panics.as(&err)
	factory, err := newFactory(of)
	if err != nil {
		return nil, err
	}
	wired, err := newScheduler(ctx, factory, config)
	// Its debugger asks for a signal that it never gives back.
	signal.Reset(syscall.SIGUSR2)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	frameworks, snapshot, err := sharedSnapshot(wired)
	if err != nil {
		return nil, err
	}
	if err := wired.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		return nil, err
	}
	listed, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	nodes := slices.Clone(listed)
	slices.SortFunc(nodes, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	node := make(map[string]fwk.NodeInfo, len(nodes))
	for _, info := range nodes {
		node[info.Node().Name] = info
	}
	return &cluster{ctx: ctx, cancel: cancel, panics: panics, frameworks: frameworks, nodes: nodes, node: node}, nil
}

// close ends the goroutines of the scheduler's metrics.
func (c *cluster) close() { c.cancel() }

// newFactory holds a fixed informer for each kind of object, in place of those that would list and watch.
func newFactory(of *objects) (informers.SharedInformerFactory, error) {
	factory := informers.NewSharedInformerFactory(nobody, 0)
	for example := range watched {
		informer, err := newFixedInformer(of.byType[reflect.TypeOf(example)])
		if err != nil {
			return nil, err
		}
		factory.InformerFor(example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return informer
		})
	}
	return factory, nil
}

func newScheduler(ctx context.Context, factory informers.SharedInformerFactory, config *config.KubeSchedulerConfiguration) (*scheduler.Scheduler, error) {
	return scheduler.New(ctx, nobody, factory, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithComponentConfigVersion(config.APIVersion),
		scheduler.WithProfiles(config.Profiles...),
		scheduler.WithPercentageOfNodesToScore(config.PercentageOfNodesToScore),
		scheduler.WithPodInitialBackoffSeconds(config.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(config.PodMaxBackoffSeconds),
		scheduler.WithExtenders(config.Extenders...),
		// More workers would only change which of several errors is the first.
		scheduler.WithParallelism(1),
	)
}

// sharedSnapshot finds the one snapshot that all profiles of a scheduler read.
func sharedSnapshot(of *scheduler.Scheduler) (map[string]framework.Framework, *internalcache.Snapshot, error) {
	var snapshot *internalcache.Snapshot
	for name, profile := range of.Profiles {
		found, ok := profile.SnapshotSharedLister().(*internalcache.Snapshot)
		if !ok || (snapshot != nil && snapshot != found) {
			return nil, nil, fmt.Errorf("profile %s: upstream no longer shares one snapshot; adapt the oracle", name)
		}
		snapshot = found
	}
	if snapshot == nil {
		return nil, nil, errors.New("the scheduler has no profile")
	}
	return of.Profiles, snapshot, nil
}
