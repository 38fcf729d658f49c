package main

import (
	"context"
	"encoding/json"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// A selector, and the device that it is asked about.
type selection struct {
	Expression string             `json:"expression"`
	Driver     string             `json:"driver"`
	Device     resourceapi.Device `json:"device"`
}

// Either the error of the expression, or that of its evaluation, or whether the device matches; and what evaluating cost.
type selected struct {
	CompileError string `json:"compileError,omitempty"`
	RuntimeError string `json:"runtimeError,omitempty"`
	Matches      bool   `json:"matches"`
	Cost         uint64 `json:"cost"`
	// Upstream did not survive the question, at whatever stage.
	Panic string `json:"panic,omitempty"`
}

var compiler = cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})

func selects(line []byte) (answer any, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			answer = selected{Panic: fmt.Sprint(broken)}
		}
	}()
	var asked selection
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	compiled := compiler.CompileCELExpression(asked.Expression, cel.Options{})
	if compiled.Error != nil {
		return selected{CompileError: compiled.Error.Error()}, nil
	}
	matches, details, err := compiled.DeviceMatches(context.Background(), cel.Device{
		Driver:                   asked.Driver,
		AllowMultipleAllocations: asked.Device.AllowMultipleAllocations,
		Attributes:               asked.Device.Attributes,
		Capacity:                 asked.Device.Capacity,
	})
	found := selected{Matches: matches}
	if details != nil && details.ActualCost() != nil {
		found.Cost = *details.ActualCost()
	}
	if err != nil {
		found.RuntimeError = err.Error()
	}
	return found, nil
}
