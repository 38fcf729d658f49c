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
	Trace *trace `json:"trace,omitempty"`
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
