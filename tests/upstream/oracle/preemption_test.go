package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// full is a cluster of nodes of two processors each, and what runs there: per pod its node, priority, processors and more.
type full struct {
	nodes   []string
	pods    []string
	others  []string
	pending string
	asked   string
	config  string
}

// running is a placed pod.
func running(name, node, priority, cpu, more string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %q, labels: {app: %q}%s}\nspec: {nodeName: %s, priority: %s, containers: [{name: m, image: i, resources: {requests: {cpu: %s}}}]}\nstatus: {%s}\n",
		name, name[:1], deletion(more), node, priority, cpu, strings.TrimPrefix(more, "terminating"))
}

func deletion(more string) string {
	if strings.HasPrefix(more, "terminating") {
		return `, deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 30`
	}
	return ""
}

func budget(app, allowed, more string) string {
	return fmt.Sprintf("apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: of-%s-%s}\nspec: {selector: {matchLabels: {app: %q}}}\nstatus: {disruptionsAllowed: %s%s}\n", app, allowed, app, allowed, more)
}

func (f full) ask(t *testing.T) *preemptionAnswer {
	t.Helper()
	var documents []string
	for _, name := range f.nodes {
		documents = append(documents, fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s}\nstatus: {allocatable: {cpu: \"2\", memory: 8Gi, pods: \"10\"}}\n", name))
	}
	documents = append(append(documents, f.pods...), f.others...)
	pending := f.pending
	if pending == "" {
		pending = "priority: 100"
	}
	documents = append(documents, "apiVersion: v1\nkind: Pod\nmetadata: {name: waits}\nspec: {containers: [{name: m, image: i, resources: {requests: {cpu: 1}}}], "+pending+"}\n")
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(documents, "---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := f.asked
	if asked == "" {
		asked = "{}"
	}
	line := fmt.Sprintf(`{"files": [%q], "preemption": %s`, path, asked)
	if f.config != "" {
		line += `, "config": ` + f.config
	}
	var given answer
	if err := json.Unmarshal(reply([]byte(line+"}")), &given); err != nil {
		t.Fatal(err)
	}
	if given.Error != "" {
		t.Fatal(given.Error)
	}
	for _, pod := range given.Pods {
		if pod.Name == "waits" {
			if pod.Error != "" {
				t.Fatal(pod.Error)
			}
			return pod.Preemption
		}
	}
	t.Fatal("no answer")
	return nil
}

// said is an answer in a line: its message, or each candidate with its victims and violations, and what is best.
func said(of *preemptionAnswer) string {
	if of == nil {
		return "nothing"
	}
	if of.Message != "" {
		return of.Message
	}
	var parts []string
	for _, one := range of.Candidates {
		parts = append(parts, fmt.Sprintf("%s %v %d", one.Node, one.Victims, one.BudgetViolations))
	}
	return fmt.Sprintf("%s; best %v by %s", strings.Join(parts, ", "), of.Best, of.Decided)
}

const (
	at1    = `startTime: "2026-01-01T00:00:01Z"`
	at2    = `startTime: "2026-01-01T00:00:02Z"`
	lowest = "-2147483648"
)

func TestPreemptionIsUpstreams(t *testing.T) {
	for _, one := range []struct {
		name string
		of   full
		want string
	}{
		{"the lower priority goes",
			full{nodes: []string{"a", "b"}, pods: []string{running("x", "a", "5", "2", at1), running("y", "b", "4", "2", at1)}},
			"a [default/x] 0, b [default/y] 0; best [b] by lowest top priority"},
		{"equal priority stays",
			full{nodes: []string{"a"}, pods: []string{running("x", "a", "100", "2", "")}},
			"preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."},
		{"it helps nowhere", full{nodes: []string{"a", "b"}, pods: []string{running("x", "a", "5", "2", "")}, pending: "priority: 100, nodeSelector: {no: way}"},
			"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."},
		{"reasons are mixed", full{nodes: []string{"a", "b"}, pods: []string{running("x", "a", "500", "1500m", ""), running("y", "a", "5", "250m", ""), running("z", "b", "500", "2", "")}},
			"preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod."},
		{"never", full{nodes: []string{"a"}, pods: []string{running("x", "a", "5", "2", "")}, pending: "priority: 100, preemptionPolicy: Never"},
			"preemption: not eligible due to preemptionPolicy=Never."},
		{"the small one is spared, the important one is not", full{nodes: []string{"a"}, pods: []string{running("l", "a", "1", "500m", at1), running("m", "a", "2", "1500m", at1)}},
			"a [default/m] 0; best [a] by only one"},
		{"the older one is spared", full{nodes: []string{"a"}, pods: []string{running("n", "a", "1", "1", at2), running("o", "a", "1", "1", at1)}},
			"a [default/n] 0; best [a] by only one"},
		{"a budget protects the lower priority", full{nodes: []string{"a"}, pods: []string{running("l", "a", "1", "1", at1), running("m", "a", "2", "1", at1)}, others: []string{budget("l", "0", "")}},
			"a [default/m] 0; best [a] by only one"},
		{"a budget is violated where nothing else helps", full{nodes: []string{"a"}, pods: []string{running("l", "a", "1", "2", at1)}, others: []string{budget("l", "0", "")}},
			"a [default/l] 1; best [a] by only one"},
		{"a pod on its way out is counted already", full{nodes: []string{"a"}, pods: []string{running("l", "a", "1", "2", at1)},
			others: []string{budget("l", "0", `, disruptedPods: {l: "2026-01-01T00:00:00Z"}`)}},
			"a [default/l] 0; best [a] by only one"},
		{"fewest violations", full{nodes: []string{"a", "b"}, pods: []string{running("l", "a", "1", "2", at1), running("m", "b", "2", "2", at1)}, others: []string{budget("l", "0", "")}},
			"a [default/l] 1, b [default/m] 0; best [b] by fewest violations"},
		{"lowest sum", full{nodes: []string{"a", "b"}, pods: []string{running("l", "a", "2", "1500m", at1), running("m", "a", "1", "500m", at1), running("n", "b", "2", "2", at1)},
			pending: "priority: 100, overhead: {cpu: 800m}"},
			"a [default/l default/m] 0, b [default/n] 0; best [b] by lowest sum"},
		{"fewest victims", full{nodes: []string{"a", "b"}, pods: []string{running("l", "a", "2", "1500m", at1), running("m", "a", lowest, "500m", at1), running("n", "b", "2", "2", at1)},
			pending: "priority: 100, overhead: {cpu: 800m}"},
			"a [default/l default/m] 0, b [default/n] 0; best [b] by fewest victims"},
		{"latest start", full{nodes: []string{"a", "b"}, pods: []string{running("l", "a", "2", "2", at1), running("m", "b", "2", "2", at2)}},
			"a [default/l] 0, b [default/m] 0; best [b] by latest start"},
		{"what has not started is the latest", full{nodes: []string{"a", "b"}, pods: []string{running("l", "a", "2", "2", ""), running("m", "b", "2", "2", at2)}},
			"a [default/l] 0, b [default/m] 0; best [a] by latest start"},
		{"a tie", full{nodes: []string{"a", "b", "c"}, pods: []string{running("l", "a", "2", "2", at1), running("m", "b", "2", "2", at1), running("n", "c", "3", "2", at1)}},
			"a [default/l] 0, b [default/m] 0, c [default/n] 0; best [a b] by a tie"},
		{"a tie of pods that have not started", full{nodes: []string{"a", "b"}, pods: []string{running("l", "a", "2", "2", ""), running("m", "b", "2", "2", "")}},
			"a [default/l] 0, b [default/m] 0; best [a b] by a tie"},
		{"never a victim", full{nodes: []string{"a", "b"}, pods: []string{running("l", "a", "2", "2", at1), running("m", "b", "2", "2", at1)}, asked: `{"never": ["default/l"]}`},
			"b [default/m] 0; best [b] by only one"},
		{"no plugin", full{nodes: []string{"a"}, pods: []string{running("l", "a", "2", "2", at1)},
			config: `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}}]}`},
			"nothing"},
	} {
		t.Run(one.name, func(t *testing.T) {
			if got := said(one.of.ask(t)); got != one.want {
				t.Errorf("got  %s\nwant %s", got, one.want)
			}
		})
	}
}

const preempted = "terminating conditions: [{type: DisruptionTarget, status: \"True\", reason: PreemptionByScheduler}]"

// nominated is a cluster whose waiting pod is nominated to a.
func nominated(onA string, on string) full {
	of := full{nodes: []string{"a", "b"}, pods: []string{running("x", "a", "5", "2", onA), running("y", "b", "4", "2", at1)}}
	of.pending = "priority: 100}\nstatus: {nominatedNodeName: " + on
	return of
}

func TestWhoMayPreemptAgain(t *testing.T) {
	waits := nominated(preempted, "a").ask(t)
	if waits.Message != "preemption: not eligible due to a terminating pod on the nominated node." || waits.Clears {
		t.Errorf("%+v", waits)
	}
	other := nominated("terminating"+at1, "a").ask(t)
	if !other.Eligibility.Eligible || other.Node != "b" {
		t.Errorf("a pod that ends for another reason stops nobody: %+v", other)
	}
	gone := nominated(preempted, "gone").ask(t)
	if !gone.Eligibility.Eligible || !gone.Eligibility.Unresolvable {
		t.Errorf("%+v", gone)
	}
	helpless := nominated(at1, "a")
	helpless.pods[0] = running("x", "a", "500", "2", at1)
	helpless.pods[1] = running("y", "b", "500", "2", at1)
	if got := helpless.ask(t); !got.Clears || got.Code != "Unschedulable" {
		t.Errorf("a nomination that helps no longer goes: %+v", got)
	}
}

func TestALiveSearchStopsWhenItHasEnough(t *testing.T) {
	of := full{nodes: []string{"a", "b", "c", "d"}, asked: `{"offset": 6, "order": ["d", "c", "b", "a"]}`,
		config: `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 1}}]}]}`}
	for i, node := range of.nodes {
		of.pods = append(of.pods, running(string("xlmn"[i]), node, "5", "2", at1))
	}
	first := of.ask(t)
	want := &liveAnswer{Offset: 2, Wanted: 1, Tried: []string{"b"}, Candidates: []string{"b"}, Best: []string{"b"}}
	if !reflect.DeepEqual(first.Live, want) || first.Node != "b" || len(first.Candidates) != 4 {
		t.Errorf("%+v, %+v", first.Live, first)
	}
	// One that violates a budget is not enough: it goes on, around the end, and lists the better one first.
	of.others = []string{budget("l", "0", ""), budget("x", "0", "")}
	past := of.ask(t)
	want = &liveAnswer{Offset: 2, Wanted: 1, Tried: []string{"b", "a", "d"}, Candidates: []string{"d", "b"}, Best: []string{"d"}}
	if !reflect.DeepEqual(past.Live, want) {
		t.Errorf("%+v", past.Live)
	}
}

func TestArgumentsMayWantNoCandidateAtAll(t *testing.T) {
	of := full{nodes: []string{"a"}, pods: []string{running("x", "a", "5", "2", at1)},
		config: `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 0}}]}]}`}
	got := of.ask(t)
	if len(got.Candidates) != 1 || got.Message != "" || got.Node != "" || got.Live.Wanted != 0 {
		t.Errorf("%+v", got)
	}
	if want := "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."; got.Live.Message != want {
		t.Error(got.Live.Message)
	}
}

func TestWhatWouldBeWrittenIsSaid(t *testing.T) {
	of := full{nodes: []string{"a"}, pods: []string{running("x", "a", "5", "1", "terminating"+at1), running("y", "a", "5", "1", at1)},
		others: []string{"apiVersion: v1\nkind: Pod\nmetadata: {name: lower}\nspec: {priority: 50, containers: [{name: m, image: i}]}\nstatus: {nominatedNodeName: a}\n"}}
	of.pending = "priority: 100, overhead: {cpu: 1}"
	got := of.ask(t)
	if said(got) != "a [default/x default/y] 0; best [a] by only one" {
		t.Error(said(got))
	}
	if !reflect.DeepEqual(got.Deleted, []string{"default/y"}) || !reflect.DeepEqual(got.Cleared, []string{"default/lower"}) {
		t.Errorf("deleted %v, cleared %v", got.Deleted, got.Cleared)
	}
}

func TestImportanceIsUpstreamsUpToTies(t *testing.T) {
	pod := func(name string, priority int32, started int64) *corev1.Pod {
		made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)}, Spec: corev1.PodSpec{Priority: &priority}}
		if started > 0 {
			made.Status.StartTime = &metav1.Time{Time: time.Unix(started, 0)}
		}
		return made
	}
	pods := []*corev1.Pod{pod("a", 1, 0), pod("b", 1, 5), pod("c", 1, 5), pod("d", 1, 0), pod("e", 2, 9), pod("f", -1, 1), pod("g", 1, 4)}
	position := map[types.UID]int{}
	for at, one := range pods {
		position[one.UID] = at
	}
	for at, one := range pods {
		for behind, other := range pods {
			same := *one.Spec.Priority == *other.Spec.Priority
			tie := same && (one.Status.StartTime.Equal(other.Status.StartTime) || one.Status.StartTime == nil && other.Status.StartTime == nil)
			want := util.MoreImportantPod(one, other)
			if tie {
				want = at < behind
			}
			if got := moreImportant(position, one, other); got != want {
				t.Errorf("%s before %s: %v", one.UID, other.UID, got)
			}
		}
	}
}
