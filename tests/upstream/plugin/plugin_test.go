package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"testing"
)

var update = flag.Bool("update", false, "write the answers into the examples")

const examples = "../devices/plugin-examples.jsonl"

type example struct {
	Name     string          `json:"name"`
	Question json.RawMessage `json:"question"`
	Answer   json.RawMessage `json:"answer"`
}

// What upstream makes up anew each time.
var passing = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|"allocationTimestamp":"[^"]*"`)

func lasting(answer []byte) []byte { return passing.ReplaceAll(answer, []byte("…")) }

func read(t *testing.T) []example {
	file, err := os.Open(examples)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []example
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var one example
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		t.Fatalf("%d examples: %v", len(all), err)
	}
	return all
}

func TestExamples(t *testing.T) {
	all := read(t)
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	for _, one := range all {
		var given bytes.Buffer
		if err := serve(bytes.NewReader(append(one.Question, '\n')), &given); err != nil {
			t.Fatalf("%s: %v", one.Name, err)
		}
		answer := bytes.TrimSpace(given.Bytes())
		if !*update && !bytes.Equal(lasting(answer), lasting(one.Answer)) {
			t.Errorf("%s:\n got %s\nwant %s", one.Name, answer, one.Answer)
		}
		one.Answer = answer
		if err := encoder.Encode(one); err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		if err := os.WriteFile(examples, written.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func parse(t *testing.T, text json.RawMessage) *question {
	asked := &question{}
	if err := json.Unmarshal(text, asked); err != nil {
		t.Fatal(err)
	}
	return asked
}
