package main

import (
	"fmt"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// manager is what all profiles share, over plain lists: upstream's own gives slices in the order of a map, and is kept up by goroutines.
type manager struct {
	claims *claims
	// What the plugin gets to see of the claims.
	tracker fwk.ResourceClaimTracker
	slices  slicesGiven
	classes classesGiven
	// Which class a resource's name means is upstream's own to say.
	resolver *extendedresourcecache.ExtendedResourceCache
}

var _ fwk.SharedDRAManager = (*manager)(nil)

func newManager(asked *question) *manager {
	held := &claims{seen: map[string]*claim{}, inFlight: map[types.UID]*inFlight{}}
	built := &manager{
		claims:   held,
		tracker:  held,
		slices:   asked.Slices,
		classes:  asked.Classes,
		resolver: extendedresourcecache.NewExtendedResourceCache(klog.Background()),
	}
	for _, one := range asked.Claims {
		held.observe(one)
	}
	for _, one := range asked.InFlight {
		held.inFlight[one.claim.UID] = &inFlight{claim: one.claim, sharers: 1}
	}
	for _, class := range asked.Classes {
		built.resolver.OnAdd(class, true)
	}
	return built
}

func (m *manager) ResourceClaims() fwk.ResourceClaimTracker     { return m.tracker }
func (m *manager) ResourceSlices() fwk.ResourceSliceLister      { return m.slices }
func (m *manager) DeviceClasses() fwk.DeviceClassLister         { return m.classes }
func (m *manager) DeviceClassResolver() fwk.DeviceClassResolver { return m.resolver }
func (m *manager) PodGroups() fwk.PodGroupLister                { return noPodGroups{} }

type slicesGiven []*resourceapi.ResourceSlice

func (s slicesGiven) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) { return s, nil }

type classesGiven []*resourceapi.DeviceClass

func (c classesGiven) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classesGiven) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclass"), name)
}

// Pod groups are off by default.
type noPodGroups struct{}

func (noPodGroups) Get(string, string) (*schedulingapi.PodGroup, error) {
	return nil, apierrors.NewBadRequest("listing podgroups is disabled")
}

// claims is upstream's claim tracker, with its assume cache.
type claims struct {
	// By namespace/name.
	seen map[string]*claim
	// The names, in the order in which they came.
	order    []string
	inFlight map[types.UID]*inFlight
}

// A claim as the watch showed it last, and as it is taken to be.
type claim struct{ observed, visible *resourceapi.ResourceClaim }

type inFlight struct {
	claim   *resourceapi.ResourceClaim
	sharers int
}

func key(namespace, name string) string { return namespace + "/" + name }

// observe is what the watch does with a claim.
func (c *claims) observe(one *resourceapi.ResourceClaim) {
	name := key(one.Namespace, one.Name)
	if c.seen[name] == nil {
		c.order = append(c.order, name)
	}
	c.seen[name] = &claim{observed: one, visible: one}
}

func (c *claims) List() ([]*resourceapi.ResourceClaim, error) {
	all := make([]*resourceapi.ResourceClaim, 0, len(c.order))
	for _, name := range c.order {
		all = append(all, c.seen[name].visible)
	}
	return all, nil
}

func (c *claims) find(name string) (*claim, error) {
	if found := c.seen[name]; found != nil {
		return found, nil
	}
	return nil, &assumecache.NotFoundError{TypeName: "ResourceClaim", ObjectKey: name}
}

func (c *claims) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	found, err := c.find(key(namespace, name))
	if err != nil {
		return nil, err
	}
	return found.visible, nil
}

// ListAllAllocatedDevices is asked for only where a gate is off that is on by default.
func (c *claims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return nil, fmt.Errorf("ListAllAllocatedDevices: not expected with the default feature gates")
}

func (c *claims) GatherAllocatedState() (*structured.AllocatedState, error) {
	state := &structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, name := range c.order {
		hold(state, c.seen[name].visible)
	}
	for _, one := range c.inFlight {
		hold(state, one.claim)
	}
	return state, nil
}

// hold adds what one claim has.
func hold(state *structured.AllocatedState, by *resourceapi.ResourceClaim) {
	if by.Status.Allocation == nil {
		return
	}
	for _, result := range by.Status.Allocation.Devices.Results {
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		switch {
		case result.AdminAccess != nil && *result.AdminAccess:
		case result.ShareID == nil:
			state.AllocatedDevices.Insert(id)
		default:
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
			if result.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
		}
	}
}

func (c *claims) SignalClaimPendingAllocation(uid types.UID, allocated *resourceapi.ResourceClaim) error {
	if found := c.inFlight[uid]; found != nil {
		found.sharers++
		return nil
	}
	c.inFlight[uid] = &inFlight{claim: allocated, sharers: 1}
	return nil
}

func (c *claims) GetPendingAllocation(uid types.UID) *resourceapi.AllocationResult {
	if found := c.inFlight[uid]; found != nil {
		return found.claim.Status.Allocation
	}
	return nil
}

func (c *claims) MaybeRemoveClaimPendingAllocation(uid types.UID, force bool) bool {
	found := c.inFlight[uid]
	if found == nil {
		return false
	}
	if force || found.sharers == 1 {
		delete(c.inFlight, uid)
		return true
	}
	found.sharers--
	return false
}

func (c *claims) AssumeClaimAfterAPICall(written *resourceapi.ResourceClaim) error {
	name := key(written.Namespace, written.Name)
	found, err := c.find(name)
	if err != nil {
		return err
	}
	newer, err := version(written)
	if err != nil {
		return err
	}
	stored, err := version(found.visible)
	if err != nil {
		return err
	}
	if newer < stored {
		return fmt.Errorf("ResourceClaim %q is out of sync (stored: %d, assume: %d)", name, stored, newer)
	}
	found.visible = written
	return nil
}

func version(of *resourceapi.ResourceClaim) (int64, error) {
	return strconv.ParseInt(of.ResourceVersion, 10, 64)
}

func (c *claims) AssumedClaimRestore(namespace, name string) {
	if found := c.seen[key(namespace, name)]; found != nil {
		found.visible = found.observed
	}
}

// uids are those of the claims in flight, sorted.
func (c *claims) uids() []types.UID {
	all := make([]types.UID, 0, len(c.inFlight))
	for uid := range c.inFlight {
		all = append(all, uid)
	}
	slices.Sort(all)
	return all
}
