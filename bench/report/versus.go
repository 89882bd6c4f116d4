package report

import (
	"slices"

	"github.com/freshet-io/freshet/bench/observe"
)

// versus gives charts that have all runs with a System as lines, those of one system alike; none if there are fewer than
// two systems.
func versus(runs []Run) []chart {
	var systems []string
	var shown []*Run
	for i := range runs {
		if r := &runs[i]; r.System != "" {
			shown = append(shown, r)
			if !slices.Contains(systems, r.System) {
				systems = append(systems, r.System)
			}
		}
	}
	if len(systems) < 2 {
		return nil
	}
	publish := func(f *Figures) []Latency { return f.Publish }
	endToEnd := func(f *Figures) []Latency { return f.EndToEnd }
	all := []chart{
		{name: "produce-p50", title: "Produce latency, p50", unit: "milliseconds", lines: latencyLines(shown, publish, p50)},
		{name: "produce-p99", title: "Produce latency, p99", unit: "milliseconds", lines: latencyLines(shown, publish, p99)},
		{name: "end-to-end-p50", title: "End-to-end latency, p50", unit: "milliseconds", lines: latencyLines(shown, endToEnd, p50)},
		{name: "end-to-end-p99", title: "End-to-end latency, p99", unit: "milliseconds", lines: latencyLines(shown, endToEnd, p99)},
		{name: "in", title: "Throughput in", unit: "MiB/s of messages", lines: rateLines(shown)},
		{name: "cpu", title: "CPU, what is counted apart left out", unit: "cores used", lines: cpuLines(shown)},
	}
	for i := range all {
		all[i].log = wide(all[i].lines)
		for j := range all[i].lines {
			l := &all[i].lines[j]
			l.color = slices.Index(systems, l.label)
		}
	}
	return slices.DeleteFunc(all, func(c chart) bool { return c.empty() })
}

func latencyLines(runs []*Run, latencies func(*Figures) []Latency, q quantile) (lines []line) {
	for _, r := range runs {
		x, y := r.Figures.over(latencies(&r.Figures), q)
		lines = append(lines, line{label: r.System, x: x, y: y})
	}
	return lines
}

func rateLines(runs []*Run) (lines []line) {
	for _, r := range runs {
		f := &r.Figures
		lines = append(lines, line{label: r.System, x: f.Seconds[:len(f.PublishRate)], y: f.volume(f.PublishRate)})
	}
	return lines
}

func cpuLines(runs []*Run) (lines []line) {
	for _, r := range runs {
		if r.Observed == nil {
			continue
		}
		counted := slices.DeleteFunc(slices.Clone(r.Observed.Targets), func(h observe.History) bool { return h.Apart })
		x, y := sumOfRates(counted, func(s observe.Sample) float64 { return s.CPU })
		lines = append(lines, line{label: r.System, x: x, y: y})
	}
	return lines
}
