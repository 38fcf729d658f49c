package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
)

const head = `# Written by: $(hack/upstream.sh --fields) table
# from k8s.io/api %s
#
# How the published types are written in protobuf and in JSON. A message is a line with its name; its fields follow, by number:
# number, JSON name, type. The name "-" is a message whose fields stand in JSON among those of the message that it is in.
#
#   []T     repeated               map T   map from string
#   T?      may be absent          T-      JSON leaves it out when it is zero, or in a message all is
#   T       neither
#
# Beside numbers, strings and messages T is one of: bytes (base64 in JSON), raw (a message whose field 1 is JSON), time, microtime,
# duration, quantity, intorstring.
`

// An entry of the table.
type entry struct {
	name string
	// The way from a root on which the type was met first, for errors.
	path   string
	fields []field
}

type field struct {
	number   int
	json     string
	spelling string
	// The message that is inlined; nil for every other field.
	inlined reflect.Type
}

// A table of the types that are reachable from roots, with what is wrong with them.
type table struct {
	entries map[reflect.Type]*entry
	names   map[string]reflect.Type
	// Types whose fields were not read yet.
	queue    []reflect.Type
	problems []error
}

// newTable reads all types. Roots get their names first, so that the message of a kind is called like the kind.
func newTable() *table {
	t := &table{entries: map[reflect.Type]*entry{}, names: map[string]reflect.Type{}}
	for _, root := range slices.Concat(kinds, others) {
		t.add(typeOf(root), typeOf(root).Name())
	}
	for len(t.queue) > 0 {
		next := t.queue[0]
		t.queue = t.queue[1:]
		t.readFields(next)
	}
	t.checkNames()
	return t
}

// add gives a type that is new a name, and has its fields read in turn. It returns the name.
func (t *table) add(of reflect.Type, path string) string {
	if known := t.entries[of]; known != nil {
		return known.name
	}
	name := of.Name()
	if t.names[name] != nil {
		name = group(of) + "." + name
	}
	if other := t.names[name]; other != nil {
		t.problem(path, "%v and %v would both be called %s", other, of, name)
	}
	t.names[name] = of
	t.entries[of] = &entry{name: name, path: path}
	t.queue = append(t.queue, of)
	return name
}

// group is the API group of a type: the folder above that of its version.
func group(of reflect.Type) string {
	parts := strings.Split(of.PkgPath(), "/")
	return parts[max(len(parts)-2, 0)]
}

func (t *table) readFields(of reflect.Type) {
	read := t.entries[of]
	for i := range of.NumField() {
		if field := t.field(of.Field(i), read.path); field != nil {
			read.fields = append(read.fields, *field)
		}
	}
	slices.SortFunc(read.fields, func(a, b field) int { return cmp.Compare(a.number, b.number) })
	for i := range read.fields[:max(len(read.fields)-1, 0)] {
		if number := read.fields[i].number; number == read.fields[i+1].number {
			t.problem(read.path, "two fields have the number %d", number)
		}
	}
}

// checkNames finds fields that have the same name in the JSON of one object.
func (t *table) checkNames() {
	for of, entry := range t.entries {
		seen := map[string]bool{}
		for _, name := range t.jsonNames(of) {
			if seen[name] {
				t.problem(entry.path, "two fields are called %s in JSON", name)
			}
			seen[name] = true
		}
	}
}

func (t *table) jsonNames(of reflect.Type) []string {
	var names []string
	for _, field := range t.entries[of].fields {
		if field.inlined != nil {
			names = append(names, t.jsonNames(field.inlined)...)
		} else {
			names = append(names, field.json)
		}
	}
	return names
}

func (t *table) problem(path, format string, args ...any) {
	t.problems = append(t.problems, fmt.Errorf(path+": "+format, args...))
}

func (t *table) write(out io.Writer) {
	for _, entry := range slices.SortedFunc(maps.Values(t.entries), func(a, b *entry) int { return strings.Compare(a.name, b.name) }) {
		fmt.Fprintln(out, entry.name)
		for _, field := range entry.fields {
			fmt.Fprintf(out, " %d %s %s\n", field.number, field.json, field.spelling)
		}
	}
}

func writeTable(out io.Writer) error {
	version, err := apiVersion()
	if err != nil {
		return err
	}
	table := newTable()
	if len(table.problems) > 0 {
		return fmt.Errorf("the table would not be true:\n%w", errors.Join(table.problems...))
	}
	fmt.Fprintf(out, head, version)
	table.write(out)
	return nil
}

// apiVersion is that of the module which the types were compiled from.
func apiVersion() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("built without module information")
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/api" {
			return module.Version, nil
		}
	}
	return "", errors.New("built without k8s.io/api")
}
