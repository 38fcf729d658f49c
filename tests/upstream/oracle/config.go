package main

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

// defaultConfig is what kube-scheduler runs with when it is given no file.
var defaultConfig = sync.OnceValues(latest.Default)

// readConfig is the request's configuration: decoded, defaulted and validated as kube-scheduler does at its start.
func readConfig(asked *request) (*config.KubeSchedulerConfiguration, error) {
	given := len(asked.Config) > 0 && string(asked.Config) != "null"
	var text []byte
	switch {
	case given && asked.ConfigFile != "":
		return nil, errors.New("both config and configFile are given; leave one out")
	case given:
		text = asked.Config
	case asked.ConfigFile != "":
		var err error
		if text, err = os.ReadFile(asked.ConfigFile); err != nil {
			return nil, err
		}
	default:
		found, err := defaultConfig()
		if err != nil {
			return nil, err
		}
		// The scheduler keeps what it is given, and may change it.
		return found.DeepCopy(), nil
	}
	return decodeConfig(text)
}

func decodeConfig(text []byte) (*config.KubeSchedulerConfiguration, error) {
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	decoded, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("a %s is not a KubeSchedulerConfiguration", kind)
	}
	// Conversion loses the version, and validation asks for it.
	decoded.APIVersion = kind.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(decoded); err != nil {
		return nil, err
	}
	return decoded, nil
}
