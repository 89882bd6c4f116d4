package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/freshet-io/freshet/bench/observe"
)

// Usage is what all targets of a run used together, those apart left out.
type Usage struct {
	CPU      float64            // seconds
	Peak     int64              // bytes: the targets' peaks, which need not have been at once, added up
	Seconds  float64            // the longest that a target was watched
	Requests map[string]float64 // to the object store
}

// SumUsage adds up the targets; those apart are left out, or alone counted.
func SumUsage(s *observe.Series, apart bool) Usage {
	sum := Usage{Requests: map[string]float64{}}
	if s == nil {
		return sum
	}
	for i := range s.Targets {
		if s.Targets[i].Apart != apart {
			continue
		}
		u := s.Targets[i].Usage()
		sum.CPU += u.CPU
		sum.Peak += u.PeakBytes
		sum.Seconds = max(sum.Seconds, u.Seconds)
		for operation, n := range u.Requests {
			sum.Requests[operation] += n
		}
	}
	return sum
}

// GiB gives how much was published over the whole test, in GiB of payload; 0 if the size of messages is not known.
func (f *Figures) GiB() float64 {
	if len(f.Seconds) == 0 {
		return 0
	}
	return f.mean(f.PublishRate) * f.Seconds[len(f.Seconds)-1] * f.MessageBytes / (1 << 30)
}

// MeanPublishRate gives messages a second over the whole test.
func (f *Figures) MeanPublishRate() float64 { return f.mean(f.PublishRate) }

// MeanConsumeRate gives messages a second over the whole test.
func (f *Figures) MeanConsumeRate() float64 { return f.mean(f.ConsumeRate) }

// overview has one row for each run.
func overview(runs []Run) Table {
	t := Table{Head: []string{"run", "in", "out", "produce p50", "produce p99", "end to end p50", "end to end p99", "CPU-s/GiB", "errors", "warnings"}}
	for i := range runs {
		r := &runs[i]
		f := &r.Figures
		t.Rows = append(t.Rows, []string{
			r.title(), f.rate(f.mean(f.PublishRate)), f.rate(f.mean(f.ConsumeRate)),
			ms(f.PublishTotal.P50), ms(f.PublishTotal.P99), ms(f.EndToEndTotal.P50), ms(f.EndToEndTotal.P99),
			r.cpuPerGiB(), number(f.mean(f.PublishErrorRate)) + " msg/s", fmt.Sprint(len(r.AllWarnings())),
		})
	}
	return t
}

// unknown stands for a figure that nobody measured.
const unknown = "–"

func (f *Figures) rate(messages float64) string {
	if f.MessageBytes == 0 {
		return number(messages) + " msg/s"
	}
	return number(messages*f.MessageBytes/(1<<20)) + " MiB/s"
}

func ms(v float64) string {
	if v == 0 {
		return unknown
	}
	return number(v) + " ms"
}

func (r *Run) cpuPerGiB() string {
	used, volume := SumUsage(r.Observed, false), r.Figures.GiB()
	if used.CPU == 0 || volume == 0 {
		return unknown
	}
	return number(used.CPU / volume)
}

// AllWarnings gives the run's own warnings and those of who watched it.
func (r *Run) AllWarnings() []string {
	if r.Observed == nil {
		return r.Warnings
	}
	return slices.Concat(r.Warnings, r.Observed.Warnings)
}

// summary has the figures of one run, by name and value.
func (r *Run) summary() Table {
	t := Table{Head: []string{"figure", "value"}}
	add := func(name, value string) {
		if value != unknown && value != "" {
			t.Rows = append(t.Rows, []string{name, value})
		}
	}
	f := &r.Figures
	add("format", f.Format)
	add("workload", f.Workload)
	add("driver", f.Driver)
	add("in", both(f, f.mean(f.PublishRate)))
	add("out", both(f, f.mean(f.ConsumeRate)))
	add("publish errors", number(f.mean(f.PublishErrorRate))+" msg/s")
	add("produce latency", distribution(f.PublishTotal))
	add("end-to-end latency", distribution(f.EndToEndTotal))
	add("publish delay", distribution(f.DelayTotal))
	r.addUsage(add)
	return t
}

func (r *Run) addUsage(add func(name, value string)) {
	if r.Observed == nil {
		return
	}
	used, apart := SumUsage(r.Observed, false), SumUsage(r.Observed, true)
	add("CPU", number(used.CPU)+" s")
	add("CPU seconds per GiB in", r.cpuPerGiB())
	add("peak memory", number(float64(used.Peak)/(1<<20))+" MiB")
	if apart.CPU > 0 {
		add("CPU of what is counted apart", number(apart.CPU)+" s")
	}
	for _, operation := range slices.Sorted(maps.Keys(used.Requests)) {
		if used.Seconds > 0 {
			add("object store: "+operation, number(used.Requests[operation]/used.Seconds)+" requests/s")
		}
	}
}

func both(f *Figures, messages float64) string {
	if f.MessageBytes == 0 {
		return f.rate(messages)
	}
	return fmt.Sprintf("%s (%s msg/s)", f.rate(messages), number(messages))
}

func distribution(l Latency) string {
	if l == (Latency{}) {
		return unknown
	}
	parts := make([]string, 0, len(quantiles))
	for _, q := range quantiles {
		if v := q.value(&l); v != 0 {
			parts = append(parts, q.name+" "+number(v))
		}
	}
	return strings.Join(parts, ", ") + " ms"
}
