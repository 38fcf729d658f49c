package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// A cluster, and the claims of one pod. Allocated is what other claims hold.
type situation struct {
	Nodes     []*corev1.Node                              `json:"nodes"`
	Slices    []*resourceapi.ResourceSlice                `json:"slices"`
	Classes   []*resourceapi.DeviceClass                  `json:"classes"`
	Claims    []*resourceapi.ResourceClaim                `json:"claims"`
	Allocated []resourceapi.DeviceRequestAllocationResult `json:"allocated"`
}

// What the claims get on one node: nothing, if neither field is set.
type allocated struct {
	Allocations []resourceapi.AllocationResult `json:"allocations,omitempty"`
	Error       string                         `json:"error,omitempty"`
	// Whether the error concerns this node alone.
	OnNode bool `json:"onNode,omitempty"`
}

// The defaults of 1.36.
var features = structured.Features{
	AdminAccess:            true,
	ConsumableCapacity:     true,
	DeviceBindingAndStatus: true,
	DeviceTaints:           true,
	PartitionableDevices:   true,
	PrioritizedList:        true,
}

type classLister []*resourceapi.DeviceClass

func (l classLister) List() ([]*resourceapi.DeviceClass, error) { return l, nil }

func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range l {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclass"), name)
}

// As the plugin keeps it, claim by claim.
func stateOf(results []resourceapi.DeviceRequestAllocationResult) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, result := range results {
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
	return state
}

// A search may take exponentially long. Who asks takes care not to ask for such; this ends one that slipped through.
const longest = 5 * time.Second

// One allocator answers for all nodes, so that what it remembers from one to the next takes part.
func allocates(line []byte) (any, error) {
	var asked situation
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	ctx := context.Background()
	cache := cel.NewCache(10, cel.Features{EnableConsumableCapacity: true})
	allocator, err := structured.NewAllocator(ctx, features, stateOf(asked.Allocated), classLister(asked.Classes), asked.Slices, cache)
	if err != nil {
		return nil, err
	}
	answers := make([]allocated, 0, len(asked.Nodes))
	for _, node := range asked.Nodes {
		ctx, cancel := context.WithTimeout(ctx, longest)
		allocations, err := allocator.Allocate(ctx, node, asked.Claims)
		cancel()
		answer := allocated{Allocations: allocations}
		if err != nil {
			answer.Error, answer.OnNode = err.Error(), errors.Is(err, structured.ErrFailedAllocationOnNode)
		}
		answers = append(answers, answer)
	}
	return answers, nil
}
