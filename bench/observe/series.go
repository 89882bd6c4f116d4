package observe

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Suffix replaces ".json" in the name of a result to name its series.
const Suffix = ".observed.json"

// PathFor gives the path of the series of a result, "x.observed.json" for "x.json".
func PathFor(result string) string { return strings.TrimSuffix(result, ".json") + Suffix }

// Series is what the programs of a run used over time.
type Series struct {
	Start    time.Time `json:"start"` // of the clock of the samples
	Targets  []History `json:"targets"`
	Warnings []string  `json:"warnings,omitempty"` // each once
}

// History is what one target used.
type History struct {
	Name    string   `json:"name"`
	Apart   bool     `json:"apart,omitempty"` // not counted into the sums, such as an object store that somebody else runs
	Samples []Sample `json:"samples"`         // by rising At
}

// Sample is one reading. Requests and ObjectBytes are those to the object store, by operation; nil if the target tells
// of none.
type Sample struct {
	At            float64            `json:"at_seconds"`  // since the start of the series
	CPU           float64            `json:"cpu_seconds"` // total, user and system
	ResidentBytes int64              `json:"resident_bytes"`
	PeakBytes     int64              `json:"peak_resident_bytes,omitempty"` // since the process started; 0 if not known
	Requests      map[string]float64 `json:"objstore_requests,omitempty"`   // total
	ObjectBytes   map[string]float64 `json:"objstore_bytes,omitempty"`      // total
}

// WriteFile writes the series as JSON.
func (s *Series) WriteFile(path string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode observed series: %w", err)
	}
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write observed series: %w", err)
	}
	return nil
}

// ReadFile reads and checks what WriteFile wrote; os.ErrNotExist if there is no such file. Other errors name the file and
// the field.
func ReadFile(path string) (*Series, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read observed series: %w", err)
	}
	var s Series
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &s, nil
}

func (s *Series) validate() error {
	var faults []error
	if s.Start.IsZero() {
		faults = append(faults, errors.New("start: missing"))
	}
	for i, t := range s.Targets {
		if t.Name == "" {
			faults = append(faults, fmt.Errorf("targets[%d].name: missing", i))
		}
		for j := 1; j < len(t.Samples); j++ {
			if t.Samples[j].At <= t.Samples[j-1].At {
				faults = append(faults, fmt.Errorf("targets[%d].samples[%d].at_seconds: %g does not follow %g", i, j, t.Samples[j].At, t.Samples[j-1].At))
				break
			}
		}
	}
	return errors.Join(faults...)
}

// Window gives the part of the series from one moment to another, with times since the first of them. Where samples reach
// beyond the moments, the window begins and ends exactly at them, with what lies on the straight line between the samples
// around them. It shares the samples' maps with s.
func (s *Series) Window(from, to time.Time) *Series {
	w := &Series{Start: from, Warnings: s.Warnings}
	first, last := from.Sub(s.Start).Seconds(), to.Sub(s.Start).Seconds()
	for _, t := range s.Targets {
		part := History{Name: t.Name, Apart: t.Apart}
		if sample, ok := t.at(first); ok {
			part.Samples = append(part.Samples, sample)
		}
		for _, sample := range t.Samples {
			if sample.At > first && sample.At < last {
				part.Samples = append(part.Samples, sample)
			}
		}
		if sample, ok := t.at(last); ok && last > first {
			part.Samples = append(part.Samples, sample)
		}
		for i := range part.Samples {
			part.Samples[i].At -= first
		}
		w.Targets = append(w.Targets, part)
	}
	return w
}

// at gives what a sample at a moment would have been; false outside of the samples.
func (h *History) at(moment float64) (Sample, bool) {
	i, found := slices.BinarySearchFunc(h.Samples, moment, func(s Sample, at float64) int { return cmp.Compare(s.At, at) })
	if found {
		return h.Samples[i], true
	}
	if i == 0 || i == len(h.Samples) {
		return Sample{}, false
	}
	a, b := h.Samples[i-1], h.Samples[i]
	share := (moment - a.At) / (b.At - a.At)
	return Sample{
		At: moment, CPU: between(a.CPU, b.CPU, share), ResidentBytes: int64(between(float64(a.ResidentBytes), float64(b.ResidentBytes), share)),
		PeakBytes: a.PeakBytes, Requests: allBetween(a.Requests, b.Requests, share), ObjectBytes: allBetween(a.ObjectBytes, b.ObjectBytes, share),
	}, true
}

func between(a, b, share float64) float64 { return a + share*(b-a) }

func allBetween(a, b map[string]float64, share float64) map[string]float64 {
	if b == nil {
		return nil
	}
	out := make(map[string]float64, len(b))
	for name, v := range b {
		out[name] = between(a[name], v, share)
	}
	return out
}

// Usage is what a target used between its first sample and its last.
type Usage struct {
	Seconds     float64 // between the samples
	CPU         float64 // seconds
	PeakBytes   int64   // largest resident size: the kernel's mark where known, else the largest seen
	Requests    map[string]float64
	ObjectBytes map[string]float64
}

// Usage sums up the history; zero if it has fewer than two samples.
func (h *History) Usage() Usage {
	if len(h.Samples) < 2 {
		return Usage{}
	}
	first, last := h.Samples[0], h.Samples[len(h.Samples)-1]
	u := Usage{
		Seconds: last.At - first.At, CPU: last.CPU - first.CPU,
		Requests: grown(first.Requests, last.Requests), ObjectBytes: grown(first.ObjectBytes, last.ObjectBytes),
	}
	for _, s := range h.Samples {
		u.PeakBytes = max(u.PeakBytes, s.ResidentBytes, s.PeakBytes)
	}
	return u
}

func grown(first, last map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for _, operation := range slices.Sorted(maps.Keys(last)) {
		if d := last[operation] - first[operation]; d > 0 {
			out[operation] = d
		}
	}
	return out
}
