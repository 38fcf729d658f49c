package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// hint is whether what happened lets the pod be tried again: the events that upstream makes of it, held against those that the plugin asked for.
func (c *cycle) hint(asked *happening) (any, error) {
	before, after, happened, err := asked.read()
	if err != nil {
		return nil, err
	}
	registered, err := c.plugin.EventsToRegister(context.Background())
	if err != nil {
		return nil, err
	}
	told := hinted{Hint: "Skip"}
	for _, one := range registered {
		for _, event := range happened {
			if !framework.MatchClusterEvents(one.Event, event) {
				continue
			}
			// Without a function of its own, an event always lets it be tried.
			hint, err := fwk.Queue, error(nil)
			if one.QueueingHintFn != nil {
				hint, err = one.QueueingHintFn(klog.Background(), c.pod, before, after)
			}
			if err != nil {
				told.Error = err.Error()
			}
			if hint == fwk.Queue {
				told.Hint = "Queue"
			}
		}
	}
	return told, nil
}

// read gives both objects, nil where there is none, and upstream's events.
func (h *happening) read() (before, after any, events []fwk.ClusterEvent, err error) {
	switch h.Event {
	case "claim":
		return pair[resourceapi.ResourceClaim](h, fwk.ResourceClaim, nil)
	case "slice":
		return pair[resourceapi.ResourceSlice](h, fwk.ResourceSlice, nil)
	case "class":
		return pair[resourceapi.DeviceClass](h, fwk.DeviceClass, nil)
	case "node":
		return pair(h, fwk.Node, framework.NodeSchedulingPropertiesChange)
	case "pod":
		return pair(h, fwk.Pod, framework.PodSchedulingPropertiesChange)
	}
	return nil, nil, nil, fmt.Errorf("%q is no event: it is one of claim, slice, class, node, pod", h.Event)
}

func pair[T corev1.Pod | corev1.Node | resourceapi.ResourceClaim | resourceapi.ResourceSlice | resourceapi.DeviceClass](
	of *happening, kind fwk.EventResource, changes func(after, before *T) []fwk.ClusterEvent,
) (any, any, []fwk.ClusterEvent, error) {
	var before, after *T
	for _, one := range []struct {
		text json.RawMessage
		into **T
	}{{of.Old, &before}, {of.New, &after}} {
		if len(one.text) == 0 {
			continue
		}
		if err := json.Unmarshal(one.text, one.into); err != nil {
			return nil, nil, nil, err
		}
	}
	switch {
	case before == nil && after == nil:
		return nil, nil, nil, fmt.Errorf("an event needs old or new")
	case before == nil:
		return nil, after, []fwk.ClusterEvent{{Resource: kind, ActionType: fwk.Add}}, nil
	case after == nil:
		return before, nil, []fwk.ClusterEvent{{Resource: kind, ActionType: fwk.Delete}}, nil
	case changes != nil:
		return before, after, changes(after, before), nil
	}
	return before, after, []fwk.ClusterEvent{{Resource: kind, ActionType: fwk.Update}}, nil
}
