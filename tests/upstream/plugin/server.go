package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// server stands for the API server: it has the pod and claims, counts versions, and writes down what is asked of it.
type server struct {
	client  *fake.Clientset
	tracker clienttesting.ObjectTracker
	stores  clienttesting.ReactionFunc
	faults  []*fault
	// Which extension point is running.
	point  string
	writes []write
	// How many claims were created.
	created int
	// Tells the scheduler of a claim that was created. Upstream waits up to two minutes for the watch to do so.
	observe func(*resourceapi.ResourceClaim)
}

func newServer(pod *corev1.Pod, has []*resourceapi.ResourceClaim, faults []*fault) (*server, error) {
	tracker := clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())
	built := &server{client: &fake.Clientset{}, tracker: tracker, stores: clienttesting.ObjectReaction(tracker), faults: faults, writes: []write{}}
	built.client.AddReactor("*", "*", built.react)
	if err := tracker.Add(pod.DeepCopy()); err != nil {
		return nil, err
	}
	for _, claim := range has {
		if err := tracker.Add(claim.DeepCopy()); err != nil {
			return nil, err
		}
	}
	return built, nil
}

func (s *server) react(action clienttesting.Action) (bool, runtime.Object, error) {
	// What is stored is changed in place below.
	sent := record(s.point, action)
	object, err := s.answer(action)
	if sent != nil {
		if err != nil {
			sent.Error = err.Error()
		}
		s.writes = append(s.writes, *sent)
	}
	if err != nil {
		return true, nil, err
	}
	return true, object, nil
}

// record is nil for what only reads.
func record(point string, action clienttesting.Action) *write {
	sent := &write{
		Point:       point,
		Verb:        action.GetVerb(),
		Resource:    action.GetResource().Resource,
		Subresource: action.GetSubresource(),
		Namespace:   action.GetNamespace(),
	}
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		sent.Body = text(action.Object)
	case clienttesting.UpdateActionImpl:
		sent.Name, sent.Body = action.Object.(metav1.Object).GetName(), text(action.Object)
	case clienttesting.PatchActionImpl:
		sent.Name, sent.Body = action.Name, action.Patch
	case clienttesting.DeleteActionImpl:
		sent.Name = action.Name
	default:
		return nil
	}
	return sent
}

func text(of any) json.RawMessage {
	written, err := json.Marshal(of)
	if err != nil {
		panic(err)
	}
	return written
}

func (s *server) answer(action clienttesting.Action) (runtime.Object, error) {
	if err := s.refusal(action); err != nil {
		return nil, err
	}
	switch of := action.(type) {
	case clienttesting.CreateActionImpl:
		if claim, ok := of.Object.(*resourceapi.ResourceClaim); ok {
			return s.create(of, claim)
		}
	case clienttesting.UpdateActionImpl:
		if claim, ok := of.Object.(*resourceapi.ResourceClaim); ok {
			return s.update(of, claim)
		}
	}
	_, object, err := s.stores(action)
	return object, err
}

// refusal is the fault that the question wants here.
func (s *server) refusal(action clienttesting.Action) error {
	for _, one := range s.faults {
		if one.Times < 0 || !one.concerns(action) {
			continue
		}
		// Once, where nothing is said; -1 stands for no more.
		if one.Times--; one.Times <= 0 {
			one.Times = -1
		}
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Reason: one.Reason, Message: one.Message}}
	}
	return nil
}

func (f *fault) concerns(action clienttesting.Action) bool {
	return (f.Verb == "" || f.Verb == action.GetVerb()) &&
		(f.Resource == "" || f.Resource == action.GetResource().Resource) &&
		(f.Subresource == nil || *f.Subresource == action.GetSubresource()) &&
		(f.Name == "" || f.Name == nameIn(action))
}

func nameIn(action clienttesting.Action) string {
	switch action := action.(type) {
	case clienttesting.GetActionImpl:
		return action.Name
	default:
		if sent := record("", action); sent != nil {
			return sent.Name
		}
		return ""
	}
}

func (s *server) create(action clienttesting.CreateActionImpl, claim *resourceapi.ResourceClaim) (runtime.Object, error) {
	s.created++
	if claim.Name == "" {
		claim.Name = claim.GenerateName + strconv.Itoa(s.created)
	}
	claim.UID = types.UID(fmt.Sprintf("created-%d", s.created))
	claim.ResourceVersion = "1"
	_, object, err := s.stores(action)
	if err == nil {
		s.observe(claim.DeepCopy())
	}
	return object, err
}

// What the API server says of a write to another version than it has.
var modified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// update writes the status, or everything but the status, as the API server does.
func (s *server) update(action clienttesting.UpdateActionImpl, claim *resourceapi.ResourceClaim) (runtime.Object, error) {
	found, err := s.tracker.Get(action.Resource, claim.Namespace, claim.Name)
	if err != nil {
		return nil, err
	}
	stored := found.(*resourceapi.ResourceClaim)
	if claim.ResourceVersion != "" && claim.ResourceVersion != stored.ResourceVersion {
		return nil, apierrors.NewConflict(action.Resource.GroupResource(), claim.Name, modified)
	}
	next := claim.DeepCopy()
	if action.Subresource == "status" {
		next = stored.DeepCopy()
		next.Status = *claim.Status.DeepCopy()
	} else {
		next.Status = *stored.Status.DeepCopy()
	}
	before, err := version(stored)
	if err != nil {
		return nil, err
	}
	next.ResourceVersion = strconv.FormatInt(before+1, 10)
	action.Object = next
	_, object, err := s.stores(action)
	return object, err
}
