package brokerconfig

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/internal/topicconfig"
)

// FlagName is the flag that sets a config: Kafka's name with dashes.
func FlagName(name string) string { return strings.ReplaceAll(name, ".", "-") }

// Bind adds a flag for every config that can be set.
func (s *Settings) Bind(f *pflag.FlagSet) {
	for i := range table {
		d := &table[i]
		switch {
		case d.Fixed:
		case d.Type == topicconfig.List:
			f.Var(listValue{value{s, d}}, FlagName(d.Name), d.usage())
		default:
			f.Var(value{s, d}, FlagName(d.Name), d.usage())
		}
	}
}

// usage is the documentation as the other flags' begins.
func (d *Def) usage() string {
	return strings.ToLower(d.Doc[:1]) + strings.TrimSuffix(d.Doc[1:], ".") + "; Kafka's " + d.Name
}

// value is a config as a flag.
type value struct {
	s *Settings
	d *Def
}

func (v value) String() string {
	if v.s == nil {
		return "" // pflag asks a zero value for its default
	}
	text, _ := v.s.Value(v.d.Name)
	return text
}

func (v value) Type() string {
	switch v.d.Type {
	case topicconfig.List:
		return "list"
	case topicconfig.String:
		return strings.Join(v.d.one, "|")
	default:
		return "number"
	}
}

func (v value) Set(text string) error { return v.s.Set(v.d.Name, text) }

// listValue is a List, which YAML sequences fill.
type listValue struct{ value }

// Append adds an element.
func (v listValue) Append(element string) error { return v.Replace(append(v.GetSlice(), element)) }

// Replace sets the whole list.
func (v listValue) Replace(elements []string) error {
	for _, e := range elements {
		if strings.Contains(e, ",") {
			return errors.New("an element with a comma")
		}
	}
	return v.Set(strings.Join(elements, ","))
}

// GetSlice gives the list.
func (v listValue) GetSlice() []string { return v.s.List(v.d.Name) }
