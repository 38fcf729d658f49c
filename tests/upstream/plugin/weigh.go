package main

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

// Which plugin scores by allocation, how, and over what.
type weighing struct {
	// Empty for NodeResourcesBalancedAllocation.
	Strategy  config.ScoringStrategyType `json:"strategy"`
	Resources []config.ResourceSpec      `json:"resources"`
}

// weigh scores every node, whether it fits or not.
func (h *handle) weigh(ctx context.Context, asked *question, nodes []fwk.NodeInfo) (map[string]int64, error) {
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	how, build := asked.Weigh, noderesources.NewFit
	var args runtime.Object = &config.NodeResourcesFitArgs{
		ScoringStrategy: &config.ScoringStrategy{Type: how.Strategy, Resources: how.Resources},
	}
	if how.Strategy == "" {
		build = noderesources.NewBalancedAllocation
		args = &config.NodeResourcesBalancedAllocationArgs{Resources: how.Resources}
	}
	built, err := build(ctx, args, h, features)
	if err != nil {
		return nil, err
	}
	state := framework.NewCycleState()
	outcome := built.(fwk.PreScorePlugin).PreScore(ctx, state, asked.Pod, nodes)
	if outcome.IsSkip() {
		return map[string]int64{}, nil
	}
	if !outcome.IsSuccess() {
		return nil, outcome.AsError()
	}
	scores := make(map[string]int64, len(nodes))
	for _, node := range nodes {
		score, outcome := built.(fwk.ScorePlugin).Score(ctx, state, asked.Pod, node)
		if !outcome.IsSuccess() {
			return nil, errors.Join(errors.New(node.Node().Name), outcome.AsError())
		}
		scores[node.Node().Name] = score
	}
	return scores, nil
}
