package omb

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/freshet-io/freshet/bench/javaconfig"
	"github.com/freshet-io/freshet/bench/load"
	"github.com/freshet-io/freshet/bench/worker"
)

// topicConfigs reads the properties that topics get.
func (d *Driver) topicConfigs() (map[string]string, error) {
	configs, err := javaconfig.Parse(d.TopicConfig)
	return configs, named("topicConfig", err)
}

// emptyResult names the run.
func (f *flow) emptyResult() Result {
	r := Result{
		Workload: f.w.Name, Driver: f.cfg.Driver.Name, MessageSize: int64(f.w.MessageSize), Topics: f.w.Topics,
		Partitions: f.w.PartitionsPerTopic, ProducersPerTopic: f.w.ProducersPerTopic, ConsumersPerTopic: f.w.ConsumerPerSubscription,
	}
	return r
}

// percentiles are those that result files have, in the order of their fields.
var percentiles = []float64{50, 75, 95, 99, 99.9, 99.99}

const microsOfMilli = 1000

// add appends a period.
func (r *Result) add(p worker.Period, backlog int64) {
	seconds := max(p.Elapsed.Seconds(), 1e-9)
	r.PublishRate = append(r.PublishRate, float64(p.Counters.Sent)/seconds)
	r.PublishErrorRate = append(r.PublishErrorRate, float64(p.Counters.Failed)/seconds)
	r.ConsumeRate = append(r.ConsumeRate, float64(p.Counters.Received)/seconds)
	r.Backlog = append(r.Backlog, backlog)
	appendFigures(p.Latencies.Publish, microsOfMilli, &r.PublishLatencyAvg, &r.PublishLatency50pct, &r.PublishLatency75pct, &r.PublishLatency95pct,
		&r.PublishLatency99pct, &r.PublishLatency999pct, &r.PublishLatency9999pct, &r.PublishLatencyMax)
	appendFigures(p.Latencies.EndToEnd, microsOfMilli, &r.EndToEndLatencyAvg, &r.EndToEndLatency50pct, &r.EndToEndLatency75pct, &r.EndToEndLatency95pct,
		&r.EndToEndLatency99pct, &r.EndToEndLatency999pct, &r.EndToEndLatency9999pct, &r.EndToEndLatencyMax)
	r.PublishDelayLatencyAvg = append(r.PublishDelayLatencyAvg, p.Latencies.PublishDelay.Mean())
	delays := []*[]int64{
		&r.PublishDelayLatency50pct, &r.PublishDelayLatency75pct, &r.PublishDelayLatency95pct, &r.PublishDelayLatency99pct,
		&r.PublishDelayLatency999pct, &r.PublishDelayLatency9999pct,
	}
	for i, v := range p.Latencies.PublishDelay.ValueAtPercentilesSlice(percentiles) {
		*delays[i] = append(*delays[i], v)
	}
	r.PublishDelayLatencyMax = append(r.PublishDelayLatencyMax, p.Latencies.PublishDelay.Max())
}

// appendFigures appends the mean, the percentiles and the maximum, in the given unit.
func appendFigures(h *hdrhistogram.Histogram, unit float64, to ...*[]float64) {
	for i, v := range figuresOf(h, unit) {
		*to[i] = append(*to[i], v)
	}
}

func figuresOf(h *hdrhistogram.Histogram, unit float64) []float64 {
	figures := []float64{h.Mean() / unit}
	for _, v := range h.ValueAtPercentilesSlice(percentiles) {
		figures = append(figures, float64(v)/unit)
	}
	return append(figures, float64(h.Max())/unit)
}

// aggregate sets what is of the whole test.
func (r *Result) aggregate(l load.Latencies) {
	set := func(h *hdrhistogram.Histogram, unit float64, to ...*float64) {
		for i, v := range figuresOf(h, unit) {
			*to[i] = v
		}
	}
	set(l.Publish, microsOfMilli, &r.AggregatedPublishLatencyAvg, &r.AggregatedPublishLatency50pct, &r.AggregatedPublishLatency75pct,
		&r.AggregatedPublishLatency95pct, &r.AggregatedPublishLatency99pct, &r.AggregatedPublishLatency999pct,
		&r.AggregatedPublishLatency9999pct, &r.AggregatedPublishLatencyMax)
	set(l.EndToEnd, microsOfMilli, &r.AggregatedEndToEndLatencyAvg, &r.AggregatedEndToEndLatency50pct, &r.AggregatedEndToEndLatency75pct,
		&r.AggregatedEndToEndLatency95pct, &r.AggregatedEndToEndLatency99pct, &r.AggregatedEndToEndLatency999pct,
		&r.AggregatedEndToEndLatency9999pct, &r.AggregatedEndToEndLatencyMax)
	delays := []*int64{
		&r.AggregatedPublishDelayLatency50pct, &r.AggregatedPublishDelayLatency75pct, &r.AggregatedPublishDelayLatency95pct,
		&r.AggregatedPublishDelayLatency99pct, &r.AggregatedPublishDelayLatency999pct, &r.AggregatedPublishDelayLatency9999pct,
	}
	r.AggregatedPublishDelayLatencyAvg = l.PublishDelay.Mean()
	for i, v := range l.PublishDelay.ValueAtPercentilesSlice(percentiles) {
		*delays[i] = v
	}
	r.AggregatedPublishDelayLatencyMax = l.PublishDelay.Max()
	r.AggregatedPublishLatencyQuantiles = quantiles(l.Publish, microsOfMilli)
	r.AggregatedPublishDelayLatencyQuantiles = quantiles(l.PublishDelay, 1)
	r.AggregatedEndToEndLatencyQuantiles = quantiles(l.EndToEnd, microsOfMilli)
}
