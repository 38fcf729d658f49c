package main

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// noProfile is the reason of a pod whose schedulerName the configuration does not know.
const noProfile = "no profile"

// attempt is one pod on its way through the extension points that decide where it may go.
type attempt struct {
	*cluster
	framework framework.Framework
	pod       *corev1.Pod
	state     fwk.CycleState
	diagnosis framework.Diagnosis
	trace     trace
}

// judge is what a scheduling cycle with every node examined and every feasible node scored would find for pod.
func (c *cluster) judge(pod *corev1.Pod, asked *request) podAnswer {
	given := podAnswer{Namespace: pod.Namespace, Name: pod.Name}
	profile, ok := c.frameworks[pod.Spec.SchedulerName]
	if !ok {
		given.Reason = noProfile
		return given
	}
	name := profile.ProfileName()
	given.Profile = &name
	state := framework.NewCycleState()
	state.SetRecordPluginMetrics(false)
	one := &attempt{cluster: c, framework: profile, pod: pod, state: state}
	one.diagnosis.NodeToStatus = framework.NewDefaultNodeToStatus()
	if err := one.run(asked, &given); err != nil {
		given = podAnswer{Namespace: pod.Namespace, Name: pod.Name, Profile: &name, Error: err.Error()}
	}
	if asked.Trace {
		given.Trace = &one.trace
	}
	return given
}

func (a *attempt) run(asked *request, into *podAnswer) (err error) {
	defer a.panics.as(&err)
	if into.Reason, err = a.gate(); err != nil || into.Reason != "" {
		return err
	}
	if len(a.nodes) == 0 {
		into.Message = scheduler.ErrNoNodesAvailable.Error()
		into.Nodes = &[]any{}
		return nil
	}
	feasible, refused, err := a.filter()
	if err != nil {
		return err
	}
	into.Feasible = len(feasible)
	if len(feasible) == 0 {
		unfit := framework.FitError{Pod: a.pod, NumAllNodes: len(a.nodes), Diagnosis: a.diagnosis}
		into.Message = unfit.Error()
		if asked.Preemption != nil {
			if into.Preemption, err = a.preempt(asked.Preemption); err != nil {
				return err
			}
		}
	}
	scores, err := a.score(feasible)
	if err != nil {
		return err
	}
	nodes := make([]any, 0, len(a.nodes))
	for _, info := range a.nodes {
		name := info.Node().Name
		if refusal, ok := refused[name]; ok {
			nodes = append(nodes, refusal)
		} else {
			nodes = append(nodes, scores[name])
		}
	}
	into.Nodes = &nodes
	return nil
}

// gate is why the pod may not enter the queue; empty where it may.
func (a *attempt) gate() (string, error) {
	for _, plugin := range a.framework.PreEnqueuePlugins() {
		status := plugin.PreEnqueue(a.ctx, a.pod)
		if status.Code() == fwk.Error {
			return "", fmt.Errorf("running PreEnqueue plugin %q: %w", plugin.Name(), status.AsError())
		}
		if !status.IsSuccess() {
			return status.Message(), nil
		}
	}
	return "", nil
}

// filter sorts the nodes into those that fit and those that do not.
func (a *attempt) filter() ([]fwk.NodeInfo, map[string]refusal, error) {
	refused := make(map[string]refusal)
	only, status, restricting := a.framework.RunPreFilterPlugins(a.ctx, a.state, a.pod)
	a.trace.SkippedFilters = sets.List(a.state.GetSkipFilterPlugins())
	a.diagnosis.UnschedulablePlugins = restricting
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, nil, status.AsError()
		}
		a.diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		a.diagnosis.PreFilterMsg = status.Message()
		a.diagnosis.AddPluginStatus(status)
		for _, info := range a.nodes {
			refused[info.Node().Name] = refusalOf(info, status, restricting)
		}
		return nil, refused, nil
	}
	candidates := a.nodes
	if !only.AllNodes() {
		candidates = a.restrict(only, restricting, refused)
	}
	feasible := make([]fwk.NodeInfo, 0, len(candidates))
	for _, info := range candidates {
		status := a.framework.RunFilterPluginsWithNominatedPods(a.ctx, a.state, a.pod, info)
		if status.Code() == fwk.Error {
			return nil, nil, status.AsError()
		}
		if status.IsSuccess() {
			feasible = append(feasible, info)
			continue
		}
		a.diagnosis.NodeToStatus.Set(info.Node().Name, status)
		a.diagnosis.AddPluginStatus(status)
		refused[info.Node().Name] = refusalOf(info, status, nil)
	}
	return feasible, refused, nil
}

// restrict leaves the nodes that PreFilter named; the others are refused as schedulePod records it of absent nodes.
func (a *attempt) restrict(only *fwk.PreFilterResult, by sets.Set[string], refused map[string]refusal) []fwk.NodeInfo {
	absent := fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
		fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(by)))
	a.diagnosis.NodeToStatus.SetAbsentNodesStatus(absent)
	a.trace.PreFilterNodes = sets.List(only.NodeNames)
	var left []fwk.NodeInfo
	for _, info := range a.nodes {
		if only.NodeNames.Has(info.Node().Name) {
			left = append(left, info)
		} else {
			refused[info.Node().Name] = refusalOf(info, absent, by)
		}
	}
	return left
}

// refusalOf is status in the form of the answer. A status that stands for what PreFilter left out names no plugin:
// then it is those that restricted the nodes.
func refusalOf(info fwk.NodeInfo, status *fwk.Status, restricting sets.Set[string]) refusal {
	plugin := status.Plugin()
	if plugin == "" {
		plugin = strings.Join(sets.List(restricting), ",")
	}
	return refusal{
		Name:    info.Node().Name,
		Plugin:  plugin,
		Code:    status.Code().String(),
		Reasons: inOrder(status.Reasons()),
	}
}

// fixedReasons are what NodeResourcesFit says first, in an order of its own.
var fixedReasons = sets.New(
	"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage")

// inOrder sorts the reasons that follow those: the plugin goes through the other resources in the order of a map.
func inOrder(reasons []string) []string {
	ordered := append([]string{}, reasons...)
	first := 0
	for first < len(ordered) && fixedReasons.Has(ordered[first]) {
		first++
	}
	if first < len(ordered) && strings.HasPrefix(ordered[first], "Insufficient ") {
		slices.Sort(ordered[first:])
	}
	return ordered
}

// score gives each feasible node its scores; also a lone one, which a scheduling cycle would take unseen.
func (a *attempt) score(feasible []fwk.NodeInfo) (map[string]scored, error) {
	if len(feasible) == 0 {
		return nil, nil
	}
	if status := a.framework.RunPreScorePlugins(a.ctx, a.state, a.pod, feasible); !status.IsSuccess() {
		return nil, status.AsError()
	}
	a.trace.SkippedScores = sets.List(a.state.GetSkipScorePlugins())
	ranked, status := a.framework.RunScorePlugins(a.ctx, a.state, a.pod, feasible)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	found := make(map[string]scored, len(ranked))
	for _, node := range ranked {
		scores := make(map[string]int64, len(node.Scores))
		for _, one := range node.Scores {
			scores[one.Name] = one.Score
		}
		found[node.Name] = scored{Name: node.Name, Scores: scores, Total: node.TotalScore}
	}
	return found, nil
}
