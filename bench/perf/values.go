package perf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// properties is a repeatable option whose value is name=value.
type properties struct{ to *map[string]string }

func (p *properties) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("want name=value, not %q", s)
	}
	if *p.to == nil {
		*p.to = map[string]string{}
	}
	(*p.to)[name] = value
	return nil
}

func (p *properties) String() string {
	if p.to == nil {
		return ""
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(*p.to)) {
		all = append(all, name+"="+(*p.to)[name])
	}
	return strings.Join(all, " ")
}

func (*properties) Type() string { return "name=value" }

// trueOrFalse is a switch that needs a value, as the tool's do.
type trueOrFalse bool

func (b *trueOrFalse) Set(s string) error {
	switch s {
	case "true":
		*b = true
	case "false":
		*b = false
	default:
		return fmt.Errorf("want true or false, not %q", s)
	}
	return nil
}

func (b *trueOrFalse) String() string { return strconv.FormatBool(bool(*b)) }
func (*trueOrFalse) Type() string     { return "true|false" }

// A unit is what a number without one counts.
type unit struct {
	length time.Duration
	name   string
}

var (
	unitSecond = unit{time.Second, "seconds"}
	unitMinute = unit{time.Minute, "minutes"}
)

// duration is an option that takes a whole number of its unit, as the tool does, or a duration such as 90s.
type duration struct {
	to   *time.Duration
	unit unit
}

func (d *duration) Set(s string) error {
	if n, err := strconv.Atoi(s); err == nil {
		*d.to = time.Duration(n) * d.unit.length
		return nil
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("want %s, or a duration such as 90s, not %q", d.unit.name, s)
	}
	*d.to = v
	return nil
}

func (d *duration) String() string {
	if d.to == nil {
		return "0"
	}
	if *d.to%d.unit.length == 0 {
		return strconv.Itoa(int(*d.to / d.unit.length))
	}
	return d.to.String()
}

func (d *duration) Type() string { return d.unit.name }
