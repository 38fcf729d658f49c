package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

type random = randfill.Continue

// absent is the chance that what may be absent is.
const absent = 0.6

// filledBy has randfill fill every T by a function, and leave out pointers to T at times, which it does not do by itself for a type
// that has a function.
func filledBy[T any](fill func(*T, random)) []any {
	return []any{fill, func(value **T, r random) {
		*value = nil
		if r.Float64() >= absent {
			*value = new(T)
			fill(*value, r)
		}
	}}
}

// oneOf has randfill choose among values; for none, name the zero value.
func oneOf[T any](values ...T) []any {
	return filledBy(func(value *T, r random) { *value = pick(r, values...) })
}

func pick[T any](r random, values ...T) T {
	return values[r.Intn(len(values))]
}

func oneIn(r random, n int) bool {
	return r.Intn(n) == 0
}

// basics fill the values of which objects are made so that both encodings can write them.
func basics() []any {
	return slices.Concat(
		filledBy(text),
		filledBy(func(number *int32, r random) { *number = int32(integer(r, math.MinInt32, math.MaxInt32)) }),
		filledBy(func(number *int64, r random) { *number = integer(r, math.MinInt64, math.MaxInt64) }),
		filledBy(func(value *meta.Time, r random) { value.Time = instant(r) }),
		filledBy(microTime),
		filledBy(anyQuantity),
		// Its own function leaves every pointer nil.
		filledBy(func(value *intstr.IntOrString, r random) { value.RandFill(r) }),
		filledBy(func(raw *runtime.RawExtension, r random) {
			// The zero value is written as null.
			if !oneIn(r, 8) {
				raw.Raw = rawJSON(r)
			}
		}),
		filledBy(func(fields *meta.FieldsV1, r random) { fields.SetRawBytes(rawJSON(r)) }),
	)
}

// awkward pieces are those that JSON escapes, or may, and characters of one to four bytes.
var awkward = []string{
	`"`, `\`, "/", "\b", "\f", "\n", "\r", "\t", "\x00", "\x01", "\x1f", "\x7f", "<", ">", "&", "'", "\u0080", "ü", "\u2028", "\u2029", "\ufeff",
	"\ufffd", "語", "😀", "\U0010ffff", " ", "a",
}

func text(value *string, r random) {
	switch r.Intn(5) {
	case 0:
		*value = r.String(0)
	case 1:
		var pieces strings.Builder
		for range r.Intn(8) {
			pieces.WriteString(pick(r, awkward...))
		}
		*value = pieces.String()
	default:
		*value = word(r)
	}
}

// word is a name as most objects have it: a valid label value, and never empty.
func word(r random) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	var name strings.Builder
	for range 1 + r.Intn(12) {
		name.WriteByte(letters[r.Intn(len(letters))])
	}
	return name.String()
}

// integer is mostly small, and often at the border where one more byte is needed.
func integer(r random, least, most int64) int64 {
	switch r.Intn(8) {
	case 0:
		return 0
	case 1:
		return pick(r, least, most, -1)
	case 2:
		// As many as bits allow, so that every length is seen.
		return pick[int64](r, 1, -1) * (most >> r.Intn(63))
	case 3:
		return pick[int64](r, 127, 128, 16383, 16384)
	}
	return r.Int63n(100)
}

// instant is a whole second that RFC 3339 can write, or the zero time.
func instant(r random) time.Time {
	switch r.Intn(12) {
	case 0:
		return time.Time{}
	case 1:
		return time.Date(1+r.Intn(9999), 1, 1+r.Intn(365), 0, 0, r.Intn(86400), 0, time.UTC)
	case 2:
		return time.Unix(pick[int64](r, 0, -1, 1), 0)
	}
	return time.Unix(1_600_000_000+r.Int63n(500_000_000), 0)
}

func microTime(value *meta.MicroTime, r random) {
	value.Time = instant(r)
	if !value.IsZero() {
		value.Time = value.Add(time.Duration(r.Intn(1_000_000)) * time.Microsecond)
	}
}

func anyQuantity(value *resource.Quantity, r random) {
	quantity(value, r)
	if oneIn(r, 8) {
		value.Neg()
	}
}

// quantity is 0 or more, in any notation.
func quantity(value *resource.Quantity, r random) {
	small := r.Intn(1000)
	switch r.Intn(8) {
	case 0:
		*value = resource.Quantity{}
	case 1:
		*value = resource.MustParse(fmt.Sprintf("%d%s", small, pick(r, "n", "u", "k", "M", "G", "T")))
	case 2:
		*value = resource.MustParse(fmt.Sprintf("%de%d", small, r.Intn(9)))
	case 3:
		*value = resource.MustParse(fmt.Sprintf("%d.%03d%s", r.Intn(10), small, pick(r, "", "Gi", "G")))
	case 4:
		*value = *resource.NewQuantity(r.Int63(), pick(r, resource.DecimalSI, resource.BinarySI))
	case 5:
		*value = *resource.NewMilliQuantity(r.Int63n(64_000), resource.DecimalSI)
	default:
		*value = resource.MustParse(fmt.Sprintf("%d%s", small, pick(r, "", "m", "Ki", "Mi", "Gi")))
	}
}

// rawJSON is an object as somebody else wrote it.
func rawJSON(r random) []byte {
	var inner string
	text(&inner, r)
	object := map[string]any{"f:" + word(r): map[string]any{".": map[string]any{}}, inner: r.Float64(), word(r): []any{inner, nil, r.Bool(), r.Int31()}}
	written, err := json.Marshal(object)
	if err != nil {
		// Maps, strings and numbers are always written.
		panic(err)
	}
	return written
}
