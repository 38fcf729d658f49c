package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	contain()
	os.Exit(m.Run())
}

// found is an answer as a reader in another language sees it.
type found struct {
	ID      json.RawMessage
	Error   string
	Skipped int
	Pods    []struct {
		Name, Message, Reason, Error string
		Profile                      *string
		Feasible                     int
		Nodes                        []struct {
			Name, Plugin, Code string
			Reasons            []string
			Scores             map[string]int64
			Total              *int64
		}
	}
}

// ask serves the requests, and decodes the answers.
func ask(t *testing.T, requests ...string) []found {
	t.Helper()
	var out bytes.Buffer
	if err := serve(strings.NewReader(strings.Join(requests, "\n")), &out, 2); err != nil {
		t.Fatal(err)
	}
	answers := make([]found, 0, len(requests))
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var one found
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		answers = append(answers, one)
	}
	if len(answers) != len(requests) {
		t.Fatalf("%d answers to %d requests", len(answers), len(requests))
	}
	return answers
}

// text is what an answer says in one line: per pod what was found, per node the refusing plugin or "ok".
func (f found) text() string {
	if f.Error != "" {
		return "error: " + f.Error
	}
	var lines []string
	for _, pod := range f.Pods {
		line := pod.Name + ":"
		for _, said := range []string{pod.Reason, pod.Error, pod.Message} {
			if said != "" {
				line += " " + said
			}
		}
		for _, node := range pod.Nodes {
			verdict := node.Plugin
			if node.Total != nil {
				verdict = "ok"
			}
			line += fmt.Sprintf(" [%s %s]", node.Name, verdict)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

const threeNodes = `
apiVersion: v1
kind: Node
metadata: {name: a, labels: {zone: z1, topology.kubernetes.io/zone: z1, kubernetes.io/hostname: a}}
spec: {taints: [{key: k, effect: NoSchedule}]}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Node
metadata: {name: b, labels: {zone: z1, topology.kubernetes.io/zone: z1, kubernetes.io/hostname: b}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Node
metadata: {name: c, labels: {zone: z2, topology.kubernetes.io/zone: z2, kubernetes.io/hostname: c}}
status: {allocatable: {cpu: "1", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: there, labels: {app: x}}
spec: {nodeName: c, containers: [{name: m, image: i}]}
`

const volumes = `
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: late}, provisioner: x.y, volumeBindingMode: WaitForFirstConsumer}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: bound, labels: {topology.kubernetes.io/zone: z2}}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /x}, claimRef: {namespace: default, name: bound}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: bound, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {accessModes: [ReadWriteOnce], volumeName: bound, storageClassName: "", resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: free}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: static
  hostPath: {path: /x}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [b]}]}]}}
status: {phase: Available}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: static}, provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: static}, spec: {accessModes: [ReadWriteOnce], storageClassName: static, resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: late}, spec: {accessModes: [ReadWriteOnce], storageClassName: late, resources: {requests: {storage: 1Gi}}}}
`

// judged is the text about one pod with the given spec, beside the three nodes and the volumes.
func judged(t *testing.T, spec string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	pod := "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {app: x}}\nspec: {containers: [{name: m, image: i}]" + spec + "}\n"
	if err := os.WriteFile(path, []byte(threeNodes+"---"+volumes+pod), 0o600); err != nil {
		t.Fatal(err)
	}
	return ask(t, fmt.Sprintf(`{"files": [%q]}`, path))[0].text()
}

func TestEachPluginIsUpstreams(t *testing.T) {
	selector := "labelSelector: {matchLabels: {app: x}}"
	claim := func(name string) string {
		return ", volumes: [{name: v, persistentVolumeClaim: {claimName: " + name + "}}]"
	}
	for _, one := range []struct{ name, spec, want string }{
		{"taints", "", "p: [a TaintToleration] [b ok] [c ok]"},
		{"resources", ", resources: {requests: {cpu: 2}}, tolerations: [{operator: Exists}]", "p: [a ok] [b ok] [c NodeResourcesFit]"},
		{"spread", ", topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, " + selector + "}]",
			"p: [a TaintToleration] [b ok] [c PodTopologySpread]"},
		{"anti-affinity", ", affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, " + selector + "}]}}",
			"p: [a TaintToleration] [b ok] [c InterPodAffinity]"},
		{"affinity", ", affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, " + selector + "}]}}",
			"p: [a TaintToleration] [b InterPodAffinity] [c ok]"},
		{"a claim that is not there", claim("none"),
			`p: 0/3 nodes are available: persistentvolumeclaim "none" not found. [a VolumeRestrictions] [b VolumeRestrictions] [c VolumeRestrictions]`},
		{"a volume of one zone", claim("bound"), "p: [a TaintToleration] [b VolumeZone] [c ok]"},
		{"a volume to be chosen", claim("static"), "p: [a TaintToleration] [b ok] [c VolumeBinding]"},
		{"a volume to be made", claim("late"), "p: [a TaintToleration] [b ok] [c ok]"},
		{"one node by name", ", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [b]}]}]}}}",
			"p: [a NodeAffinity] [b ok] [c NodeAffinity]"},
		{"gates", ", schedulingGates: [{name: g}]", "p: waiting for scheduling gates: [g]"},
		{"no profile", ", schedulerName: nobody", "p: no profile"},
		{"an error", ", topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchExpressions: [{key: a, operator: Odd}]}}]",
			`p: running PreFilter plugin "PodTopologySpread": get constraints from pod: obtaining pod's hard topology spread constraints: "Odd" is not a valid label selector operator`},
	} {
		t.Run(one.name, func(t *testing.T) {
			if got := judged(t, one.spec); got != one.want {
				t.Errorf("got  %s\nwant %s", got, one.want)
			}
		})
	}
}

const profiles = `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [
	{"schedulerName": "one", "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy":
		{"type": "MostAllocated", "resources": [{"name": "cpu", "weight": WEIGHT}]}}}]},
	{"schedulerName": "two", "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 7}]}}}]}`

func TestConfigurationsAreReadAsUpstreamDoes(t *testing.T) {
	request := func(weight, id string) string {
		config := strings.ReplaceAll(strings.ReplaceAll(profiles, "WEIGHT", weight), "\n", " ")
		pod := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "NAME"}, "spec": {"schedulerName": "NAME",
			"containers": [{"name": "m", "resources": {"requests": {"cpu": "1"}}}]}}`
		return strings.ReplaceAll(fmt.Sprintf(`{"id": %s, "config": %s, "objects": [%s, %s, {"kind": "Node", "apiVersion": "v1",
			"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}}]}`, id, config,
			strings.ReplaceAll(pod, "NAME", "one"), strings.ReplaceAll(pod, "NAME", "two")), "\n", " ")
	}
	answers := ask(t, request("1", `"good"`), request("101", "2"))
	if string(answers[0].ID) != `"good"` || string(answers[1].ID) != "2" {
		t.Errorf("ids: %s, %s", answers[0].ID, answers[1].ID)
	}
	one, two := answers[0].Pods[0], answers[0].Pods[1]
	if got := one.Nodes[0].Scores["NodeResourcesFit"]; got != 25 {
		t.Errorf("a quarter of the processors is taken: %d", got)
	}
	if got := two.Nodes[0]; len(got.Scores) != 1 || *got.Total != got.Scores["NodeResourcesFit"] || *got.Total%7 != 0 {
		t.Errorf("one score, seven times: %+v", got)
	}
	if got := answers[1].Error; !strings.HasPrefix(got, "config: ") || !strings.Contains(got, "not in valid range") {
		t.Errorf("error: %q", got)
	}
}

func TestRequestsThatMakeNoSenseAreAnswered(t *testing.T) {
	pod := `{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}`
	for request, want := range map[string]string{
		`nonsense`:                   "error: request: ",
		`{"objects": [{"a": 1}]}`:    "error: objects[0]: Object 'Kind' is missing",
		`{"files": ["/nowhere"]}`:    "error: /nowhere: ",
		`{"configFile": "/nowhere"}`: "error: config: ",
		`{"config": {"kind": "KubeSchedulerConfiguration", "apiVersion": "kubescheduler.config.k8s.io/v1", "x": 1}}`: "error: config: strict decoding error",
		`{"objects": [` + pod + `,` + pod + `]}`: "error: objects[1]: pod default/p: its uid default/p is given twice",
		`{"objects": [` + pod + `]}`:             "p: no nodes available to schedule pods",
		`{"objects": [{"kind": "List", "apiVersion": "v1", "items": [` + pod + `, {"kind": "Other", "apiVersion": "v9"}]}]}`: "p: no nodes",
	} {
		if got := ask(t, request)[0].text(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", request, got, want)
		}
	}
}

func TestAPanicOnAWorkerIsAnError(t *testing.T) {
	collected := &panics{}
	run := func() (err error) {
		defer collected.as(&err)
		workqueue.ParallelizeUntil(collected.within(context.Background()), 1, 3, func(int) { panic("odd object") })
		return nil
	}
	if err := run(); err == nil || err.Error() != "panic: odd object" {
		t.Errorf("error: %v", err)
	}
	if text := collected.take(); text != "" {
		t.Errorf("%q is still there for the next pod", text)
	}
}

func TestNothingIsLeftOfAnAnsweredRequest(t *testing.T) {
	requests := make([]string, 20)
	for i := range requests {
		requests[i] = `{"objects": [{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}]}`
	}
	ask(t, requests...)
	before := runtime.NumGoroutine()
	for range 10 {
		ask(t, requests...)
	}
	deadline := time.Now().Add(30 * time.Second)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines before, %d after 200 requests", before, after)
	}
}
