package main

import (
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The label that names the version becomes the name of the image in the layout, by which `skopeo` and `podman` choose it.
const (
	versionLabel  = "org.opencontainers.image.version"
	refAnnotation = "org.opencontainers.image.ref.name"
)

func pack(config io.Reader, out string, layers []string, level int) error {
	image, err := assemble(config, layers, level)
	if err != nil {
		return err
	}
	written, err := image.ConfigFile()
	if err != nil {
		return err
	}
	index, err := layout.Write(out, empty.Index)
	if err != nil {
		return err
	}
	if err := index.WriteImage(image); err != nil {
		return err
	}
	descriptor, err := partial.Descriptor(image)
	if err != nil {
		return err
	}
	// The library gives every image one, which the specification has for what is no image.
	descriptor.ArtifactType = ""
	descriptor.Platform = written.Platform()
	descriptor.Annotations = map[string]string{refAnnotation: written.Config.Labels[versionLabel]}
	if err := index.AppendDescriptor(*descriptor); err != nil {
		return err
	}
	fmt.Println(descriptor.Digest)
	return nil
}

func assemble(config io.Reader, layers []string, level int) (v1.Image, error) {
	file := v1.ConfigFile{RootFS: v1.RootFS{Type: "layers"}}
	decoder := json.NewDecoder(config)
	// What the library does not know it would leave out without a word.
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("the configuration: %w", err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &file)
	if err != nil {
		return nil, err
	}
	for _, path := range layers {
		layer, err := tarball.LayerFromFile(path, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(level))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: file.Created, CreatedBy: "hack/image.sh"}})
		if err != nil {
			return nil, err
		}
	}
	return mutate.Annotations(image, file.Config.Labels).(v1.Image), nil
}
