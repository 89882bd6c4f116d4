// Package pattern compiles and matches the regular expressions of clients within bounds. A Pattern has a bounded size. A Queue
// matches patterns with many names on one goroutine, in turns, so that the expressions of one client delay no other request.
package pattern

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

const (
	// MaxBytes bounds the length of an expression.
	MaxBytes = 1024
	// MaxInstructions bounds the size of a compiled expression. With a name of 249 bytes, one match takes at most some 25 ms.
	MaxInstructions = 10_000
	// MaxFolded bounds the classes and ranges of characters in an expression where case does not count. Parsing one takes up to 8 ms.
	MaxFolded = 20
)

// caseless matches the flag by which case does not count.
var caseless = regexp.MustCompile(`\(\?[A-Za-z]*i`)

// Pattern is a compiled expression (RE2). The zero value matches nothing.
type Pattern struct {
	expression *regexp.Regexp
	size       int
}

// Compile compiles an expression, which can take 0.2 s where case does not count. Errors are for clients.
func Compile(source string) (Pattern, error) {
	if len(source) > MaxBytes {
		return Pattern{}, fmt.Errorf("the expression has %d bytes, more than %d", len(source), MaxBytes)
	}
	classes := 0
	for _, mark := range []string{"[", "-", `\p`, `\P`} {
		classes += strings.Count(source, mark)
	}
	if classes > MaxFolded && caseless.MatchString(source) {
		return Pattern{}, fmt.Errorf("the expression has %d classes and ranges of characters, more than %d where case does not count", classes, MaxFolded)
	}
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return Pattern{}, err
	}
	size := instructions(parsed)
	if size > MaxInstructions {
		return Pattern{}, fmt.Errorf("the expression has more than %d instructions", MaxInstructions)
	}
	expression, err := regexp.Compile(`\A(?:` + parsed.String() + `)\z`) // source may end within \Q
	return Pattern{expression, size}, err
}

// Match reports whether the pattern matches the whole name.
func (p Pattern) Match(name string) bool {
	return p.expression != nil && p.expression.MatchString(name)
}

// Size returns the instructions of the pattern, or slightly more.
func (p Pattern) Size() int { return p.size }

// instructions returns a bound of the instructions that a parsed expression compiles to, at most MaxInstructions + 1. Repetitions multiply
// (syntax.Regexp.Simplify).
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n = min(n+instructions(sub), MaxInstructions+1)
	}
	switch re.Op {
	case syntax.OpConcat:
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCapture, syntax.OpStar: // a star of an expression that matches "" becomes two instructions
		n += 2
	case syntax.OpAlternate:
		n += len(re.Sub) - 1
	case syntax.OpRepeat:
		n = re.Min*n + max(1, re.Max-re.Min)*(n+2)
	default:
		n++
	}
	return min(max(1, n), MaxInstructions+1)
}
