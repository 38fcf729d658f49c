package main

import (
	"reflect"
	"slices"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// validObjects fill what holds the parts.
func validObjects() []any {
	return slices.Concat(
		filledBy(metadata),
		filledBy(func(owner *meta.OwnerReference, r random) {
			r.FillNoCustom(owner)
			owner.APIVersion, owner.Kind = pick(r, "v1", "apps/v1"), pick(r, "Node", "ReplicaSet", "StatefulSet")
		}),
		filledBy(func(port *core.ContainerPort, r random) {
			r.FillNoCustom(port)
			port.ContainerPort, port.HostPort = 1+r.Int31n(65535), pick(r, 0, 1+r.Int31n(65535))
			port.HostIP = pick(r, "", "0.0.0.0", "10.0.0.7", "::1")
		}),
		filledBy(func(source *core.VolumeSource, r random) { onlyOne(source, r) }),
		filledBy(func(source *core.PersistentVolumeSource, r random) { onlyOne(source, r) }),
		filledBy(func(source *core.AWSElasticBlockStoreVolumeSource, r random) {
			r.FillNoCustom(source)
			source.VolumeID = pick(r, "vol-"+word(r), "aws://europe-west1-b/vol-"+word(r), source.VolumeID)
		}),
		filledBy(func(condition *core.PodCondition, r random) {
			r.FillNoCustom(condition)
			condition.Reason = pick(r, condition.Reason, core.PodReasonInfeasible, core.PodReasonPreemptionByScheduler)
		}),
		filledBy(podSpec),
		filledBy(pod),
	)
}

// metadata with names, since without them nothing is read, and at times with what the operator looks for in annotations.
func metadata(metadata *meta.ObjectMeta, r random) {
	r.FillNoCustom(metadata)
	metadata.Name, metadata.Namespace = word(r), pick(r, "", "default", word(r))
	if oneIn(r, 2) {
		// The filler writes these seldom, but API servers always.
		metadata.CreationTimestamp = meta.NewTime(instant(r))
	}
	if oneIn(r, 2) {
		metadata.DeletionTimestamp = nil
	}
	if metadata.Annotations != nil {
		var value string
		text(&value, r)
		avoided := `{"preferAvoidPods":[{"podSignature":{"podController":{"kind":"ReplicaSet","uid":"` + word(r) + `"}}}]}`
		metadata.Annotations["scheduler.alpha.kubernetes.io/preferAvoidPods"] = pick(r, avoided, value)
		key := pick(r, "volume.beta.kubernetes.io/storage-class", "pv.kubernetes.io/bind-completed", "volume.kubernetes.io/selected-node",
			"storage.alpha.kubernetes.io/migrated-plugins", "kubernetes.io/config.mirror", value)
		metadata.Annotations[key] = pick(r, word(r), "kubernetes.io/gce-pd,kubernetes.io/aws-ebs", value)
	}
}

// onlyOne fills one member of a union.
func onlyOne(union any, r random) {
	members := reflect.ValueOf(union).Elem()
	member := members.Field(r.Intn(members.NumField()))
	member.Set(reflect.New(member.Type().Elem()))
	r.Fill(member.Interface())
}

func podSpec(spec *core.PodSpec, r random) {
	r.FillNoCustom(spec)
	// A pod that has a node is read in part only, and one that is held for want of a feature is not placed.
	if !oneIn(r, 4) {
		spec.NodeName = ""
	}
	if !oneIn(r, 4) {
		spec.ResourceClaims, spec.SchedulingGroup = nil, nil
	}
	spec.SchedulerName = pick(r, "", "default-scheduler", word(r))
	if spec.Priority != nil {
		*spec.Priority = r.Int31n(2_000_000) - 1_000_000
	}
	if len(spec.Containers) == 0 {
		spec.Containers = make([]core.Container, 1)
		r.Fill(&spec.Containers[0])
	}
}

// pod has statuses of its own containers.
func pod(pod *core.Pod, r random) {
	r.FillNoCustom(pod)
	name := func(statuses []core.ContainerStatus, containers []core.Container) {
		for i := range min(len(statuses), len(containers)) {
			statuses[i].Name = containers[i].Name
		}
	}
	name(pod.Status.ContainerStatuses, pod.Spec.Containers)
	name(pod.Status.InitContainerStatuses, pod.Spec.InitContainers)
}
