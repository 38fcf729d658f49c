package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"reflect"

	"sigs.k8s.io/randfill"
)

// maker makes random objects of one kind.
type maker struct {
	random *rand.Rand
	// Fills in anything: what an API server refuses, and what a later version may allow.
	wild *randfill.Filler
	// Fills in what an API server takes, as far as the operator reads it.
	valid *randfill.Filler
}

func newMaker(seed int64) *maker {
	source := rand.NewSource(seed)
	filler := func(funcs ...[]any) *randfill.Filler {
		// With these an object has some kilobytes.
		filler := randfill.New().RandSource(source).NilChance(absent).NumElements(1, 2)
		for _, some := range funcs {
			filler.Funcs(some...)
		}
		return filler
	}
	return &maker{random: rand.New(source), wild: filler(basics()), valid: filler(basics(), validParts(), validObjects())}
}

// fill makes one object in four wild.
func (m *maker) fill(object message) {
	if m.random.Intn(4) == 0 {
		m.wild.Fill(object)
	} else {
		m.valid.Fill(object)
	}
}

// writePairs prints the same for the same seed, and of each kind the same first objects whatever the count.
func writePairs(out io.Writer, seed int64, count int) error {
	for i, kind := range kinds {
		// Each kind has a seed of its own; there are fewer than 256.
		maker := newMaker(seed<<8 + int64(i))
		for range count {
			if err := writePair(out, maker, typeOf(kind)); err != nil {
				return fmt.Errorf("%s: %w", typeOf(kind).Name(), err)
			}
		}
	}
	return nil
}

func writePair(out io.Writer, maker *maker, kind reflect.Type) error {
	object := reflect.New(kind).Interface().(message)
	maker.fill(object)
	stored, err := throughStore(object, kind)
	if err != nil {
		return err
	}
	text, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	written, err := stored.Marshal()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\t%s\t%s\n", kind.Name(), text, base64.StdEncoding.EncodeToString(written))
	return err
}

// throughStore is the object as an API server has it from its store: absent and empty lists are the same, and so are texts of one
// quantity, of which large ones change once more when they are read.
func throughStore(object message, kind reflect.Type) (message, error) {
	written, err := object.Marshal()
	if err != nil {
		return nil, err
	}
	stored := reflect.New(kind).Interface().(message)
	return stored, stored.Unmarshal(written)
}
