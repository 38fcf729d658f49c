package main

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func check(path string) error {
	index, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return err
	}
	if err := validate.Index(index); err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) != 1 {
		return fmt.Errorf("%d images in the layout, not one", len(manifest.Manifests))
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return err
	}
	return pushAndPull(image, manifest.Manifests[0].Digest)
}

// pushAndPull does what `crane push` does, and pulls what it pushed.
func pushAndPull(image v1.Image, digest v1.Hash) error {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	reference, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/berth:checked")
	if err != nil {
		return err
	}
	if err := remote.Write(reference, image); err != nil {
		return fmt.Errorf("pushing: %w", err)
	}
	pulled, err := remote.Image(reference)
	if err != nil {
		return fmt.Errorf("pulling: %w", err)
	}
	if got, err := pulled.Digest(); err != nil || got != digest {
		return fmt.Errorf("pulled %s and not %s: %w", got, digest, err)
	}
	return validate.Image(pulled)
}
