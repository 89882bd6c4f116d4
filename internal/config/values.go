package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Bytes is a size in bytes that is written with a unit: 8MiB, 64KiB, 1GiB (powers of 1024) or 10MB (powers of 1000).
// A bare number is bytes.
type Bytes int64

var byteUnits = []struct {
	suffix string
	factor int64
}{
	// Longest first, so that MiB is not taken for B.
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"KB", 1e3},
	{"B", 1},
}

// ParseBytes reads a size. Fractions are allowed (1.5GiB) and rounded to whole bytes; negative sizes are errors.
func ParseBytes(s string) (Bytes, error) {
	number, factor := strings.TrimSpace(s), int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n < 0 || n > math.MaxInt64/factor {
			return 0, fmt.Errorf("size %q is out of range", s)
		}
		return Bytes(n * factor), nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(f) {
		return 0, fmt.Errorf("size %q: want a number with KiB, MiB, GiB, kB, MB or GB", s)
	}
	if f < 0 || f*float64(factor) >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q is out of range", s)
	}
	return Bytes(math.Round(f * float64(factor))), nil
}

// String writes the size in the largest power of 1024 that divides it.
func (b Bytes) String() string {
	for _, u := range byteUnits[:4] {
		if b != 0 && int64(b)%u.factor == 0 {
			return strconv.FormatInt(int64(b)/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Wanted says what a flag takes, where err, with which it refused a value, only says how Go failed to read that.
func Wanted(f *pflag.Flag, err error) error {
	kind := kindOf(f.Value.Type())
	var number *strconv.NumError
	switch isNumber := errors.As(err, &number); {
	case errors.Is(err, strconv.ErrRange):
		return errors.New("out of range")
	case kind == "duration":
		return errors.New("want a duration, as 250ms, 5s or 1h30m")
	case isNumber && kind == "bool":
		return errors.New("want true or false")
	case isNumber && kind == "list":
		return errors.New("want numbers, comma-separated")
	case isNumber:
		return errors.New("want a number")
	}
	return err
}

// integer is any field type that can hold a size.
type integer interface {
	~int | ~int32 | ~int64 | ~uint32 | ~uint64
}

// sizeValue lets a size flag fill a plain integer field.
type sizeValue[T integer] struct{ p *T }

// Size is a pflag.Value for an integer field that is written with a unit.
func Size[T integer](p *T) pflag.Value { return sizeValue[T]{p} }

func (v sizeValue[T]) String() string {
	if v.p == nil {
		return "" // pflag asks a zero value for its default
	}
	return Bytes(*v.p).String()
}

func (v sizeValue[T]) Type() string { return "size" }

func (v sizeValue[T]) Set(s string) error {
	b, err := ParseBytes(s)
	if err != nil {
		return err
	}
	n := T(b)
	if n < 0 || Bytes(n) != b {
		return fmt.Errorf("size %q is too large for this setting", s)
	}
	*v.p = n
	return nil
}

// listValue is a list of strings, comma-separated; setting it replaces the whole list, given twice on the command
// line it appends.
type listValue struct {
	p       *[]string
	changed bool
}

// List is a pflag.Value for a list of strings without commas in them.
func List(p *[]string) pflag.Value { return &listValue{p: p} }

func (v *listValue) String() string {
	if v.p == nil {
		return ""
	}
	return strings.Join(*v.p, ",")
}

func (v *listValue) Type() string { return "list" }

func (v *listValue) Set(s string) error {
	var items []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	if !v.changed {
		*v.p = nil
	}
	v.changed = true
	*v.p = append(*v.p, items...)
	return nil
}

// Append, Replace and GetSlice make it a pflag.SliceValue, which YAML sequences fill.
func (v *listValue) Append(s string) error { *v.p = append(*v.p, s); return nil }

// Replace sets the whole list.
func (v *listValue) Replace(s []string) error { *v.p = s; return nil }

// GetSlice gives the list.
func (v *listValue) GetSlice() []string { return *v.p }

// choiceValue is a string out of a fixed set.
type choiceValue struct {
	p       *string
	allowed []string
}

// auto is the text of a Rate that the program derives.
const auto = "auto"

type rateValue struct{ p *float64 }

// Rate is a pflag.Value for a number above 0, or auto, which is stored as 0.
func Rate(p *float64) pflag.Value { return rateValue{p} }

func (v rateValue) String() string {
	if v.p == nil || *v.p == 0 {
		return auto
	}
	return strconv.FormatFloat(*v.p, 'g', -1, 64)
}

func (v rateValue) Type() string { return "number" }

func (v rateValue) Set(s string) error {
	if s == auto {
		*v.p = 0
		return nil
	}
	rate, err := strconv.ParseFloat(s, 64)
	if err != nil || !(rate > 0) || math.IsInf(rate, 1) {
		return errors.New("want auto or a number above 0")
	}
	*v.p = rate
	return nil
}

// Choice is a pflag.Value that accepts only the values named.
func Choice(p *string, allowed ...string) pflag.Value { return choiceValue{p, allowed} }

// Choices returns the values that f accepts if it is a flag of Choice, or nil for any other flag.
func Choices(f *pflag.Flag) []string {
	v, _ := f.Value.(choiceValue)
	return v.allowed
}

func (v choiceValue) String() string {
	if v.p == nil {
		return ""
	}
	return *v.p
}

func (v choiceValue) Type() string { return strings.Join(v.allowed, "|") }

func (v choiceValue) Set(s string) error {
	for _, a := range v.allowed {
		if s == a {
			*v.p = s
			return nil
		}
	}
	return fmt.Errorf("want one of %s", strings.Join(v.allowed, ", "))
}
