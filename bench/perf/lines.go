package perf

import (
	"fmt"
	"strings"
)

// The numbers of lines, with widths that keep columns under each other as long as values stay within the ranges that the
// tool has in mind.
const (
	elapsedWidth = "%6.1f" // up to 9999.9 s
	rateWidth    = "%9.2f" // up to 999999.99 messages/s
	volumeWidth  = "%6.2f" // up to 999.99 MiB/s, thousands, millions or GiB
	latencyWidth = "%9.3f" // up to 99999.999 ms
)

const (
	gibibyte       = 1 << 30
	microsPerMilli = 1000.0
)

// periodLine is the line of one reporting interval; elapsed is in seconds since the phase began.
func periodLine(elapsed float64, p *period) string {
	return fmt.Sprintf(elapsedWidth+"s"+
		" | Prod rate "+rateWidth+" msg/s / "+volumeWidth+" MiB/s | Prod err "+rateWidth+" err/s"+
		" | Cons rate "+rateWidth+" msg/s / "+volumeWidth+" MiB/s | Backlog: "+volumeWidth+" K msg",
		elapsed, p.produceRate, p.produceBps/mebibyte, p.errorRate, p.consumeRate, p.consumeBps/mebibyte, float64(p.backlog)/1e3) +
		" | Prod Latency (ms) " + p.produce.short() + " | E2E Latency (ms) " + p.endToEnd.short()
}

// summaryLine is the line that ends a phase.
func summaryLine(t *totals) string {
	return fmt.Sprintf("Summary"+
		" | Prod rate "+rateWidth+" msg/s / "+volumeWidth+" MiB/s | Prod total "+volumeWidth+" M msg / "+volumeWidth+" GiB / "+volumeWidth+" K err"+
		" | Cons rate "+rateWidth+" msg/s / "+volumeWidth+" MiB/s | Cons total "+volumeWidth+" M msg / "+volumeWidth+" GiB",
		t.produceRate, t.produceBps/mebibyte, t.produced/1e6, t.producedBytes/gibibyte, t.failed/1e3,
		t.consumeRate, t.consumeBps/mebibyte, t.consumed/1e6, t.consumedBytes/gibibyte) +
		" | Prod Latency (ms) " + t.produce.long() + " | E2E Latency (ms) " + t.endToEnd.long()
}

// latencies are what lines and result tell of one histogram, in microseconds.
type latencies struct {
	mean, min, p50, p75, p90, p95, p99, p999, p9999, max float64
}

func (l *latencies) short() string {
	return columns([]column{{"avg", l.mean}, {"50%", l.p50}, {"99%", l.p99}, {"99.9%", l.p999}, {"Max", l.max}})
}

func (l *latencies) long() string {
	return columns([]column{
		{"avg", l.mean},
		{"50%", l.p50},
		{"75%", l.p75},
		{"90%", l.p90},
		{"95%", l.p95},
		{"99%", l.p99},
		{"99.9%", l.p999},
		{"99.99%", l.p9999},
		{"Max", l.max},
	})
}

type column struct {
	name   string
	micros float64
}

func columns(cs []column) string {
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = fmt.Sprintf("%s: "+latencyWidth, c.name, c.micros/microsPerMilli)
	}
	return strings.Join(parts, " - ")
}
