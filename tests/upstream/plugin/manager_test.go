package main

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// both asks our claims and upstream's own, and ends where they differ.
type both struct {
	*claims
	cache *assumecache.AssumeCache
	real  fwk.ResourceClaimTracker
	// How often they were compared.
	compared *int
}

func newBoth(asked *question, ours *claims, compared *int) *both {
	cache := assumecache.NewAssumeCache(klog.Background(), nil, "ResourceClaim", "", nil)
	factory := informers.NewSharedInformerFactory(&fake.Clientset{}, 0)
	real := dynamicresources.NewDRAManager(context.Background(), cache, nil, factory).ResourceClaims()
	for _, one := range asked.Claims {
		assumecache.AddTestObject(cache, one)
	}
	for _, one := range asked.InFlight {
		if err := real.SignalClaimPendingAllocation(one.claim.UID, one.claim); err != nil {
			panic(err)
		}
	}
	return &both{claims: ours, cache: cache, real: real, compared: compared}
}

func (b *both) same(what string, ours, theirs any) {
	*b.compared++
	if !equality.Semantic.DeepEqual(ours, theirs) {
		panic(fmt.Sprintf("%s: we say %v, upstream says %v", what, ours, theirs))
	}
}

func said(err error) string { return fmt.Sprint(err) }

func (b *both) observe(one *resourceapi.ResourceClaim) {
	b.claims.observe(one)
	assumecache.AddTestObject(b.cache, one)
}

func (b *both) List() ([]*resourceapi.ResourceClaim, error) {
	theirs, err := b.real.List()
	ours, _ := b.claims.List()
	b.same("List", len(ours), len(theirs))
	return ours, err
}

func (b *both) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	theirs, theirErr := b.real.Get(namespace, name)
	ours, err := b.claims.Get(namespace, name)
	b.same("Get", ours, theirs)
	b.same("Get", said(err), said(theirErr))
	return ours, err
}

func (b *both) GatherAllocatedState() (*structured.AllocatedState, error) {
	theirs, theirErr := b.real.GatherAllocatedState()
	ours, err := b.claims.GatherAllocatedState()
	b.same("GatherAllocatedState", said(err), said(theirErr))
	b.same("AllocatedDevices", ours.AllocatedDevices, theirs.AllocatedDevices)
	b.same("AllocatedSharedDeviceIDs", ours.AllocatedSharedDeviceIDs, theirs.AllocatedSharedDeviceIDs)
	b.same("AggregatedCapacity", ours.AggregatedCapacity, theirs.AggregatedCapacity)
	return ours, err
}

func (b *both) SignalClaimPendingAllocation(uid types.UID, allocated *resourceapi.ResourceClaim) error {
	b.same("Signal", b.claims.SignalClaimPendingAllocation(uid, allocated), b.real.SignalClaimPendingAllocation(uid, allocated))
	return nil
}

func (b *both) GetPendingAllocation(uid types.UID) *resourceapi.AllocationResult {
	ours := b.claims.GetPendingAllocation(uid)
	b.same("GetPendingAllocation", ours, b.real.GetPendingAllocation(uid))
	return ours
}

func (b *both) MaybeRemoveClaimPendingAllocation(uid types.UID, force bool) bool {
	ours := b.claims.MaybeRemoveClaimPendingAllocation(uid, force)
	b.same("MaybeRemove", ours, b.real.MaybeRemoveClaimPendingAllocation(uid, force))
	return ours
}

func (b *both) AssumeClaimAfterAPICall(written *resourceapi.ResourceClaim) error {
	theirs := b.real.AssumeClaimAfterAPICall(written)
	ours := b.claims.AssumeClaimAfterAPICall(written)
	b.same("Assume", said(ours), said(theirs))
	return ours
}

func (b *both) AssumedClaimRestore(namespace, name string) {
	b.claims.AssumedClaimRestore(namespace, name)
	b.real.AssumedClaimRestore(namespace, name)
}

func TestClaimsAreAsUpstreamsTracker(t *testing.T) {
	compared := 0
	for _, one := range read(t) {
		t.Run(one.Name, func(t *testing.T) { alike(t, one, &compared) })
	}
	if compared < 100 {
		t.Errorf("only %d comparisons", compared)
	}
}

func alike(t *testing.T, one example, compared *int) {
	asked := parse(t, one.Question)
	if asked.Hint != nil {
		return
	}
	cycle, err := newCycle(asked)
	if err != nil {
		t.Fatal(err)
	}
	pair := newBoth(asked, cycle.manager.claims, compared)
	cycle.manager.tracker, cycle.server.observe = pair, pair.observe
	cycle.run(asked)
	ours, _ := pair.claims.GatherAllocatedState()
	theirs, err := pair.real.GatherAllocatedState()
	if err != nil || !reflect.DeepEqual(ours, theirs) {
		t.Errorf("at the end we say %v, upstream says %v, %v", ours, theirs, err)
	}
}
