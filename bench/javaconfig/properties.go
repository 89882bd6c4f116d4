package javaconfig

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/magiconair/properties"
)

// Properties are names and values of a client's configuration.
type Properties map[string]string

// ErrProperty says that a property cannot be used; the error names it and what is allowed.
var ErrProperty = errors.New("property")

// Parse reads Java properties text. References such as ${name} are not expanded, as Java does not either.
func Parse(text string) (Properties, error) {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	parsed, err := loader.LoadBytes([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%w: parse: %w", ErrProperty, err)
	}
	return parsed.Map(), nil
}

// ParseList reads entries of the form name=value.
func ParseList(entries []string) (Properties, error) {
	p := Properties{}
	for _, entry := range entries {
		name, value, ok := strings.Cut(entry, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("%w: %q is not of the form name=value", ErrProperty, entry)
		}
		p[name] = strings.TrimSpace(value)
	}
	return p, nil
}

// With gives all of p, and over it all of the others in turn.
func (p Properties) With(others ...Properties) Properties {
	all := maps.Clone(p)
	if all == nil {
		all = Properties{}
	}
	for _, o := range others {
		maps.Copy(all, o)
	}
	return all
}
