package perf

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/freshet-io/freshet/bench/load"
)

// period is what happened in one reporting interval.
type period struct {
	produceRate, produceBps, errorRate float64 // a second
	consumeRate, consumeBps            float64 // a second
	backlog                            int64   // records
	produce, endToEnd                  latencies
}

func newPeriod(p load.Period, backlog int64) *period {
	seconds := p.Elapsed.Seconds()
	return &period{
		produceRate: float64(p.Counters.Sent) / seconds,
		produceBps:  float64(p.Counters.BytesSent) / seconds,
		errorRate:   float64(p.Counters.Failed) / seconds,
		consumeRate: float64(p.Counters.Received) / seconds,
		consumeBps:  float64(p.Counters.BytesReceived) / seconds,
		backlog:     max(0, backlog),
		produce:     latenciesOf(p.Latencies.Publish),
		endToEnd:    latenciesOf(p.Latencies.EndToEnd),
	}
}

// totals is what happened in a phase.
type totals struct {
	produceRate, produceBps, consumeRate, consumeBps float64 // a second
	produced, failed, consumed                       float64 // records
	producedBytes, consumedBytes                     float64
	produce, endToEnd                                latencies
	produceQuantiles, endToEndQuantiles              Quantiles
}

func newTotals(c load.Counters, l load.Latencies, seconds float64) *totals {
	return &totals{
		produced: float64(c.Sent), producedBytes: float64(c.BytesSent), failed: float64(c.Failed),
		consumed: float64(c.Received), consumedBytes: float64(c.BytesReceived),
		produceRate: float64(c.Sent) / seconds, produceBps: float64(c.BytesSent) / seconds,
		consumeRate: float64(c.Received) / seconds, consumeBps: float64(c.BytesReceived) / seconds,
		produce: latenciesOf(l.Publish), endToEnd: latenciesOf(l.EndToEnd),
		produceQuantiles: quantilesOf(l.Publish), endToEndQuantiles: quantilesOf(l.EndToEnd),
	}
}

func latenciesOf(h *hdrhistogram.Histogram) latencies {
	if h.TotalCount() == 0 {
		return latencies{}
	}
	at := h.ValueAtPercentiles([]float64{50, 75, 90, 95, 99, 99.9, 99.99}) // one pass: the histograms are large
	value := func(percent float64) float64 { return float64(at[percent]) }
	return latencies{
		mean: h.Mean(), min: float64(h.Min()), max: float64(h.Max()), p50: value(50), p75: value(75), p90: value(90),
		p95: value(95), p99: value(99), p999: value(99.9), p9999: value(99.99),
	}
}

// quantileTicks is how finely percentiles are listed: steps in every halving of the distance to 100 %. The tool's.
const quantileTicks = 100

func quantilesOf(h *hdrhistogram.Histogram) Quantiles {
	if h.TotalCount() == 0 {
		return Quantiles{}
	}
	brackets := h.CumulativeDistributionWithTicks(quantileTicks)
	q := make(Quantiles, 0, len(brackets))
	for _, b := range brackets {
		if n := len(q); n > 0 && q[n-1].Percent == b.Quantile {
			q[n-1].Micros = b.ValueAt
			continue
		}
		q = append(q, Quantile{b.Quantile, b.ValueAt})
	}
	return q
}
