package omb

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/schollz/progressbar/v3"

	"github.com/freshet-io/freshet/bench/load"
	"github.com/freshet-io/freshet/bench/worker"
)

// console writes lines, and below them a progress bar. Safe for concurrent use.
type console struct {
	mu       sync.Mutex
	out      io.Writer
	progress io.Writer                // nil without a bar
	bar      *progressbar.ProgressBar // of the phase, in seconds; nil between phases
	endless  bool                     // the bar only shows that something goes on
}

// say writes a line.
func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bar != nil {
		_ = c.bar.Clear() // of a terminal; the line matters
	}
	fmt.Fprintf(c.out, format+"\n", args...)
}

// begin starts the bar of a phase; one without end spins.
func (c *console) begin(name string, length time.Duration) {
	if c.progress == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endless = length == 0
	seconds := int64(-1)
	if !c.endless {
		seconds = max(1, int64(length/time.Second))
	}
	c.bar = progressbar.NewOptions64(seconds,
		progressbar.OptionSetWriter(c.progress), progressbar.OptionSetDescription(name), progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30),
		progressbar.OptionSetRenderBlankState(true))
}

// reach moves the bar.
func (c *console) reach(elapsed time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.bar == nil:
	case c.endless:
		_ = c.bar.Add(1) // of a terminal
	default:
		_ = c.bar.Set64(min(int64(elapsed/time.Second), c.bar.GetMax64()-1)) // the end removes it
	}
}

// end removes the bar.
func (c *console) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bar != nil {
		_ = c.bar.Finish() // of a terminal
		c.bar = nil
	}
}

// padded is a number as the framework prints it: one decimal, and spaces before it up to a width.
func padded(v float64, width int) string {
	return fmt.Sprintf("%*s", width, strconv.FormatFloat(v, 'f', 1, 64))
}

func rate(v float64) string { return padded(v, 7) }

func dec(v float64) string { return padded(v, 4) }

// periodLine is the framework's line of a period.
func periodLine(p worker.Period, backlog int64) string {
	seconds := max(p.Elapsed.Seconds(), 1e-9)
	c, l := p.Counters, p.Latencies
	return fmt.Sprintf("Pub rate %s msg/s / %s MB/s | Pub err %s err/s | Cons rate %s msg/s / %s MB/s | Backlog: %s K | "+
		"Pub Latency (ms) %s | Pub Delay Latency (us) %s",
		rate(float64(c.Sent)/seconds), dec(float64(c.BytesSent)/seconds/(1<<20)), rate(float64(c.Failed)/seconds),
		rate(float64(c.Received)/seconds), dec(float64(c.BytesReceived)/seconds/(1<<20)), dec(float64(backlog)/1000),
		figures(l.Publish, 1000, 50, 99, 99.9), figures(l.PublishDelay, 1, 50, 99, 99.9))
}

// figures are the mean, percentiles and maximum of a histogram of microseconds.
func figures(h *hdrhistogram.Histogram, unit float64, percentiles ...float64) string {
	text := "avg: " + dec(h.Mean()/unit)
	for i, v := range h.ValueAtPercentilesSlice(percentiles) {
		text += fmt.Sprintf(" - %v%%: %s", percentiles[i], dec(float64(v)/unit))
	}
	return text + " - Max: " + dec(float64(h.Max())/unit)
}

// totalLines are the framework's line of all periods, and one of the same form for end to end, which it has not.
func totalLines(l load.Latencies) []string {
	shown := []float64{50, 95, 99, 99.9, 99.99}
	return []string{
		fmt.Sprintf("----- Aggregated Pub Latency (ms) %s | Pub Delay (us)  %s",
			figures(l.Publish, 1000, shown...), figures(l.PublishDelay, 1, shown...)),
		"----- Aggregated E2E Latency (ms) " + figures(l.EndToEnd, 1000, shown...),
	}
}
