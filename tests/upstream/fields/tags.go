package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Types whose code says how they are written, which their fields do not tell.
var special = map[reflect.Type]string{
	reflect.TypeFor[meta.Time]():            "time",
	reflect.TypeFor[meta.MicroTime]():       "microtime",
	reflect.TypeFor[meta.Duration]():        "duration",
	reflect.TypeFor[resource.Quantity]():    "quantity",
	reflect.TypeFor[intstr.IntOrString]():   "intorstring",
	reflect.TypeFor[runtime.RawExtension](): "raw",
	reflect.TypeFor[meta.FieldsV1]():        "raw",
}

// Types of one value. They are written as their kind says.
var plain = map[reflect.Kind]string{
	reflect.String:  "string",
	reflect.Bool:    "bool",
	reflect.Int32:   "int32",
	reflect.Int64:   "int64",
	reflect.Uint32:  "uint32",
	reflect.Uint64:  "uint64",
	reflect.Float64: "double",
}

// A jsonTag says what encoding/json does with a field.
type jsonTag struct {
	// Empty where the tag names none.
	name      string
	inline    bool
	omitEmpty bool
	omitZero  bool
}

func readJSON(tag string) jsonTag {
	parts := strings.Split(tag, ",")
	has := func(option string) bool { return slices.Contains(parts[1:], option) }
	return jsonTag{name: parts[0], inline: has("inline"), omitEmpty: has("omitempty"), omitZero: has("omitzero")}
}

// readNumber takes the number from a protobuf tag. Its wire type and label are written by hand, often wrong, and heeded by nobody: the
// code that writes messages was generated from numbers and Go types.
func readNumber(tag string) (int, error) {
	parts := strings.Split(tag, ",")
	number, err := strconv.Atoi(parts[min(1, len(parts)-1)])
	if err != nil || number < 1 {
		return 0, fmt.Errorf("the protobuf tag %q has no number", tag)
	}
	return number, nil
}

// field reads a member of a struct; nil for one that neither encoding writes, or that is wrong.
func (t *table) field(member reflect.StructField, path string) *field {
	path += "." + member.Name
	jsonText, inJSON := member.Tag.Lookup("json")
	protobufText, inProtobuf := member.Tag.Lookup("protobuf")
	inJSON = inJSON && jsonText != "-"
	inProtobuf = inProtobuf && protobufText != "-"
	switch {
	// Protobuf carries kind and version beside the object, for which there is no table.
	case member.Type == reflect.TypeFor[meta.TypeMeta]() && !inProtobuf:
		return nil
	case !inJSON && !inProtobuf && (!member.IsExported() || jsonText == "-"):
		return nil
	case inJSON != inProtobuf || !inJSON:
		t.problem(path, "both encodings must write a field or none, but it is tagged %q", member.Tag)
		return nil
	}
	number, err := readNumber(protobufText)
	if err != nil {
		t.problem(path, "%w", err)
		return nil
	}
	read, err := t.tagged(member, readJSON(jsonText), path)
	if err != nil {
		t.problem(path, "%w", err)
		return nil
	}
	read.number = number
	return read
}

func (t *table) tagged(member reflect.StructField, tag jsonTag, path string) (*field, error) {
	read := &field{json: tag.name}
	if tag.inline || tag.name == "" {
		// Without a name encoding/json merges embedded structs alone, whatever the tag says.
		if tag.name != "" || !member.Anonymous || member.Type.Kind() != reflect.Struct || special[member.Type] != "" {
			return nil, errors.New("only an embedded message without a name can be inlined")
		}
		read.json, read.inlined = "-", member.Type
	}
	spelling, err := t.spelling(member.Type, path)
	if err != nil {
		return nil, err
	}
	read.spelling = spelling
	if read.inlined == nil && leavesOutZero(member.Type, tag) {
		read.spelling += "-"
	}
	return read, nil
}

// leavesOutZero says whether JSON lacks the value that protobuf has when it is zero. For pointers, slices and maps both lack the same.
func leavesOutZero(of reflect.Type, tag jsonTag) bool {
	if plain[of.Kind()] != "" {
		return tag.omitEmpty || tag.omitZero
	}
	return of.Kind() == reflect.Struct && tag.omitZero
}

// spelling is the type of a field as the table writes it.
func (t *table) spelling(of reflect.Type, path string) (string, error) {
	before, after := "", ""
	switch {
	case isBytes(of):
	case of.Kind() == reflect.Pointer:
		of, after = of.Elem(), "?"
	case of.Kind() == reflect.Slice && !isMessage(of):
		of, before, path = of.Elem(), "[]", path+"[]"
	case of.Kind() == reflect.Map && of.Key().Kind() == reflect.String && !isMessage(of):
		of, before, path = of.Elem(), "map ", path+"[]"
	}
	value, err := t.value(of, path)
	return before + value + after, err
}

// value is the type of one value. What it has no word for, such as a list in a list, is an error.
func (t *table) value(of reflect.Type, path string) (string, error) {
	isStruct := of.Kind() == reflect.Struct
	switch {
	case special[of] != "":
		return special[of], nil
	case isBytes(of):
		return "bytes", nil
	case writesItself(of):
		return "", fmt.Errorf("%v has code of its own to write it in JSON", of)
	case plain[of.Kind()] != "":
		return plain[of.Kind()], nil
	case isStruct && isMessage(of):
		return t.add(of, path), nil
	}
	return "", fmt.Errorf("the table has no word for %v", of)
}

func isBytes(of reflect.Type) bool {
	return of == reflect.TypeFor[[]byte]()
}

// isMessage says whether generated code writes the type as a message.
func isMessage(of reflect.Type) bool {
	return implements[interface{ Marshal() ([]byte, error) }](of)
}

// writesItself says whether encoding/json asks the type itself how it is written.
func writesItself(of reflect.Type) bool {
	return implements[json.Marshaler](of) || implements[interface{ MarshalText() ([]byte, error) }](of)
}

func implements[I any](of reflect.Type) bool {
	return reflect.PointerTo(of).Implements(reflect.TypeFor[I]())
}
