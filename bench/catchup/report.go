package catchup

import (
	"fmt"
	"slices"
	"time"
)

// Bounds of what is measured.
const (
	leastRate    = 5   // total catch-up rate over the produce rate
	mostLatency  = 1.3 // p99 with catch-up over that without
	mostCPU      = 0.7 // of all cores
	mostGetShare = 1.2 // GETs over units of the backlog
)

// Report is what a run measured.
type Report struct {
	cfg   Config
	pairs []pair
}

func (r *Report) printPair(n int) {
	p := &r.pairs[n]
	for _, t := range []struct {
		name string
		m    *measured
	}{{"without", &p.without}, {"with", &p.with}} {
		fmt.Fprintf(r.cfg.Out, "pair %d %-8s produce %5.1f MiB/s p99 %6.1f ms  tail p99 %6.1f ms  catch-up %6.1f MiB/s  "+
			"CPU %3.0f %% (agent %.1f s, control plane %.1f s, clients %.1f s of %.0f s)  GETs %.0f, %.0f MiB\n", n+1, t.name,
			mib(float64(t.m.Bytes)/max(t.m.Elapsed.Seconds(), 1e-9)), ms(t.m.Produce99), ms(t.m.Tail99), mib(t.m.catchUpRate()),
			100*t.m.cpuShare(), t.m.agentCPU, t.m.controlCPU, t.m.CPUSeconds, t.m.elapsed.Seconds(), t.m.gets, mib(t.m.getBytes))
	}
}

func (m *measured) catchUpRate() float64 {
	if m.Busy == 0 {
		return 0
	}
	return float64(m.CatchUp) / m.Busy.Seconds()
}

// print shows the medians over the pairs, each beside its bound.
func (r *Report) print() {
	line := func(name string, value float64, bound string, ok bool) {
		fmt.Fprintf(r.cfg.Out, "%-32s %8.2f  (%s)%s\n", name, value, bound, map[bool]string{false: "  MISSED"}[ok])
	}
	rate := r.Rate()
	line("catchup_over_produce_rate", rate, fmt.Sprintf("at least %d", leastRate), rate >= leastRate)
	produce, tail := r.Produce(), r.Tail()
	line("produce_p99_ratio", produce, fmt.Sprintf("at most %.1f", mostLatency), produce <= mostLatency)
	line("tail_p99_ratio", tail, fmt.Sprintf("at most %.1f", mostLatency), tail <= mostLatency)
	cpu := r.CPU()
	line("cpu_share", cpu, fmt.Sprintf("below %.1f", mostCPU), cpu < mostCPU)
	gets := r.Gets()
	line("gets_over_backlog_units", gets, fmt.Sprintf("at most %.1f", mostGetShare), gets <= mostGetShare)
}

// Rate is the median of the groups' total rate over the rate set for producing.
func (r *Report) Rate() float64 {
	return r.median(func(p *pair) float64 { return p.with.catchUpRate() / float64(r.cfg.Rate) })
}

// Produce is the median of the ratio of the 99th percentiles of producing, with groups over without.
func (r *Report) Produce() float64 {
	return r.median(func(p *pair) float64 { return ratio(p.with.Produce99, p.without.Produce99) })
}

// Tail is as Produce, of the time from sending to arrival at the consumer that follows.
func (r *Report) Tail() float64 {
	return r.median(func(p *pair) float64 { return ratio(p.with.Tail99, p.without.Tail99) })
}

// CPU is the median of the share of all cores that all processes used in turns with groups.
func (r *Report) CPU() float64 { return r.median(func(p *pair) float64 { return p.with.cpuShare() }) }

// Gets is the median of the GETs of a turn with groups, over the units of the backlog.
func (r *Report) Gets() float64 {
	return r.median(func(p *pair) float64 { return p.with.gets / (float64(r.cfg.Backlog) / unit) })
}

func (r *Report) median(of func(*pair) float64) float64 {
	values := make([]float64, len(r.pairs))
	for i := range r.pairs {
		values[i] = of(&r.pairs[i])
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func mib(bytes float64) float64 { return bytes / (1 << 20) }
