package report

import (
	"errors"
	"fmt"
	"math"
	"regexp"

	"github.com/freshet-io/freshet/bench/observe"
)

// Run is one result of a benchmark, with what is known about it. Only Name and Figures are needed.
type Run struct {
	Name     string // unique in a report; names its chart files: letters, digits, '.', '_' and '-' only
	Title    string // for people; Name if empty
	System   string // what was measured, if the report compares systems: it then has charts of all runs that name one
	Settings []Setting
	Figures  Figures
	Observed *observe.Series // of the measured part of the run; nil if nobody watched
	Warnings []string
}

// Setting is one value that a run was made with.
type Setting struct {
	Name      string `json:"name"`
	Original  string `json:"original,omitempty"` // as the workload or driver file gives it; empty if the file does not say
	Effective string `json:"effective"`          // after scaling, defaults and command line
}

// Figures are what a load generator measured, whatever its format. Lists have one value for each of Seconds, or are empty
// if the format does not have them.
type Figures struct {
	Format       string    // name of the format, for people
	Workload     string    // as the result tells it
	Driver       string    // likewise; may be empty
	MessageBytes float64   // size of a message's payload; 0 if not known: then no throughput in bytes
	Seconds      []float64 // end of each period, since the start of the test

	PublishRate      []float64 // messages a second
	PublishErrorRate []float64 // messages a second
	ConsumeRate      []float64 // messages a second
	Backlog          []float64 // messages

	Publish       []Latency // from send to acknowledgement, by period
	EndToEnd      []Latency // from record timestamp to receipt, by period
	PublishDelay  []Latency // from intended to actual send, by period: how far the client fell behind
	PublishTotal  Latency   // over the whole test
	EndToEndTotal Latency
	DelayTotal    Latency
}

// Latency is a distribution, in milliseconds.
type Latency struct {
	Avg, P50, P75, P95, P99, P999, P9999, Max float64
}

// nameForm is what names of runs look like, because they become names of files.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (r *Run) title() string {
	if r.Title != "" {
		return r.Title
	}
	return r.Name
}

func (r *Run) validate() error {
	if !nameForm.MatchString(r.Name) {
		return fmt.Errorf("run %q: Name: want letters, digits, '.', '_' and '-'", r.Name)
	}
	if err := r.Figures.validate(); err != nil {
		return fmt.Errorf("run %s: %w", r.Name, err)
	}
	return nil
}

func (f *Figures) validate() error {
	var faults []error
	numbers := func(name string, list []float64) {
		if len(list) > 0 && len(list) != len(f.Seconds) {
			faults = append(faults, fmt.Errorf("%s: %d values for %d periods", name, len(list), len(f.Seconds)))
		}
		for i, v := range list {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				faults = append(faults, fmt.Errorf("%s[%d]: %g: want a number that is not negative", name, i, v))
				break
			}
		}
	}
	for i := 1; i < len(f.Seconds); i++ {
		if f.Seconds[i] <= f.Seconds[i-1] {
			faults = append(faults, fmt.Errorf("field Seconds: value %d, %g, does not follow %g", i+1, f.Seconds[i], f.Seconds[i-1]))
			break
		}
	}
	numbers("Seconds", f.Seconds)
	numbers("PublishRate", f.PublishRate)
	numbers("PublishErrorRate", f.PublishErrorRate)
	numbers("ConsumeRate", f.ConsumeRate)
	numbers("Backlog", f.Backlog)
	for _, field := range quantiles {
		numbers("Publish."+field.name, field.column(f.Publish))
		numbers("EndToEnd."+field.name, field.column(f.EndToEnd))
		numbers("PublishDelay."+field.name, field.column(f.PublishDelay))
	}
	return errors.Join(faults...)
}

// mean gives the average of the periods, each weighted with its length; 0 without periods.
func (f *Figures) mean(list []float64) float64 {
	var sum, before float64
	for i, v := range list {
		sum += v * (f.Seconds[i] - before)
		before = f.Seconds[i]
	}
	if before == 0 {
		return 0
	}
	return sum / before
}

// quantile is one column of a latency table.
type quantile struct {
	name  string
	value func(*Latency) float64
}

func (q quantile) column(list []Latency) []float64 {
	out := make([]float64, len(list))
	for i := range list {
		out[i] = q.value(&list[i])
	}
	return out
}

var (
	avg   = quantile{"average", func(l *Latency) float64 { return l.Avg }}
	p50   = quantile{"p50", func(l *Latency) float64 { return l.P50 }}
	p75   = quantile{"p75", func(l *Latency) float64 { return l.P75 }}
	p95   = quantile{"p95", func(l *Latency) float64 { return l.P95 }}
	p99   = quantile{"p99", func(l *Latency) float64 { return l.P99 }}
	p999  = quantile{"p99.9", func(l *Latency) float64 { return l.P999 }}
	p9999 = quantile{"p99.99", func(l *Latency) float64 { return l.P9999 }}
	most  = quantile{"max", func(l *Latency) float64 { return l.Max }}

	quantiles = []quantile{avg, p50, p75, p95, p99, p999, p9999, most}
)
