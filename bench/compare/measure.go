package compare

import (
	"errors"
	"fmt"
	"slices"

	"github.com/freshet-io/freshet/bench/report"
)

// figure is one line of the comparison.
type figure struct {
	name   string
	unit   string
	value  func(*report.Run) float64 // 0: not known
	digits int                       // after the point
}

// figures are compared, in this order. Latencies are those of the whole test.
var figures = []figure{
	{name: "throughput in", unit: "MiB/s", digits: 1, value: func(r *report.Run) float64 {
		return r.Figures.MeanPublishRate() * r.Figures.MessageBytes / (1 << 20)
	}},
	{name: "throughput out", unit: "MiB/s", digits: 1, value: func(r *report.Run) float64 {
		return r.Figures.MeanConsumeRate() * r.Figures.MessageBytes / (1 << 20)
	}},
	{name: "produce latency p50", unit: "ms", digits: 1, value: func(r *report.Run) float64 { return r.Figures.PublishTotal.P50 }},
	{name: "produce latency p99", unit: "ms", digits: 1, value: func(r *report.Run) float64 { return r.Figures.PublishTotal.P99 }},
	{name: "end-to-end latency p50", unit: "ms", digits: 1, value: func(r *report.Run) float64 { return r.Figures.EndToEndTotal.P50 }},
	{name: "end-to-end latency p99", unit: "ms", digits: 1, value: func(r *report.Run) float64 { return r.Figures.EndToEndTotal.P99 }},
	{name: "CPU per GiB in", unit: "CPU-s/GiB", digits: 2, value: func(r *report.Run) float64 { return perGiB(r, false) }},
	{name: "CPU per GiB in, S3 server included", unit: "CPU-s/GiB", digits: 2, value: func(r *report.Run) float64 {
		return perGiB(r, false) + perGiB(r, true)
	}},
	{name: "peak memory", unit: "MiB", digits: 0, value: func(r *report.Run) float64 {
		return float64(report.SumUsage(r.Observed, false).Peak) / (1 << 20)
	}},
}

// perGiB gives CPU seconds for each GiB of payload published, of what is counted or of what is counted apart.
func perGiB(r *report.Run, apart bool) float64 {
	volume := r.Figures.GiB()
	if volume == 0 {
		return 0
	}
	return report.SumUsage(r.Observed, apart).CPU / volume
}

// pair is the two runs of a round.
type pair struct {
	kafka, freshet report.Run
	kafkaFirst     bool
}

// Spread is what a figure was over several runs or pairs.
type Spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// errNoFigure means that a run did not give a figure that is to be compared.
var errNoFigure = errors.New("not measured")

// spreadOf gives the median, in an even number of values the mean of the two in the middle, and the range.
func spreadOf(values []float64) Spread {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return Spread{}
	}
	return Spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Low: sorted[0], High: sorted[n-1]}
}

// row is a figure over all pairs. Ratios are Freshet's value by Kafka's, of each pair.
type row struct {
	figure
	kafka, freshet, ratio Spread
	ratios                []float64
}

// rows compares all figures. A figure that a run does not have, or that is zero for Kafka, is an error that names run and
// figure: a ratio of it would be of nothing.
func rows(pairs []pair) ([]row, error) {
	var out []row
	var faults []error
	for _, f := range figures {
		r := row{figure: f}
		var kafka, freshet []float64
		for i := range pairs {
			a, b := f.value(&pairs[i].kafka), f.value(&pairs[i].freshet)
			if a <= 0 || b <= 0 {
				name := pairs[i].freshet.Name
				if a <= 0 {
					name = pairs[i].kafka.Name
				}
				faults = append(faults, fmt.Errorf("run %s: %s: %w", name, f.name, errNoFigure))
				continue
			}
			kafka, freshet, r.ratios = append(kafka, a), append(freshet, b), append(r.ratios, b/a)
		}
		r.kafka, r.freshet, r.ratio = spreadOf(kafka), spreadOf(freshet), spreadOf(r.ratios)
		out = append(out, r)
	}
	return out, errors.Join(faults...)
}

// errorsOf gives the messages that were not published, over the runs of a system.
func errorsOf(pairs []pair, run func(*pair) *report.Run) float64 {
	var sum float64
	for i := range pairs {
		f := &run(&pairs[i]).Figures
		for j, rate := range f.PublishErrorRate {
			before := 0.0
			if j > 0 {
				before = f.Seconds[j-1]
			}
			sum += rate * (f.Seconds[j] - before)
		}
	}
	return sum
}
