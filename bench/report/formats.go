package report

import (
	"slices"
	"strings"
	"time"
)

// Names of the formats.
const (
	formatOMB  = "OpenMessaging Benchmark"
	formatPerf = "performance test (freshet-bench perf)"
)

// ombPeriod is the length of a period of the OpenMessaging Benchmark if nothing else is known: its result has no times.
const ombPeriod = 10 * time.Second

// ombSuffixes are those of the OpenMessaging Benchmark's names of latencies (its class TestResult).
var ombSuffixes = [8]string{"Avg", "50pct", "75pct", "95pct", "99pct", "999pct", "9999pct", "Max"}

const (
	ombMillis = 1
	ombMicros = 1e-3 // the delay of publishes is in microseconds
)

// figuresOfOMB reads a result of the OpenMessaging Benchmark.
func figuresOfOMB(f *fields, period time.Duration) Figures {
	if period == 0 {
		period = ombPeriod
	}
	out := Figures{
		Format: formatOMB, Workload: f.text("workload"), Driver: f.text("driver"), MessageBytes: f.number("messageSize"),
		PublishRate: f.list("publishRate"), PublishErrorRate: f.list("publishErrorRate"), ConsumeRate: f.list("consumeRate"),
		Backlog:       f.backlog("backlog"),
		Publish:       f.latencies("publishLatency", ombSuffixes, ombMillis),
		PublishDelay:  f.latencies("publishDelayLatency", ombSuffixes, ombMicros),
		EndToEnd:      f.latencies("endToEndLatency", ombSuffixes, ombMillis),
		PublishTotal:  f.latency("aggregatedPublishLatency", ombSuffixes, ombMillis),
		DelayTotal:    f.latency("aggregatedPublishDelayLatency", ombSuffixes, ombMicros),
		EndToEndTotal: f.latency("aggregatedEndToEndLatency", ombSuffixes, ombMillis),
	}
	for i := range out.PublishRate {
		out.Seconds = append(out.Seconds, period.Seconds()*float64(i+1))
	}
	return out
}

func settingsOfOMB(f *fields) []Setting {
	return f.settings("messageSize", "topics", "partitions", "producersPerTopic", "consumersPerTopic")
}

// settings gives those of the named fields that are there and say something.
func (f *fields) settings(names ...string) []Setting {
	var out []Setting
	for _, name := range names {
		if value := string(f.raw[name]); !slices.Contains([]string{"", "null", "{}", "[]", `""`}, value) {
			out = append(out, Setting{Name: name, Effective: strings.Trim(value, `"`)})
		}
	}
	return out
}

// perfPeriodic and perfTotal are the ends of the performance test's names of latencies, in the same order.
var (
	perfPeriodic = [8]string{"MeanMicros", "50thMicros", "75thMicros", "95thMicros", "99thMicros", "999thMicros", "9999thMicros", "MaxMicros"}
	perfTotal    = [8]string{
		"MeanTotalMicros", "50thTotalMicros", "75thTotalMicros", "95thTotalMicros", "99thTotalMicros", "999thTotalMicros", "9999thTotalMicros", "MaxTotalMicros",
	}
)

const perfMicros = 1e-3

// figuresOfPerf reads a result of the performance test: `freshet-bench perf` and the tool whose format that is.
func figuresOfPerf(f *fields) Figures {
	out := Figures{
		Format: formatPerf, Seconds: f.list("timeSecs"),
		PublishRate: f.list("produceRate"), PublishErrorRate: f.list("errorRate"), ConsumeRate: f.list("consumeRate"),
		Backlog:       f.backlog("backlog"),
		Publish:       f.latencies("produceLatency", perfPeriodic, perfMicros),
		EndToEnd:      f.latencies("endToEndLatency", perfPeriodic, perfMicros),
		PublishTotal:  f.latency("produceLatency", perfTotal, perfMicros),
		EndToEndTotal: f.latency("endToEndLatency", perfTotal, perfMicros),
	}
	if rate := f.number("produceRateTotal"); rate > 0 {
		out.MessageBytes = f.number("produceThroughputTotalBps") / rate
	}
	return out
}
