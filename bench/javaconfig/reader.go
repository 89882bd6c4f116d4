package javaconfig

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// reader takes values out of properties, and remembers what was wrong and what nobody asked for.
type reader struct {
	props    Properties
	asked    map[string]bool
	options  []kgo.Opt
	warnings []string
	faults   []error
}

func newReader(p Properties) *reader { return &reader{props: p, asked: map[string]bool{}} }

func (r *reader) use(opts ...kgo.Opt) { r.options = append(r.options, opts...) }

// warn says a thing once, however many options come of a property.
func (r *reader) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.warnings, text) {
		r.warnings = append(r.warnings, text)
	}
}

func (r *reader) fault(name, format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("%w: %s=%s: "+format, append([]any{ErrProperty, name, r.props[name]}, args...)...))
}

// secret is a fault of a value that must not be shown.
func (r *reader) secret(name, what string) {
	r.faults = append(r.faults, fmt.Errorf("%w: %s: %s", ErrProperty, name, what))
}

// text gives a value, empty if it is not given.
func (r *reader) text(name string) string {
	r.asked[name] = true
	return strings.TrimSpace(r.props[name])
}

func (r *reader) has(name string) bool { return r.text(name) != "" }

// number gives a whole number within what Java's client allows.
func (r *reader) number(name string, standard, low, high int64) int64 {
	text := r.text(name)
	if text == "" {
		return standard
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		r.fault(name, "allowed is a whole number of %d to %d", low, high)
		return standard
	}
	return n
}

// within takes a number to the nearest that franz-go allows.
func (r *reader) within(name string, n, low, high int64) int64 {
	if near := min(max(n, low), high); near != n {
		r.warn("%s=%d is taken as %d, the nearest this client allows", name, n, near)
		return near
	}
	return n
}

// millis gives a duration within what both clients allow; low and high are franz-go's.
func (r *reader) millis(name string, standard, low, high time.Duration) time.Duration {
	n := r.number(name, standard.Milliseconds(), 0, math.MaxInt64)
	return time.Duration(r.within(name, n, low.Milliseconds(), high.Milliseconds())) * time.Millisecond
}

func (r *reader) boolean(name string, standard bool) bool {
	switch strings.ToLower(r.text(name)) {
	case "":
		return standard
	case "true":
		return true
	case "false":
		return false
	}
	r.fault(name, "allowed are true and false")
	return standard
}

// choice gives one of the allowed values, of which the first is the default.
func (r *reader) choice(name string, allowed ...string) string {
	text := strings.ToLower(r.text(name))
	if text == "" {
		return allowed[0]
	}
	if !slices.Contains(allowed, text) {
		r.fault(name, "allowed are %s", strings.Join(allowed, ", "))
		return allowed[0]
	}
	return text
}

// list gives the entries of a value with commas.
func (r *reader) list(name string) []string {
	var entries []string
	for entry := range strings.SplitSeq(r.text(name), ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			entries = append(entries, entry)
		}
	}
	return entries
}

// meaningless are properties that say nothing about how this client behaves.
var meaningless = []string{
	"key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "group.id",
	"exclude.internal.topics", "auto.include.jmx.reporter", "metric.reporters", "metrics.num.samples",
	"metrics.recording.level", "metrics.sample.window.ms", "enable.metrics.push",
}

// finish gives the client, after a warning for each property that neither this role nor another one knows.
func (r *reader) finish(others ...func(*reader)) (Client, error) {
	known := newReader(Properties{"bootstrap.servers": "-"})
	for _, other := range others {
		other(known)
	}
	var unmapped []string
	for name := range r.props {
		if !r.asked[name] && !known.asked[name] && !slices.Contains(meaningless, name) {
			unmapped = append(unmapped, name)
		}
	}
	slices.Sort(unmapped)
	for _, name := range unmapped {
		r.warn("%s has no counterpart in this client and is ignored", name)
	}
	return Client{Options: r.options, Warnings: r.warnings}, errors.Join(r.faults...)
}
