package main

import (
	"slices"
	"time"
)

// Rules say what the server answers. The zero value lets every node and victim through, scores nothing and binds.
type Rules struct {
	// Refused nodes by name, with the message for them.
	Refused map[string]string `json:"refused"`
	// Unresolvable nodes by name, with the message for them.
	Unresolvable map[string]string `json:"unresolvable"`
	// Dropped nodes: not answered, and nothing said of them.
	Dropped []string `json:"dropped"`
	// Scores by node name; others get none.
	Scores map[string]int64 `json:"scores"`
	// ScoreEvery gives each node a score that follows from its name, 0 to 10.
	ScoreEvery bool `json:"scoreEvery"`
	// Spared victims by uid: nodes whose list of victims has one of these are left out.
	Spared []string `json:"spared"`
	// Error is answered to every filter, preempt and bind.
	Error string `json:"error"`
	// Status is answered instead of 200, where it is set.
	Status int `json:"status"`
	// Body is answered as it is, where it is set.
	Body string `json:"body"`
	// Reset the connection instead of an answer.
	Reset bool `json:"reset"`
	// Half of an answer, and then the connection ends.
	Half bool `json:"half"`
	// Delay before each answer, as Go writes durations.
	Delay Duration `json:"delay"`
	// BindThenHang binds the pod and then delays, so that the caller does not learn of it.
	BindThenHang bool `json:"bindThenHang"`
	// Only these verbs follow the fault rules (error, status, body, reset, half, delay); empty: all.
	Only []string `json:"only"`
}

// Duration reads "30s".
type Duration time.Duration

// UnmarshalText reads what time.ParseDuration does.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

func (r *Rules) breaks(verb string) bool {
	return len(r.Only) == 0 || slices.Contains(r.Only, verb)
}

// score follows from the name alone, so that two schedulers that ask about the same node hear the same.
func score(name string) int64 {
	var sum int64
	for _, c := range []byte(name) {
		sum = (sum*31 + int64(c)) % 1009
	}
	return sum % 11
}
