package main

import (
	"fmt"
	"math"
	"slices"

	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// rounds are how often upstream is asked to choose between two nodes before the second counts as never chosen. The order
// of a map of two depends on one of eight starting points, so that half of the rounds (the node comes first) show a
// tie with seven in eight.
const rounds = 24

// choose finds the nodes among which upstream's choice is arbitrary, by letting it choose between its choice and each
// other; and which criterion decided, in words of ours, for the table of what a run has reached.
func (a *attempt) choose(evaluator *preemption.Evaluator, candidates []preemption.Candidate) ([]string, string, error) {
	if len(candidates) == 0 {
		return nil, "", nil
	}
	chosen := evaluator.SelectCandidate(a.ctx, candidates).Name()
	best := []string{chosen}
	at := slices.IndexFunc(candidates, func(one preemption.Candidate) bool { return one.Name() == chosen })
	for _, other := range candidates {
		if other.Name() != chosen && a.ties(evaluator, candidates[at], other) {
			best = append(best, other.Name())
		}
	}
	slices.Sort(best)
	left, decided := byCriteria(candidates)
	if !slices.Equal(left, best) {
		return nil, "", fmt.Errorf("upstream chooses among %v; its criteria as the oracle reads them leave %v", best, left)
	}
	return best, decided, nil
}

// ties is whether upstream ever takes other where it could have chosen.
func (a *attempt) ties(evaluator *preemption.Evaluator, chosen, other preemption.Candidate) bool {
	for round := range rounds {
		pair := []preemption.Candidate{chosen, other}
		if round%2 == 0 {
			slices.Reverse(pair)
		}
		if evaluator.SelectCandidate(a.ctx, pair).Name() == other.Name() {
			return true
		}
	}
	return false
}

// criteria are upstream's, each the better the higher, under the names of the table.
var criteria = []struct {
	name string
	of   func(*extenderv1.Victims) int64
}{
	{"fewest violations", func(v *extenderv1.Victims) int64 { return -v.NumPDBViolations }},
	{"lowest top priority", func(v *extenderv1.Victims) int64 { return -int64(corev1helpers.PodPriority(v.Pods[0])) }},
	{"lowest sum", func(v *extenderv1.Victims) int64 {
		sum := int64(0)
		for _, pod := range v.Pods {
			sum -= int64(corev1helpers.PodPriority(pod)) + math.MaxInt32 + 1
		}
		return sum
	}},
	{"fewest victims", func(v *extenderv1.Victims) int64 { return -int64(len(v.Pods)) }},
	{"latest start", latestStart},
}

// latestStart is the earliest start among the victims of the highest priority; of none, the end of time.
func latestStart(v *extenderv1.Victims) int64 {
	earliest := int64(math.MaxInt64)
	for _, pod := range v.Pods {
		first := corev1helpers.PodPriority(pod) == corev1helpers.PodPriority(v.Pods[0])
		if first && pod.Status.StartTime != nil {
			earliest = min(earliest, pod.Status.StartTime.UnixNano())
		}
	}
	return earliest
}

// byCriteria are the nodes that the criteria leave, and the name of the last one that left fewer than there were.
func byCriteria(candidates []preemption.Candidate) ([]string, string) {
	left, decided := slices.Clone(candidates), "only one"
	for _, criterion := range criteria {
		best := int64(math.MinInt64)
		for _, one := range left {
			best = max(best, criterion.of(one.Victims()))
		}
		before := len(left)
		left = slices.DeleteFunc(left, func(one preemption.Candidate) bool { return criterion.of(one.Victims()) < best })
		if len(left) < before {
			decided = criterion.name
		}
	}
	if len(left) > 1 {
		decided = "a tie"
	}
	var names []string
	for _, one := range left {
		names = append(names, one.Name())
	}
	slices.Sort(names)
	return names, decided
}
