package main

import (
	"slices"
	"strconv"

	core "k8s.io/api/core/v1"
	resources "k8s.io/api/resource/v1"
	storage "k8s.io/api/storage/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// validParts fill values and parts of objects as an API server takes them, where the operator looks at them.
func validParts() []any {
	return slices.Concat(choices(), filledBy(quantity), selectors(), placement(), []any{plainLabels, amounts})
}

// choices are the values that have names. An empty one is a value that was left out.
func choices() []any {
	return slices.Concat(
		oneOf(core.TaintEffectNoSchedule, core.TaintEffectPreferNoSchedule, core.TaintEffectNoExecute),
		oneOf(core.ProtocolTCP, core.ProtocolUDP, core.ProtocolSCTP, ""),
		oneOf(core.DoNotSchedule, core.ScheduleAnyway),
		oneOf(core.NodeInclusionPolicyHonor, core.NodeInclusionPolicyIgnore),
		oneOf(core.PodPending, core.PodPending, core.PodRunning, core.PodSucceeded, core.PodFailed, core.PodUnknown),
		oneOf(core.ConditionTrue, core.ConditionFalse, core.ConditionUnknown),
		oneOf(core.PodScheduled, core.PodReady, core.DisruptionTarget, core.PodResizePending),
		oneOf(core.NodeReady, core.NodeMemoryPressure, core.NodeDiskPressure, core.NodePIDPressure),
		oneOf(core.RestartPolicyAlways, core.RestartPolicyOnFailure, core.RestartPolicyNever),
		oneOf(core.ContainerRestartPolicyAlways, core.ContainerRestartPolicyOnFailure, core.ContainerRestartPolicyNever),
		oneOf(core.ContainerRestartRuleActionRestart, core.ContainerRestartRuleActionRestartAllContainers),
		oneOf(core.PreemptLowerPriority, core.PreemptNever),
		oneOf(core.PodQOSGuaranteed, core.PodQOSBurstable, core.PodQOSBestEffort),
		oneOf(core.ReadWriteOnce, core.ReadOnlyMany, core.ReadWriteMany, core.ReadWriteOncePod),
		oneOf(core.PersistentVolumeFilesystem, core.PersistentVolumeBlock),
		oneOf(core.VolumeAvailable, core.VolumeBound, core.VolumeReleased, core.VolumePending, core.VolumeFailed),
		oneOf(core.ClaimBound, core.ClaimPending, core.ClaimLost),
		oneOf(core.AzureSharedBlobDisk, core.AzureDedicatedBlobDisk, core.AzureManagedDisk),
		oneOf(storage.VolumeBindingImmediate, storage.VolumeBindingWaitForFirstConsumer),
		oneOf(resources.DeviceAllocationModeExactCount, resources.DeviceAllocationModeAll),
		oneOf(resources.DeviceTolerationOpExists, resources.DeviceTolerationOpEqual, ""),
		oneOf(resources.DeviceTaintEffectNoSchedule, resources.DeviceTaintEffectNoExecute, resources.DeviceTaintEffectNone),
		oneOf(resources.AllocationConfigSourceClass, resources.AllocationConfigSourceClaim),
	)
}

func selectors() []any {
	return slices.Concat(
		filledBy(func(selector *meta.LabelSelector, r random) {
			plainLabels(&selector.MatchLabels, r)
			r.Fill(&selector.MatchExpressions)
		}),
		filledBy(func(test *meta.LabelSelectorRequirement, r random) {
			test.Key = labelKey(r)
			test.Operator = pick(r, meta.LabelSelectorOpIn, meta.LabelSelectorOpNotIn, meta.LabelSelectorOpExists, meta.LabelSelectorOpDoesNotExist)
			if test.Operator == meta.LabelSelectorOpIn || test.Operator == meta.LabelSelectorOpNotIn {
				test.Values = labelValues(r)
			}
		}),
		filledBy(nodeRequirement),
		filledBy(func(term *core.NodeSelectorTerm, r random) {
			r.Fill(&term.MatchExpressions)
			if oneIn(r, 3) {
				// Of fields only the name can be asked for, and one at a time.
				operator := pick(r, core.NodeSelectorOpIn, core.NodeSelectorOpNotIn)
				term.MatchFields = []core.NodeSelectorRequirement{{Key: "metadata.name", Operator: operator, Values: []string{word(r)}}}
			}
		}),
		filledBy(func(test *core.TopologySelectorLabelRequirement, r random) {
			test.Key, test.Values = labelKey(r), labelValues(r)
		}),
	)
}

func nodeRequirement(test *core.NodeSelectorRequirement, r random) {
	test.Key = labelKey(r)
	test.Operator = pick(r, core.NodeSelectorOpIn, core.NodeSelectorOpNotIn, core.NodeSelectorOpExists, core.NodeSelectorOpDoesNotExist,
		core.NodeSelectorOpGt, core.NodeSelectorOpLt)
	switch test.Operator {
	case core.NodeSelectorOpIn, core.NodeSelectorOpNotIn:
		test.Values = labelValues(r)
	case core.NodeSelectorOpGt, core.NodeSelectorOpLt:
		test.Values = []string{strconv.Itoa(r.Intn(1000))}
	}
}

// placement fills what a pod asks of its place.
func placement() []any {
	return slices.Concat(
		filledBy(func(taint *core.Taint, r random) {
			r.FillNoCustom(taint)
			taint.Key, taint.Value = labelKey(r), labelValue(r)
		}),
		filledBy(toleration),
		filledBy(func(constraint *core.TopologySpreadConstraint, r random) {
			r.FillNoCustom(constraint)
			constraint.MaxSkew, constraint.TopologyKey = 1+r.Int31n(5), labelKey(r)
			if constraint.MinDomains != nil {
				*constraint.MinDomains = 1 + r.Int31n(5)
			}
			for i := range constraint.MatchLabelKeys {
				constraint.MatchLabelKeys[i] = labelKey(r)
			}
		}),
		filledBy(func(term *core.PodAffinityTerm, r random) {
			r.FillNoCustom(term)
			term.TopologyKey = labelKey(r)
			for i := range term.Namespaces {
				term.Namespaces[i] = word(r)
			}
		}),
		filledBy(func(term *core.WeightedPodAffinityTerm, r random) {
			r.FillNoCustom(term)
			term.Weight = 1 + r.Int31n(100)
		}),
		filledBy(func(term *core.PreferredSchedulingTerm, r random) {
			r.FillNoCustom(term)
			term.Weight = 1 + r.Int31n(100)
		}),
	)
}

func toleration(toleration *core.Toleration, r random) {
	r.FillNoCustom(toleration)
	toleration.Key = labelKey(r)
	toleration.Operator = pick(r, core.TolerationOpExists, core.TolerationOpEqual, core.TolerationOpGt, core.TolerationOpLt, "")
	switch toleration.Operator {
	case core.TolerationOpExists:
		toleration.Value = ""
	case core.TolerationOpGt, core.TolerationOpLt:
		toleration.Value = strconv.Itoa(r.Intn(1000))
	default:
		toleration.Value = labelValue(r)
	}
	if oneIn(r, 4) {
		toleration.Effect = ""
	}
}

// labelKey is often one that other objects have too.
func labelKey(r random) string {
	return pick(r, "app", "tier", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone",
		"example.com/"+word(r), word(r))
}

func labelValue(r random) string {
	return pick(r, "", "a", "b", "c", "europe-west1-b", "A_"+word(r)+".9", word(r))
}

func labelValues(r random) []string {
	values := make([]string, 1+r.Intn(3))
	for i := range values {
		values[i] = labelValue(r)
	}
	return values
}

// plainLabels fills every map of strings: what is a label in one is anything in another.
func plainLabels(labels *map[string]string, r random) {
	*labels = nil
	if oneIn(r, 2) {
		*labels = map[string]string{}
		for range 1 + r.Intn(3) {
			(*labels)[labelKey(r)] = labelValue(r)
		}
	}
}

func amounts(list *core.ResourceList, r random) {
	*list = nil
	if oneIn(r, 3) {
		return
	}
	*list = core.ResourceList{}
	for range 1 + r.Intn(3) {
		name := pick(r, core.ResourceCPU, core.ResourceMemory, core.ResourceEphemeralStorage, core.ResourcePods, core.ResourceStorage,
			"hugepages-2Mi", "example.com/gpu", core.ResourceName("example.com/"+word(r)))
		amount := (*list)[name]
		quantity(&amount, r)
		(*list)[name] = amount
	}
}
