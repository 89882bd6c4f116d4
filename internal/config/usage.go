package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// usageWidth is the width of help texts, in characters.
const usageWidth = 110

// Group is a heading of the help with the flags below it, in their order.
type Group struct {
	Heading string // "": the first flags of the help, which have no heading of their own
	Flags   []string
}

// group annotates a flag with the heading and the position of its group.
const group = "freshet-group"

// SetGroups puts the flags into groups, which the help shows in this order, below the flags that have none. Names without a flag
// are skipped, so that commands can share groups.
func SetGroups(flags *pflag.FlagSet, groups ...Group) {
	for i, g := range groups {
		for j, name := range g.Flags {
			f := flags.Lookup(name)
			if f == nil {
				continue
			}
			if f.Annotations == nil {
				f.Annotations = map[string][]string{}
			}
			f.Annotations[group] = []string{g.Heading, fmt.Sprintf("%03d.%03d", i, j)}
		}
	}
}

// Heading returns the heading of a flag's group, and whether the flag has a group.
func Heading(f *pflag.Flag) (string, bool) {
	at := f.Annotations[group]
	if len(at) == 0 {
		return "", false
	}
	return at[0], true
}

// Usage returns the help of flags: each with its meaning, its default and its environment variable. Flags without a group come
// first, in the order of flags, then the groups.
func Usage(flags *pflag.FlagSet) string {
	var b strings.Builder
	last := ""
	for _, f := range Shown(flags) {
		if heading, _ := Heading(f); heading != last {
			fmt.Fprintf(&b, "\n%s:\n", heading)
			last = heading
		}
		writeFlag(&b, f)
	}
	return b.String()
}

// Shown returns the flags of the help in the order of the help.
func Shown(flags *pflag.FlagSet) (shown []*pflag.Flag) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			shown = append(shown, f)
		}
	})
	position := func(f *pflag.Flag) string {
		if at := f.Annotations[group]; len(at) > 0 {
			return at[1]
		}
		return ""
	}
	slices.SortStableFunc(shown, func(a, b *pflag.Flag) int { return cmp.Compare(position(a), position(b)) })
	return shown
}

func writeFlag(b *strings.Builder, f *pflag.Flag) {
	b.WriteString("  " + Syntax(f) + "\n")
	wrap(b, sentence(f), "        ")
}

// Syntax returns the flag with its shorthand and the kind of its value, such as "-p, --partition list".
func Syntax(f *pflag.Flag) string {
	syntax := "--" + f.Name
	if f.Shorthand != "" {
		syntax = "-" + f.Shorthand + ", " + syntax
	}
	if kind := f.Value.Type(); kind != "bool" {
		syntax += " " + kindOf(kind)
	}
	return syntax
}

// kindOf returns the word for a kind of value in the help, where pflag has Go's.
func kindOf(kind string) string {
	switch {
	case strings.HasSuffix(kind, "Slice"):
		return "list"
	case kind == "stringArray":
		return "string"
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"), strings.HasPrefix(kind, "float"):
		return "number"
	}
	return kind
}

// sentence is the flag's help with default and environment variable behind it.
func sentence(f *pflag.Flag) string {
	if f.Name == "help" || f.Name == "version" {
		return f.Usage
	}
	facts := "no default"
	if value := Default(f); value != "" {
		facts = "default " + value
	}
	if IsSetting(f) {
		facts += "; " + EnvName(f.Name)
	}
	return fmt.Sprintf("%s (%s)", f.Usage, facts)
}

// Default returns the flag's default as the help shows it, or "" if the flag has none.
func Default(f *pflag.Flag) string {
	switch {
	case f.DefValue == "" || f.DefValue == "[]":
		return ""
	case strings.TrimSpace(f.DefValue) == "":
		return strconv.Quote(f.DefValue)
	}
	return f.DefValue
}

func wrap(b *strings.Builder, s, indent string) {
	column := 0
	for word := range strings.FieldsSeq(s) {
		switch {
		case column == 0:
			b.WriteString(indent)
			column = len(indent)
		case column+1+len(word) > usageWidth:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	b.WriteByte('\n')
}
