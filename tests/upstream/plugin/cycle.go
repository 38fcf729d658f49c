package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// handle is as much of the framework as the plugin asks for; anything else panics, and the answer says so.
type handle struct {
	fwk.Handle
	server   *server
	manager  *manager
	recorder *events.FakeRecorder
}

func (h *handle) ClientSet() kubernetes.Interface           { return h.server.client }
func (h *handle) SharedDRAManager() fwk.SharedDRAManager    { return h.manager }
func (h *handle) EventRecorder() events.EventRecorderLogger { return h.recorder }
func (h *handle) ProfileName() string                       { return "default-scheduler" }

// cycle is one pod on its way through the points of the plugin.
type cycle struct {
	*handle
	plugin *dynamicresources.DynamicResources
	pod    *corev1.Pod
	state  fwk.CycleState
	given  answer
}

func newCycle(asked *question) (*cycle, error) {
	has := asked.Claims
	if asked.Server != nil {
		has = *asked.Server
	}
	for _, claim := range append(append(has[:0:0], has...), asked.Claims...) {
		// Both ends compare versions as numbers.
		if claim.ResourceVersion == "" {
			claim.ResourceVersion = "1"
		}
	}
	server, err := newServer(asked.Pod, has, asked.Faults)
	if err != nil {
		return nil, err
	}
	built := &handle{server: server, manager: newManager(asked), recorder: events.NewFakeRecorder(64)}
	server.observe = built.manager.claims.observe
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	plugin, err := dynamicresources.New(context.Background(), asked.Args.config(), built, features)
	if err != nil {
		return nil, err
	}
	return &cycle{
		handle: built,
		plugin: plugin.(*dynamicresources.DynamicResources),
		pod:    asked.Pod,
		state:  framework.NewCycleState(),
	}, nil
}

// config has the defaults of the versioned arguments.
func (a arguments) config() *config.DynamicResourcesArgs {
	args := &config.DynamicResourcesArgs{FilterTimeout: a.FilterTimeout, BindingTimeout: a.BindingTimeout}
	if args.FilterTimeout == nil {
		args.FilterTimeout = &metav1.Duration{Duration: config.DynamicResourcesFilterTimeoutDefault}
	}
	if args.BindingTimeout == nil {
		args.BindingTimeout = &metav1.Duration{Duration: config.DynamicResourcesBindingTimeoutDefault}
	}
	return args
}

func (c *cycle) at(point string) { c.server.point = point }

func (c *cycle) run(asked *question) *answer {
	ctx := context.Background()
	if chosen := c.choose(ctx, asked); chosen != "" {
		c.bind(ctx, chosen)
		if asked.Unreserve {
			c.at("unreserve")
			c.plugin.Unreserve(ctx, c.state, c.pod, chosen)
		}
	}
	for len(c.recorder.Events) > 0 {
		c.given.Events = append(c.given.Events, <-c.recorder.Events)
	}
	c.given.Writes, c.given.InFlightAfter = c.server.writes, c.manager.claims.uids()
	return &c.given
}

// choose goes as far as Score, or PostFilter, and gives the node that the pod goes to, if to any.
func (c *cycle) choose(ctx context.Context, asked *question) string {
	c.at("preEnqueue")
	c.given.PreEnqueue = statusOf(c.plugin.PreEnqueue(ctx, c.pod))
	nodes := make([]fwk.NodeInfo, 0, len(asked.Nodes))
	for _, node := range asked.Nodes {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		nodes = append(nodes, info)
	}
	if asked.Weigh != nil {
		weighed, err := c.weigh(ctx, asked, nodes)
		if err != nil {
			panic(err)
		}
		c.given.Weighed = weighed
	}
	c.at("preFilter")
	_, outcome := c.plugin.PreFilter(ctx, c.state, c.pod, nodes)
	c.given.PreFilter = statusOf(outcome)
	switch {
	case outcome.IsRejected():
		c.postFilter(ctx, framework.NewDefaultNodeToStatus())
		return ""
	case !outcome.IsSuccess():
		return ""
	}
	fits, failed := c.filter(ctx, nodes)
	if failed || len(fits) == 0 || !c.score(ctx, fits) {
		return ""
	}
	if asked.Choose != "" {
		return asked.Choose
	}
	return fits[0].Node().Name
}

// filter also tells whether a node's Error ended the attempt. All nodes are asked: which of several is met first is left to chance upstream.
func (c *cycle) filter(ctx context.Context, nodes []fwk.NodeInfo) (fits []fwk.NodeInfo, failed bool) {
	c.at("filter")
	c.given.Nodes = make(map[string]*status, len(nodes))
	refused := framework.NewDefaultNodeToStatus()
	for _, info := range nodes {
		name := info.Node().Name
		outcome := c.plugin.Filter(ctx, c.state, c.pod, info)
		c.given.Nodes[name] = statusOf(outcome)
		if outcome.IsSuccess() {
			fits = append(fits, info)
		} else {
			refused.Set(name, outcome)
		}
		failed = failed || outcome.IsError()
	}
	if !failed && len(fits) == 0 {
		c.postFilter(ctx, refused)
	}
	return fits, failed
}

func (c *cycle) postFilter(ctx context.Context, refused fwk.NodeToStatusReader) {
	c.at("postFilter")
	_, outcome := c.plugin.PostFilter(ctx, c.state, c.pod, refused)
	c.given.PostFilter = statusOf(outcome)
}

func (c *cycle) score(ctx context.Context, fits []fwk.NodeInfo) bool {
	c.at("score")
	list := make(fwk.NodeScoreList, 0, len(fits))
	c.given.Scores, c.given.Normalized = map[string]int64{}, map[string]int64{}
	for _, info := range fits {
		name := info.Node().Name
		score, outcome := c.plugin.Score(ctx, c.state, c.pod, info)
		if !outcome.IsSuccess() {
			c.given.Score = statusOf(outcome)
			return false
		}
		c.given.Scores[name] = score
		list = append(list, fwk.NodeScore{Name: name, Score: score})
	}
	if outcome := c.plugin.ScoreExtensions().NormalizeScore(ctx, c.state, c.pod, list); !outcome.IsSuccess() {
		c.given.Score = statusOf(outcome)
		return false
	}
	for _, one := range list {
		c.given.Normalized[one.Name] = one.Score
	}
	return true
}

// Nothing that a question tells of changes while PreBind waits for devices to be ready, so that it may as well wait shortly.
const wait = 250 * time.Millisecond

func (c *cycle) bind(ctx context.Context, node string) {
	c.given.Chosen = node
	c.at("reserve")
	reserved := c.plugin.Reserve(ctx, c.state, c.pod, node)
	c.given.Reserve = statusOf(reserved)
	uids := c.manager.claims.uids()
	c.given.InFlightReserved = &uids
	if !reserved.IsSuccess() {
		return
	}
	c.at("preBind")
	result, outcome := c.plugin.PreBindPreFlight(ctx, c.state, c.pod, node)
	c.given.PreBindPreFlight = &flight{status: *statusOf(outcome), AllowParallel: result != nil && result.AllowParallel}
	if !outcome.IsSuccess() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	c.given.PreBind = statusOf(c.plugin.PreBind(ctx, c.state, c.pod, node))
}
