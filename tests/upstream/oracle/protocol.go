package main

import "encoding/json"

// request is one line of standard input: a cluster, and the configuration to judge its pending pods with.
type request struct {
	// ID comes back in the answer, unchanged; any JSON value.
	ID json.RawMessage `json:"id"`
	// Objects are Kubernetes objects, or lists of them, in versioned JSON.
	Objects []json.RawMessage `json:"objects"`
	// Files are paths of manifests (YAML of one or more documents, or JSON), read after Objects.
	Files []string `json:"files"`
	// Config is a KubeSchedulerConfiguration v1; without it and ConfigFile, upstream's default.
	Config json.RawMessage `json:"config"`
	// ConfigFile is the path of such a configuration in YAML or JSON.
	ConfigFile string `json:"configFile"`
	// Trace asks for the plugins that stepped aside, in each pod's answer.
	Trace bool `json:"trace"`
	// Preemption asks what would be done for each pod that fits nowhere.
	Preemption *preemptionAsked `json:"preemption"`
}

// preemptionAsked fixes what upstream leaves to chance.
type preemptionAsked struct {
	// Offset is the potential node, counted from 0 and modulo their number, at which a live search begins.
	Offset int32 `json:"offset"`
	// Order names nodes in the order in which they are tried, those that it leaves out follow by name; without it, that
	// of upstream's snapshot.
	Order []string `json:"order"`
	// Never are the pods, as namespace/name, that may not be victims.
	Never []string `json:"never"`
}

// answer is one line of standard output.
type answer struct {
	ID   json.RawMessage `json:"id,omitempty"`
	Pods []podAnswer     `json:"pods"`
	// Skipped counts the objects of kinds that do not matter to scheduling.
	Skipped int `json:"skipped,omitempty"`
	// Error says why the request as a whole has no answer.
	Error string `json:"error,omitempty"`
}

// podAnswer is what upstream says of one pending pod. Nodes is set only for a pod that was judged.
type podAnswer struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Profile   *string `json:"profile"`
	Feasible  int     `json:"feasible"`
	Message   string  `json:"message,omitempty"`
	// Reason says why the pod was not judged.
	Reason string `json:"reason,omitempty"`
	// Error is the text of the error (or panic) that ended the attempt.
	Error string `json:"error,omitempty"`
	// Nodes holds refusal and scored values; nil for a pod that was not judged, which a plain omitempty would not
	// tell from a cluster without nodes.
	Nodes *[]any `json:"nodes,omitempty"`
	// Preemption is set where it was asked for, nothing is feasible, and the profile has the plugin.
	Preemption *preemptionAnswer `json:"preemption,omitempty"`
	Trace      *trace            `json:"trace,omitempty"`
}

// preemptionAnswer is what upstream's preemption comes to.
type preemptionAnswer struct {
	// Code is that of PostFilter: Success, Unschedulable or Error.
	Code string `json:"code"`
	// Message is PostFilter's where no node is a candidate.
	Message string `json:"message,omitempty"`
	// Node is the one that the live search nominates.
	Node string `json:"node,omitempty"`
	// Clears is whether the pod loses its nomination.
	Clears      bool        `json:"clears,omitempty"`
	Eligibility eligibility `json:"eligibility"`
	// Potential are the nodes on which it could help, in the order in which they are tried.
	Potential []string `json:"potential"`
	// Candidates are those on which it does, every potential node tried, sorted by node.
	Candidates []candidateAnswer `json:"candidates"`
	// Refused are those on which it does not, sorted by name.
	Refused []refusal `json:"refused,omitempty"`
	// Best are the candidates among which upstream's choice is arbitrary, by name.
	Best []string `json:"best,omitempty"`
	// Decided names the criterion that left them.
	Decided string      `json:"decided,omitempty"`
	Live    *liveAnswer `json:"live,omitempty"`
	// Deleted are the pods that the live search has deleted, and Cleared those whose nomination to its node is taken
	// back; sorted.
	Deleted []string `json:"deleted,omitempty"`
	Cleared []string `json:"cleared,omitempty"`
}

// eligibility is whether a pod may preempt.
type eligibility struct {
	Eligible bool   `json:"eligible"`
	Reason   string `json:"reason,omitempty"`
	// Nominated is the node that the pod is nominated to, and Unresolvable whether that was refused for good.
	Nominated    string `json:"nominated,omitempty"`
	Unresolvable bool   `json:"unresolvable,omitempty"`
}

// candidateAnswer is a node that fits without the victims.
type candidateAnswer struct {
	Node string `json:"node"`
	// Victims are in upstream's order, most important first.
	Victims          []string `json:"victims"`
	BudgetViolations int64    `json:"budgetViolations"`
	// Lower counts the node's pods of lower priority, victims or not.
	Lower int `json:"lower"`
	// BudgetsMatter is whether there would be other victims, or others first, if there were no budgets.
	BudgetsMatter bool `json:"budgetsMatter,omitempty"`
}

// liveAnswer is what a scheduling cycle looks at.
type liveAnswer struct {
	Offset int32 `json:"offset"`
	// Wanted is how many candidates are enough.
	Wanted int32 `json:"wanted"`
	// Tried are the nodes of the dry run, in order.
	Tried []string `json:"tried"`
	// Candidates are in upstream's order: those that violate no budget first.
	Candidates []string `json:"candidates"`
	Best       []string `json:"best,omitempty"`
	// Message is PostFilter's where the live search finds nothing, and one of every node would.
	Message string `json:"message,omitempty"`
}

// refusal is a node that the pod does not fit on.
type refusal struct {
	Name    string   `json:"name"`
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

// scored is a node that the pod fits on; the scores are normalised and weighted.
type scored struct {
	Name   string           `json:"name"`
	Scores map[string]int64 `json:"scores"`
	Total  int64            `json:"total"`
}

// trace lists what the framework left out for one pod.
type trace struct {
	// SkippedFilters are the plugins whose PreFilter said Skip.
	SkippedFilters []string `json:"skippedFilters,omitempty"`
	// SkippedScores are the plugins whose PreScore said Skip.
	SkippedScores []string `json:"skippedScores,omitempty"`
	// PreFilterNodes are the nodes that PreFilter left over, where it restricted them at all.
	PreFilterNodes []string `json:"preFilterNodes,omitempty"`
}
