package perf

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Result is what a test measured. Its JSON has the fields of the tool's file, in its order. Rates are records a second,
// throughput bytes a second, latencies microseconds, except in the lines.
type Result struct {
	Config             Settings  `json:"config"`
	StartMs            int64     `json:"startMs"` // since 1970
	ProduceRateTotal   float64   `json:"produceRateTotal"`
	ProduceBpsTotal    float64   `json:"produceThroughputTotalBps"`
	Produced           float64   `json:"produceCountTotal"` // records
	ProducedBytes      float64   `json:"produceSizeTotalBytes"`
	Failed             float64   `json:"produceErrorTotal"` // records
	ConsumeRateTotal   float64   `json:"consumeRateTotal"`
	ConsumeBpsTotal    float64   `json:"consumeThroughputTotalBps"`
	Consumed           float64   `json:"consumeCountTotal"` // records, by all groups
	ConsumedBytes      float64   `json:"consumeSizeTotalBytes"`
	ProduceMeanTotal   float64   `json:"produceLatencyMeanTotalMicros"`
	ProduceP50Total    float64   `json:"produceLatency50thTotalMicros"`
	ProduceP75Total    float64   `json:"produceLatency75thTotalMicros"`
	ProduceP90Total    float64   `json:"produceLatency90thTotalMicros"`
	ProduceP95Total    float64   `json:"produceLatency95thTotalMicros"`
	ProduceP99Total    float64   `json:"produceLatency99thTotalMicros"`
	ProduceP999Total   float64   `json:"produceLatency999thTotalMicros"`
	ProduceP9999Total  float64   `json:"produceLatency9999thTotalMicros"`
	ProduceMaxTotal    float64   `json:"produceLatencyMaxTotalMicros"`
	EndToEndMeanTotal  float64   `json:"endToEndLatencyMeanTotalMicros"`
	EndToEndP50Total   float64   `json:"endToEndLatency50thTotalMicros"`
	EndToEndP75Total   float64   `json:"endToEndLatency75thTotalMicros"`
	EndToEndP90Total   float64   `json:"endToEndLatency90thTotalMicros"`
	EndToEndP95Total   float64   `json:"endToEndLatency95thTotalMicros"`
	EndToEndP99Total   float64   `json:"endToEndLatency99thTotalMicros"`
	EndToEndP999Total  float64   `json:"endToEndLatency999thTotalMicros"`
	EndToEndP9999Total float64   `json:"endToEndLatency9999thTotalMicros"`
	EndToEndMaxTotal   float64   `json:"endToEndLatencyMaxTotalMicros"`
	TimeSecs           []float64 `json:"timeSecs"` // ends of the periods of what follows, since the test began
	ProduceRate        []float64 `json:"produceRate"`
	ProduceBps         []float64 `json:"produceThroughputBps"`
	ErrorRate          []float64 `json:"errorRate"`
	ConsumeRate        []float64 `json:"consumeRate"`
	ConsumeBps         []float64 `json:"consumeThroughputBps"`
	Backlog            []int64   `json:"backlog"` // records that groups have yet to receive
	ProduceMean        []float64 `json:"produceLatencyMeanMicros"`
	ProduceMin         []float64 `json:"produceLatencyMinMicros"`
	ProduceP50         []float64 `json:"produceLatency50thMicros"`
	ProduceP75         []float64 `json:"produceLatency75thMicros"`
	ProduceP90         []float64 `json:"produceLatency90thMicros"`
	ProduceP95         []float64 `json:"produceLatency95thMicros"`
	ProduceP99         []float64 `json:"produceLatency99thMicros"`
	ProduceP999        []float64 `json:"produceLatency999thMicros"`
	ProduceP9999       []float64 `json:"produceLatency9999thMicros"`
	ProduceMax         []float64 `json:"produceLatencyMaxMicros"`
	ProduceQuantiles   Quantiles `json:"produceLatencyQuantilesMicros"`
	EndToEndMean       []float64 `json:"endToEndLatencyMeanMicros"`
	EndToEndMin        []float64 `json:"endToEndLatencyMinMicros"`
	EndToEndP50        []float64 `json:"endToEndLatency50thMicros"`
	EndToEndP75        []float64 `json:"endToEndLatency75thMicros"`
	EndToEndP90        []float64 `json:"endToEndLatency90thMicros"`
	EndToEndP95        []float64 `json:"endToEndLatency95thMicros"`
	EndToEndP99        []float64 `json:"endToEndLatency99thMicros"`
	EndToEndP999       []float64 `json:"endToEndLatency999thMicros"`
	EndToEndP9999      []float64 `json:"endToEndLatency9999thMicros"`
	EndToEndMax        []float64 `json:"endToEndLatencyMaxMicros"`
	EndToEndQuantiles  Quantiles `json:"endToEndLatencyQuantilesMicros"`
}

// Settings are the configuration as the result tells it: the fields of the tool's PerfConfig, in its order.
type Settings struct {
	BootstrapServer                  string            `json:"bootstrapServer"`
	CommonConfigs                    map[string]string `json:"commonConfigs"`
	TopicConfigs                     map[string]string `json:"topicConfigs"`
	ProducerConfigs                  map[string]string `json:"producerConfigs"`
	ConsumerConfigs                  map[string]string `json:"consumerConfigs"`
	Reset                            bool              `json:"reset"`
	TopicPrefix                      string            `json:"topicPrefix"`
	Topics                           int               `json:"topics"`
	PartitionsPerTopic               int               `json:"partitionsPerTopic"`
	ProducersPerTopic                int               `json:"producersPerTopic"`
	GroupsPerTopic                   int               `json:"groupsPerTopic"`
	ConsumersPerGroup                int               `json:"consumersPerGroup"`
	AwaitTopicReady                  bool              `json:"awaitTopicReady"`
	RecordSize                       int               `json:"recordSize"`
	RandomRatio                      float64           `json:"randomRatio"`
	RandomPoolSize                   int               `json:"randomPoolSize"`
	SendRate                         int               `json:"sendRate"`
	SendRateDuringCatchup            int               `json:"sendRateDuringCatchup"`
	MaxConsumeRecordRate             int               `json:"maxConsumeRecordRate"`
	BacklogDurationSeconds           float64           `json:"backlogDurationSeconds"`
	GroupStartDelaySeconds           float64           `json:"groupStartDelaySeconds"`
	WarmupDurationMinutes            float64           `json:"warmupDurationMinutes"`
	ConsumersDuringCatchupPercentage int               `json:"consumersDuringCatchupPercentage"`
	TestDurationMinutes              float64           `json:"testDurationMinutes"`
	ReportingIntervalSeconds         float64           `json:"reportingIntervalSeconds"`
	ValueSchema                      *string           `json:"valueSchema"`
	ValuesFile                       *string           `json:"valuesFile"`
	ReuseTopics                      bool              `json:"reuseTopics"`
	CatchupTopicPrefix               *string           `json:"catchupTopicPrefix"`
}

func (r *Result) addPeriod(elapsed float64, p *period) {
	r.TimeSecs = append(r.TimeSecs, elapsed)
	r.ProduceRate = append(r.ProduceRate, p.produceRate)
	r.ProduceBps = append(r.ProduceBps, p.produceBps)
	r.ErrorRate = append(r.ErrorRate, p.errorRate)
	r.ConsumeRate = append(r.ConsumeRate, p.consumeRate)
	r.ConsumeBps = append(r.ConsumeBps, p.consumeBps)
	r.Backlog = append(r.Backlog, p.backlog)
	r.ProduceMean = append(r.ProduceMean, p.produce.mean)
	r.ProduceMin = append(r.ProduceMin, p.produce.min)
	r.ProduceP50 = append(r.ProduceP50, p.produce.p50)
	r.ProduceP75 = append(r.ProduceP75, p.produce.p75)
	r.ProduceP90 = append(r.ProduceP90, p.produce.p90)
	r.ProduceP95 = append(r.ProduceP95, p.produce.p95)
	r.ProduceP99 = append(r.ProduceP99, p.produce.p99)
	r.ProduceP999 = append(r.ProduceP999, p.produce.p999)
	r.ProduceP9999 = append(r.ProduceP9999, p.produce.p9999)
	r.ProduceMax = append(r.ProduceMax, p.produce.max)
	r.EndToEndMean = append(r.EndToEndMean, p.endToEnd.mean)
	r.EndToEndMin = append(r.EndToEndMin, p.endToEnd.min)
	r.EndToEndP50 = append(r.EndToEndP50, p.endToEnd.p50)
	r.EndToEndP75 = append(r.EndToEndP75, p.endToEnd.p75)
	r.EndToEndP90 = append(r.EndToEndP90, p.endToEnd.p90)
	r.EndToEndP95 = append(r.EndToEndP95, p.endToEnd.p95)
	r.EndToEndP99 = append(r.EndToEndP99, p.endToEnd.p99)
	r.EndToEndP999 = append(r.EndToEndP999, p.endToEnd.p999)
	r.EndToEndP9999 = append(r.EndToEndP9999, p.endToEnd.p9999)
	r.EndToEndMax = append(r.EndToEndMax, p.endToEnd.max)
}

func (r *Result) setTotals(t *totals) {
	r.ProduceRateTotal, r.ProduceBpsTotal = t.produceRate, t.produceBps
	r.Produced, r.ProducedBytes, r.Failed = t.produced, t.producedBytes, t.failed
	r.ConsumeRateTotal, r.ConsumeBpsTotal = t.consumeRate, t.consumeBps
	r.Consumed, r.ConsumedBytes = t.consumed, t.consumedBytes
	r.ProduceMeanTotal = t.produce.mean
	r.ProduceP50Total = t.produce.p50
	r.ProduceP75Total = t.produce.p75
	r.ProduceP90Total = t.produce.p90
	r.ProduceP95Total = t.produce.p95
	r.ProduceP99Total = t.produce.p99
	r.ProduceP999Total = t.produce.p999
	r.ProduceP9999Total = t.produce.p9999
	r.ProduceMaxTotal = t.produce.max
	r.EndToEndMeanTotal = t.endToEnd.mean
	r.EndToEndP50Total = t.endToEnd.p50
	r.EndToEndP75Total = t.endToEnd.p75
	r.EndToEndP90Total = t.endToEnd.p90
	r.EndToEndP95Total = t.endToEnd.p95
	r.EndToEndP99Total = t.endToEnd.p99
	r.EndToEndP999Total = t.endToEnd.p999
	r.EndToEndP9999Total = t.endToEnd.p9999
	r.EndToEndMaxTotal = t.endToEnd.max
	r.ProduceQuantiles, r.EndToEndQuantiles = t.produceQuantiles, t.endToEndQuantiles
}

// Quantiles are the values at growing percentiles of a histogram.
type Quantiles []Quantile

// Quantile is a percentile, 0 to 100, and the microseconds that so many percent of values do not exceed.
type Quantile struct {
	Percent float64
	Micros  int64
}

// MarshalJSON writes an object with percentiles as names, as the tool does, in their order.
func (q Quantiles) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, v := range q {
		if i > 0 {
			b.WriteByte(',')
		}
		percent := strconv.FormatFloat(v.Percent, 'f', -1, 64)
		if !strings.Contains(percent, ".") {
			percent += ".0"
		}
		fmt.Fprintf(&b, "%q:%d", percent, v.Micros)
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// UnmarshalJSON reads what MarshalJSON wrote, and what the tool writes.
func (q *Quantiles) UnmarshalJSON(text []byte) error {
	var named map[string]int64
	if err := json.Unmarshal(text, &named); err != nil {
		return err
	}
	*q = nil
	for name, micros := range named {
		percent, err := strconv.ParseFloat(name, 64)
		if err != nil {
			return fmt.Errorf("percentile %q is no number", name)
		}
		*q = append(*q, Quantile{percent, micros})
	}
	slices.SortFunc(*q, func(a, b Quantile) int { return cmp.Compare(a.Percent, b.Percent) })
	return nil
}

// Write saves the result as perf-yyyy-MM-dd-HH-mm-ss.json in dir, and gives the file's path.
func (r *Result) Write(dir string, now time.Time) (string, error) {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode result: %w", err)
	}
	path := filepath.Join(dir, "perf-"+now.Format("2006-01-02-15-04-05")+".json")
	if err := os.WriteFile(path, append(content, '\n'), 0o644); err != nil {
		return "", fmt.Errorf("write result: %w", err)
	}
	return path, nil
}
