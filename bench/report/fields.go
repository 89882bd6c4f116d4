package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// fields reads the fields of a JSON object one by one and collects what is wrong with them, each fault with the name of
// its field.
type fields struct {
	raw     map[string]json.RawMessage
	periods int // how long lists must be, once known; -1 before
	faults  []error
}

func parseFields(data []byte) (*fields, error) {
	f := &fields{periods: -1}
	if err := json.Unmarshal(data, &f.raw); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	return f, nil
}

func (f *fields) has(name string) bool { return len(f.raw[name]) > 0 }

func (f *fields) fault(name, format string, args ...any) {
	f.faults = append(f.faults, fmt.Errorf("field %s: "+format, append([]any{name}, args...)...))
}

func (f *fields) err() error { return errors.Join(f.faults...) }

func read[T any](f *fields, name, want string) (v T) {
	if !f.has(name) {
		f.fault(name, "missing")
		return v
	}
	if err := json.Unmarshal(f.raw[name], &v); err != nil {
		f.fault(name, "want %s", want)
	}
	return v
}

func (f *fields) text(name string) string { return read[string](f, name, "a string") }

// number reads one that is not negative.
func (f *fields) number(name string) float64 {
	v := read[float64](f, name, "a number")
	if v < 0 {
		f.fault(name, "%g: want a number that is not negative", v)
	}
	return v
}

// list reads numbers, one for each period: the first list that is read says how many those are.
func (f *fields) list(name string) []float64 {
	list := read[[]float64](f, name, "a list of numbers")
	for i, v := range list {
		if v < 0 {
			f.fault(name, "value %d is %g: want a number that is not negative", i+1, v)
			break
		}
	}
	if f.periods < 0 {
		f.periods = len(list)
	}
	if len(list) != f.periods && f.has(name) {
		f.fault(name, "%d values for %d periods", len(list), f.periods)
		return make([]float64, f.periods)
	}
	if len(list) != f.periods {
		return make([]float64, f.periods)
	}
	return list
}

// backlog reads a list of numbers that may be below zero, where a message counts as received before it counts as sent.
func (f *fields) backlog(name string) []float64 {
	list := read[[]float64](f, name, "a list of numbers")
	if len(list) != f.periods && f.has(name) {
		f.fault(name, "%d values for %d periods", len(list), f.periods)
	}
	out := make([]float64, f.periods)
	for i := range min(len(list), f.periods) {
		out[i] = math.Max(0, list[i])
	}
	return out
}

// latencies reads eight lists whose names end in the suffixes, and gives milliseconds: values are multiplied by unit.
func (f *fields) latencies(prefix string, suffixes [8]string, unit float64) []Latency {
	var columns [8][]float64
	for i, suffix := range suffixes {
		columns[i] = f.list(prefix + suffix)
	}
	out := make([]Latency, f.periods)
	for i := range out {
		var row [8]float64
		for j := range columns {
			row[j] = columns[j][i] * unit
		}
		out[i] = latencyOf(row)
	}
	return out
}

// latency is latencies of a distribution over the whole test.
func (f *fields) latency(prefix string, suffixes [8]string, unit float64) Latency {
	var row [8]float64
	for i, suffix := range suffixes {
		row[i] = f.number(prefix+suffix) * unit
	}
	return latencyOf(row)
}

// latencyOf takes the values in the order of the fields.
func latencyOf(v [8]float64) Latency {
	return Latency{Avg: v[0], P50: v[1], P75: v[2], P95: v[3], P99: v[4], P999: v[5], P9999: v[6], Max: v[7]}
}
