package config

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// usageWidth is where help texts wrap.
const usageWidth = 110

// Usage writes the help of flags: each with what it does, its default and its environment variable.
func Usage(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		writeFlag(&b, f)
	})
	return b.String()
}

func writeFlag(b *strings.Builder, f *pflag.Flag) {
	b.WriteString("  ")
	if f.Shorthand != "" {
		fmt.Fprintf(b, "-%s, ", f.Shorthand)
	}
	b.WriteString("--" + f.Name)
	if kind := f.Value.Type(); kind != "bool" {
		b.WriteString(" " + kindOf(kind))
	}
	b.WriteByte('\n')
	wrap(b, sentence(f), "        ")
}

// kindOf says what a value is in a reader's words, where pflag says it in Go's.
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
	facts := "default " + f.DefValue
	switch {
	case f.DefValue == "" || f.DefValue == "[]":
		facts = "no default"
	case strings.TrimSpace(f.DefValue) == "":
		facts = fmt.Sprintf("default %q", f.DefValue)
	}
	if !isCommandLineOnly(f) {
		facts += "; " + EnvName(f.Name)
	}
	return fmt.Sprintf("%s (%s)", f.Usage, facts)
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
