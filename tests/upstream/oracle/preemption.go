package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// preempt is what upstream's DefaultPreemption does for a pod that fits nowhere; nil where its profile has no such plugin.
// Nothing is deleted and no API server is asked: who would be deleted, and whose nomination cleared, is written down.
func (a *attempt) preempt(asked *preemptionAsked) (*preemptionAnswer, error) {
	plugin, err := preemptionOf(a.framework)
	if plugin == nil || err != nil {
		return nil, err
	}
	order, err := a.order(asked)
	if err != nil {
		return nil, err
	}
	statuses := inOrderOf{a.diagnosis.NodeToStatus, order}
	potential, err := statuses.NodesForStatusCode(a.framework.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return nil, err
	}
	given := &preemptionAnswer{Potential: namesOf(potential), Candidates: []candidateAnswer{}}
	given.Eligibility = a.eligibility(plugin, statuses)
	if err := a.rehearse(plugin, statuses, asked.Offset, given); err != nil {
		return nil, err
	}
	if given.Code != fwk.Success.String() {
		// What follows no longer depends on where the search begins: PostFilter itself may word it.
		_, status := plugin.PostFilter(a.ctx, a.state, a.pod, statuses)
		if status.Code().String() != given.Code {
			return nil, fmt.Errorf("preemption ends in %s once and in %s the second time", given.Code, status.Code())
		}
		given.Message = status.Message()
	}
	if !given.Eligibility.Eligible || len(potential) == 0 {
		return given, nil
	}
	search := search{attempt: a, plugin: plugin, potential: potential}
	if search.budgets, err = plugin.Evaluator.PdbLister.List(labels.Everything()); err != nil {
		return nil, err
	}
	if err := search.everywhere(given); err != nil {
		return nil, err
	}
	return given, search.live(asked.Offset, given)
}

// order is the one in which nodes are tried: as asked, or that of the snapshot, with its zones interleaved.
func (a *attempt) order(asked *preemptionAsked) ([]string, error) {
	if len(asked.Order) > 0 {
		return asked.Order, nil
	}
	listed, err := a.framework.SnapshotSharedLister().NodeInfos().List()
	return namesOf(listed), err
}

// preemptionOf finds the plugin that a profile's PostFilter runs.
func preemptionOf(profile framework.Framework) (*defaultpreemption.DefaultPreemption, error) {
	enabled := slices.ContainsFunc(profile.ListPlugins().PostFilter.Enabled,
		func(one config.Plugin) bool { return one.Name == defaultpreemption.Name })
	if !enabled {
		return nil, nil
	}
	for _, plugin := range profile.PreEnqueuePlugins() {
		if found, ok := plugin.(*defaultpreemption.DefaultPreemption); ok {
			return found, nil
		}
	}
	return nil, fmt.Errorf("profile %s has %s at PostFilter, but not at PreEnqueue where the oracle looks for it; enable both or none",
		profile.ProfileName(), defaultpreemption.Name)
}

// hook fills the plugin's own hooks in every profile: who is never a victim, and which of equals is more important.
func (c *cluster) hook(asked *preemptionAsked, of *objects) error {
	never := sets.New(asked.Never...)
	position := of.positions()
	for _, profile := range c.frameworks {
		plugin, err := preemptionOf(profile)
		if err != nil {
			return err
		}
		if plugin == nil {
			continue
		}
		plugin.IsEligiblePod = func(_ fwk.NodeInfo, victim fwk.PodInfo, _ *corev1.Pod) bool {
			return !never.Has(keyOf(victim.GetPod()))
		}
		plugin.MoreImportantPod = func(one, other *corev1.Pod) bool { return moreImportant(position, one, other) }
		plugin.Executor.PreemptPod = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *corev1.Pod, string) error {
			return nil
		}
	}
	return nil
}

// moreImportant is upstream's order of victims with its ties broken by the order in which the pods were given. Upstream
// asks the clock for each pod without a start time, each time it looks at it: of two such pods each is then older than
// the other. On equals its sort keeps the order of the node's list while that has at most twelve entries.
func moreImportant(position map[types.UID]int, one, other *corev1.Pod) bool {
	unstarted := one.Status.StartTime == nil && other.Status.StartTime == nil
	if unstarted && corev1helpers.PodPriority(one) == corev1helpers.PodPriority(other) {
		return position[one.UID] < position[other.UID]
	}
	before, after := util.MoreImportantPod(one, other), util.MoreImportantPod(other, one)
	if before != after {
		return before
	}
	return position[one.UID] < position[other.UID]
}

// eligibility is whether the pod may preempt at all, and by which rule.
func (a *attempt) eligibility(plugin *defaultpreemption.DefaultPreemption, statuses fwk.NodeToStatusReader) eligibility {
	nominated := a.pod.Status.NominatedNodeName
	status := statuses.Get(nominated)
	eligible, reason := plugin.PodEligibleToPreemptOthers(a.ctx, a.pod, status)
	return eligibility{
		Eligible: eligible, Reason: reason, Nominated: nominated,
		Unresolvable: nominated != "" && status.Code() == fwk.UnschedulableAndUnresolvable,
	}
}

// rehearse runs the whole of upstream's preemption from the given offset, with an executor that only takes notes.
func (a *attempt) rehearse(plugin *defaultpreemption.DefaultPreemption, statuses fwk.NodeToStatusReader, offset int32, into *preemptionAnswer) error {
	notes := &notes{}
	executor := preemption.NewExecutor(noted{a.framework, notes}, feature.Features{})
	executor.PreemptPod = notes.preempt
	evaluator := preemption.NewEvaluator(defaultpreemption.Name, a.framework, &fromOffset{plugin, offset}, executor)
	result, status := evaluator.Preempt(a.ctx, a.state, a.pod, statuses)
	into.Code = status.Code().String()
	if status.Code() == fwk.Error {
		into.Message = status.Message()
	}
	into.Clears = result != nil && result.Mode() == fwk.ModeOverride && result.NominatedNodeName == ""
	if result != nil {
		into.Node = result.NominatedNodeName
	}
	into.Deleted, into.Cleared = slices.Sorted(slices.Values(notes.deleted)), slices.Sorted(slices.Values(notes.cleared))
	return nil
}

// search is the dry run for one pod.
type search struct {
	*attempt
	plugin    *defaultpreemption.DefaultPreemption
	potential []fwk.NodeInfo
	budgets   []*policyv1.PodDisruptionBudget
}

// everywhere is the dry run on every potential node.
func (s *search) everywhere(into *preemptionAnswer) (err error) {
	run := func(budgets []*policyv1.PodDisruptionBudget) ([]preemption.Candidate, *framework.NodeToStatus) {
		// Errors of single nodes are in the statuses, too.
		candidates, statuses, _ := s.plugin.Evaluator.DryRunPreemption(
			s.ctx, s.state, s.pod, s.potential, budgets, 0, int32(len(s.potential)))
		return candidates, statuses
	}
	candidates, statuses := run(s.budgets)
	for _, one := range candidates {
		into.Candidates = append(into.Candidates, s.candidate(one))
	}
	if len(s.budgets) > 0 {
		unbudgeted, _ := run(nil)
		s.compare(into.Candidates, unbudgeted)
	}
	slices.SortFunc(into.Candidates, func(a, b candidateAnswer) int { return strings.Compare(a.Node, b.Node) })
	statuses.ForEachExplicitNode(func(name string, status *fwk.Status) {
		into.Refused = append(into.Refused, refusalOf(s.node[name], status, nil))
	})
	slices.SortFunc(into.Refused, func(a, b refusal) int { return strings.Compare(a.Name, b.Name) })
	into.Best, into.Decided, err = s.choose(s.plugin.Evaluator, candidates)
	return err
}

// compare notes on which nodes there would be other victims if there were no budgets.
func (s *search) compare(candidates []candidateAnswer, unbudgeted []preemption.Candidate) {
	victims := make(map[string][]string)
	for _, one := range unbudgeted {
		victims[one.Name()] = s.candidate(one).Victims
	}
	for i := range candidates {
		candidates[i].BudgetsMatter = !slices.Equal(candidates[i].Victims, victims[candidates[i].Node])
	}
}

// live is the dry run that a scheduling cycle makes: from an offset, and no further than the profile's arguments say.
func (s *search) live(offset int32, into *preemptionAnswer) (err error) {
	from := &fromOffset{s.plugin, offset}
	tried := &counting{fromOffset: from}
	evaluator := *s.plugin.Evaluator
	evaluator.Interface = tried
	begin, wanted := from.GetOffsetAndNumCandidates(int32(len(s.potential)))
	candidates, _, _ := evaluator.DryRunPreemption(s.ctx, s.state, s.pod, s.potential, s.budgets, begin, wanted)
	live := &liveAnswer{Offset: begin, Wanted: wanted, Tried: tried.nodes, Candidates: []string{}}
	for _, one := range candidates {
		live.Candidates = append(live.Candidates, one.Name())
	}
	if live.Best, _, err = s.choose(s.plugin.Evaluator, candidates); err != nil {
		return err
	}
	if into.Node != "" && !slices.Contains(live.Best, into.Node) {
		return fmt.Errorf("preemption chose %s, which is not among the best, %v", into.Node, live.Best)
	}
	// Arguments can say that no candidate at all is wanted of few nodes.
	if len(into.Candidates) > 0 {
		live.Message, into.Message = into.Message, ""
	}
	into.Live = live
	return nil
}

func (s *search) candidate(of preemption.Candidate) candidateAnswer {
	given := candidateAnswer{Node: of.Name(), BudgetViolations: of.Victims().NumPDBViolations, Victims: []string{}}
	for _, victim := range of.Victims().Pods {
		given.Victims = append(given.Victims, keyOf(victim))
	}
	mine := corev1helpers.PodPriority(s.pod)
	for _, info := range s.node[of.Name()].GetPods() {
		if corev1helpers.PodPriority(info.GetPod()) < mine {
			given.Lower++
		}
	}
	return given
}

// fromOffset is the plugin with the start of its search given in place of drawn.
type fromOffset struct {
	*defaultpreemption.DefaultPreemption
	offset int32
}

func (f *fromOffset) GetOffsetAndNumCandidates(nodes int32) (int32, int32) {
	_, wanted := f.DefaultPreemption.GetOffsetAndNumCandidates(nodes)
	return f.offset % nodes, wanted
}

// counting also notes which nodes are tried.
type counting struct {
	*fromOffset
	nodes []string
}

func (c *counting) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo, budgets []*policyv1.PodDisruptionBudget) ([]*corev1.Pod, int, *fwk.Status) {
	c.nodes = append(c.nodes, node.Node().Name)
	return c.fromOffset.SelectVictimsOnNode(ctx, state, pod, node, budgets)
}

// inOrderOf are the statuses of nodes, listed in a given order, the others after them by name: upstream lists them in
// the order of a map.
type inOrderOf struct {
	fwk.NodeToStatusReader
	order []string
}

func (o inOrderOf) NodesForStatusCode(lister fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	found, err := o.NodeToStatusReader.NodesForStatusCode(lister, code)
	if err != nil {
		return nil, err
	}
	found = slices.Clone(found)
	place := func(info fwk.NodeInfo) int {
		if at := slices.Index(o.order, info.Node().Name); at >= 0 {
			return at
		}
		return len(o.order)
	}
	slices.SortFunc(found, func(a, b fwk.NodeInfo) int {
		if order := place(a) - place(b); order != 0 {
			return order
		}
		return strings.Compare(a.Node().Name, b.Node().Name)
	})
	return found, nil
}

// notes are what an executor would have written to the API server.
type notes struct {
	mutex            sync.Mutex
	deleted, cleared []string
}

func (n *notes) preempt(_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor, victim *corev1.Pod, _ string) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.deleted = append(n.deleted, keyOf(victim))
	return nil
}

// noted is a profile whose writes end in notes.
type noted struct {
	framework.Framework
	notes *notes
}

func (n noted) APICacher() fwk.APICacher { return notedCalls{notes: n.notes} }

type notedCalls struct {
	fwk.APICacher
	notes *notes
}

func (n notedCalls) PatchPodStatus(pod *corev1.Pod, _ *corev1.PodCondition, _ *fwk.NominatingInfo) (<-chan error, error) {
	n.notes.cleared = append(n.notes.cleared, keyOf(pod))
	return nil, nil
}

func keyOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func namesOf(nodes []fwk.NodeInfo) []string {
	names := make([]string, 0, len(nodes))
	for _, info := range nodes {
		names = append(names, info.Node().Name)
	}
	return names
}
