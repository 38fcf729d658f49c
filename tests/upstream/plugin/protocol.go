package main

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// README.md describes each field.
type question struct {
	Pod       *corev1.Pod                  `json:"pod"`
	Nodes     []*corev1.Node               `json:"nodes"`
	Claims    []*resourceapi.ResourceClaim `json:"claims"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Classes   []*resourceapi.DeviceClass   `json:"classes"`
	InFlight  []pending                    `json:"inFlight"`
	Choose    string                       `json:"choose"`
	Unreserve bool                         `json:"unreserve"`
	Args      arguments                    `json:"args"`
	// Nil where the API server has what the scheduler has seen.
	Server *[]*resourceapi.ResourceClaim `json:"server"`
	Faults []*fault                      `json:"faults"`
	Hint   *happening                    `json:"hint"`
	Weigh  *weighing                     `json:"weigh"`
}

type arguments struct {
	FilterTimeout  *metav1.Duration `json:"filterTimeout"`
	BindingTimeout *metav1.Duration `json:"bindingTimeout"`
}

// A claim that another pod's attempt has reserved and not yet written: its uid, or the claim with its allocation.
type pending struct{ claim *resourceapi.ResourceClaim }

func (p *pending) UnmarshalJSON(text []byte) error {
	p.claim = &resourceapi.ResourceClaim{}
	if len(text) > 0 && text[0] == '"' {
		// Whether an allocation is in flight is told by its being there; this one holds no device.
		p.claim.Status.Allocation = &resourceapi.AllocationResult{}
		return json.Unmarshal(text, &p.claim.UID)
	}
	return json.Unmarshal(text, p.claim)
}

// A write or read that the API server refuses, as often as Times says.
type fault struct {
	Verb        string              `json:"verb"`
	Resource    string              `json:"resource"`
	Subresource *string             `json:"subresource"`
	Name        string              `json:"name"`
	Times       int                 `json:"times"`
	Reason      metav1.StatusReason `json:"reason"`
	Message     string              `json:"message"`
}

// What happened to an object, for whether it may make the pod schedulable: nothing before it was added, nothing after it was deleted.
type happening struct {
	Event string          `json:"event"`
	Old   json.RawMessage `json:"old"`
	New   json.RawMessage `json:"new"`
}

type hinted struct {
	Hint  string `json:"hint"`
	Error string `json:"error,omitempty"`
}

// What upstream did not survive.
type broken struct {
	Panic string `json:"panic"`
}

type status struct {
	Code    string   `json:"code"`
	Reasons []string `json:"reasons,omitempty"`
}

func statusOf(given *fwk.Status) *status {
	told := &status{Code: given.Code().String()}
	if given != nil {
		told.Reasons = given.Reasons()
	}
	return told
}

type flight struct {
	status
	AllowParallel bool `json:"allowParallel"`
}

// The parts of points that were not reached are left out.
type answer struct {
	PreEnqueue       *status            `json:"preEnqueue,omitempty"`
	PreFilter        *status            `json:"preFilter,omitempty"`
	Nodes            map[string]*status `json:"nodes,omitempty"`
	Scores           map[string]int64   `json:"scores,omitempty"`
	Normalized       map[string]int64   `json:"normalized,omitempty"`
	Weighed          map[string]int64   `json:"weighed,omitempty"`
	Score            *status            `json:"score,omitempty"`
	PostFilter       *status            `json:"postFilter,omitempty"`
	Chosen           string             `json:"chosen,omitempty"`
	Reserve          *status            `json:"reserve,omitempty"`
	InFlightReserved *[]types.UID       `json:"inFlightReserved,omitempty"`
	PreBindPreFlight *flight            `json:"preBindPreFlight,omitempty"`
	PreBind          *status            `json:"preBind,omitempty"`
	Events           []string           `json:"events,omitempty"`
	Writes           []write            `json:"writes"`
	InFlightAfter    []types.UID        `json:"inFlightAfter"`
}

// A request that changes something, as it was sent, and how the API server refused it, if it did.
type write struct {
	Point       string          `json:"point"`
	Verb        string          `json:"verb"`
	Resource    string          `json:"resource"`
	Subresource string          `json:"subresource,omitempty"`
	Namespace   string          `json:"namespace"`
	Name        string          `json:"name"`
	Body        json.RawMessage `json:"body,omitempty"`
	Error       string          `json:"error,omitempty"`
}
