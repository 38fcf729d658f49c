// Command health says what GitOps tools make of objects: one JSON object a line in, one JSON line of verdicts out, in their order.
//
//	health SCRIPT    SCRIPT is a health check of Argo CD in Lua
//
// The verdicts are those of kstatus, by the fork that Flux and Helm 4 use, and of the script in the virtual machine that Argo CD
// runs it in.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// verdict is what one tool says: its own word for the state, and the text that it shows.
type verdict struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// verdicts are what all tools say of one object.
type verdicts struct {
	Kstatus verdict `json:"kstatus"`
	ArgoCD  verdict `json:"argocd"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: health SCRIPT <OBJECTS")
	}
	script, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := judgeAll(string(script), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func judgeAll(script string, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 4<<20)
	answers := json.NewEncoder(out)
	for n := 1; lines.Scan(); n++ {
		both, err := judge(script, lines.Bytes())
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := answers.Encode(both); err != nil {
			return err
		}
	}
	return lines.Err()
}

func judge(script string, line []byte) (verdicts, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(line); err != nil {
		return verdicts{}, err
	}
	result, err := status.Compute(object)
	if err != nil {
		return verdicts{}, fmt.Errorf("kstatus: %w", err)
	}
	argocd, err := runScript(script, object.Object)
	if err != nil {
		return verdicts{}, fmt.Errorf("argocd: %w", err)
	}
	return verdicts{Kstatus: verdict{string(result.Status), result.Message}, ArgoCD: argocd}, nil
}
