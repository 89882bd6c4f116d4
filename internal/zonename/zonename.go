// Package zonename checks names of availability zones.
package zonename

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxBytes is the longest name of a zone.
const maxBytes = 255

// ErrInvalid is returned for a name that no zone can have.
var ErrInvalid = errors.New("invalid zone name")

// InClientIDs reports whether a client id can name the zone. Commas, semicolons, ampersands and white space end a zone's name
// in a client id.
func InClientIDs(name string) bool {
	return !strings.ContainsAny(name, ",;&") && !strings.ContainsFunc(name, unicode.IsSpace)
}

// Parse returns a name without the white space around it, which a name that was read from a file often has. An empty name
// means no zone. Error: ErrInvalid.
func Parse(name string) (string, error) {
	trimmed := strings.TrimSpace(name)
	switch {
	case len(trimmed) > maxBytes:
		return "", fmt.Errorf("%w: %q has %d bytes: shorten it to %d", ErrInvalid, trimmed, len(trimmed), maxBytes)
	case !utf8.ValidString(trimmed) || strings.ContainsFunc(trimmed, unicode.IsControl):
		return "", fmt.Errorf("%w: %q has control characters or is not UTF-8: remove them", ErrInvalid, trimmed)
	}
	return trimmed, nil
}
