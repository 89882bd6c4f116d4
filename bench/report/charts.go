package report

import (
	"cmp"
	"maps"
	"slices"

	"github.com/freshet-io/freshet/bench/observe"
)

// charts gives the charts of one run, without those it has no figures for.
func (r *Run) charts() []chart {
	all := []chart{
		r.latency("produce-latency", "Produce latency", r.Figures.Publish),
		r.latency("end-to-end-latency", "End-to-end latency", r.Figures.EndToEnd),
		r.throughput(),
		r.behind(),
		r.requests(),
		r.cpu(),
		r.memory(),
	}
	return slices.DeleteFunc(all, func(c chart) bool { return c.empty() })
}

func (r *Run) latency(name, title string, list []Latency) chart {
	c := chart{name: name, title: title, unit: "milliseconds"}
	for i, q := range []quantile{p50, p95, p99, p999} {
		x, y := r.Figures.over(list, q)
		c.lines = append(c.lines, line{label: q.name, color: []int{0, 2, 1, 3}[i], x: x, y: y})
	}
	c.log = wide(c.lines)
	return c
}

// over gives a quantile over time, without the periods in which nothing was measured: formats write zeros for those.
func (f *Figures) over(list []Latency, q quantile) (x, y []float64) {
	for i := range list {
		if list[i].Max > 0 {
			x, y = append(x, f.Seconds[i]), append(y, q.value(&list[i]))
		}
	}
	return x, y
}

func (r *Run) throughput() chart {
	f := &r.Figures
	c := chart{name: "throughput", title: "Throughput", unit: "MiB/s of messages", lines: []line{
		{label: "in", color: 0, x: f.Seconds[:len(f.PublishRate)], y: f.volume(f.PublishRate)},
		{label: "out", color: 1, dash: true, x: f.Seconds[:len(f.ConsumeRate)], y: f.volume(f.ConsumeRate)},
	}}
	if f.MessageBytes == 0 {
		c.unit = "messages a second"
	}
	return c
}

// volume turns messages a second into MiB a second if their size is known.
func (f *Figures) volume(rate []float64) []float64 {
	if f.MessageBytes == 0 {
		return rate
	}
	out := make([]float64, len(rate))
	for i, v := range rate {
		out[i] = v * f.MessageBytes / (1 << 20)
	}
	return out
}

// behind shows what was left to receive, if ever more than a second's worth was: else it is noise around zero.
func (r *Run) behind() chart {
	f := &r.Figures
	if len(f.Backlog) == 0 || slices.Max(f.Backlog) < f.mean(f.PublishRate) {
		return chart{}
	}
	thousands := make([]float64, len(f.Backlog))
	for i, v := range f.Backlog {
		thousands[i] = v / 1000
	}
	return chart{name: "backlog", title: "Backlog", unit: "thousands of messages", lines: []line{{label: "not yet received", x: f.Seconds, y: thousands}}}
}

// requests shows the busiest operations of the object store, over all targets that tell of them.
func (r *Run) requests() chart {
	c := chart{name: "requests", title: "Object-store requests", unit: "requests a second"}
	if r.Observed == nil {
		return c
	}
	counts := map[string]float64{}
	for i := range r.Observed.Targets {
		for operation, n := range r.Observed.Targets[i].Usage().Requests {
			counts[operation] += n
		}
	}
	busiest := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	for i, operation := range busiest[:min(len(busiest), 4)] {
		x, y := sumOfRates(r.Observed.Targets, func(s observe.Sample) float64 { return s.Requests[operation] })
		c.lines = append(c.lines, line{label: operation, color: i, x: x, y: y})
	}
	return c
}

// maxSteps bounds how many points a line of rates has: more of them show noise.
const maxSteps = 60

// sumOfRates adds up a counter's rates of all targets, over steps of the samples of the first that has the most.
func sumOfRates(targets []observe.History, counter func(observe.Sample) float64) (x, y []float64) {
	var times []float64
	for _, t := range targets {
		if len(t.Samples) > len(times) {
			times = steps(t.Samples)
		}
	}
	for i := 1; i < len(times); i++ {
		from, to := times[i-1], times[i]
		var sum float64
		for _, t := range targets {
			sum += max(0, at(t.Samples, to, counter)-at(t.Samples, from, counter))
		}
		x, y = append(x, to), append(y, sum/(to-from))
	}
	return x, y
}

// steps gives the times of every n-th sample, so that there are at most maxSteps of them and one, and of the last one.
func steps(samples []observe.Sample) (times []float64) {
	stride := (len(samples)-2)/maxSteps + 1
	for i := (len(samples) - 1) % stride; i < len(samples); i += stride {
		times = append(times, samples[i].At)
	}
	return times
}

// at gives a counter at a moment, on the straight line between the samples around it; outside of them the nearest one's.
func at(samples []observe.Sample, when float64, counter func(observe.Sample) float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	i, found := slices.BinarySearchFunc(samples, when, func(s observe.Sample, t float64) int { return cmp.Compare(s.At, t) })
	switch {
	case found || i == 0:
		return counter(samples[i])
	case i == len(samples):
		return counter(samples[i-1])
	}
	a, b := samples[i-1], samples[i]
	share := (when - a.At) / (b.At - a.At)
	return counter(a) + share*(counter(b)-counter(a))
}

func (r *Run) cpu() chart {
	return r.perTarget(chart{name: "cpu", title: "CPU", unit: "cores used"}, func(h observe.History) (x, y []float64) {
		return sumOfRates([]observe.History{h}, func(s observe.Sample) float64 { return s.CPU })
	})
}

func (r *Run) memory() chart {
	return r.perTarget(chart{name: "memory", title: "Memory", unit: "MiB resident"}, func(h observe.History) (x, y []float64) {
		for _, s := range h.Samples {
			x, y = append(x, s.At), append(y, float64(s.ResidentBytes)/(1<<20))
		}
		return x, y
	})
}

func (r *Run) perTarget(c chart, values func(observe.History) (x, y []float64)) chart {
	if r.Observed == nil {
		return c
	}
	for i := range min(len(r.Observed.Targets), len(palette)) {
		t := r.Observed.Targets[i]
		x, y := values(t)
		c.lines = append(c.lines, line{label: t.Name, color: i, dash: t.Apart, x: x, y: y})
	}
	return c
}
