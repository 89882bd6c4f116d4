package perf

import (
	"context"
	"time"

	"github.com/freshet-io/freshet/bench/load"
)

// stop says whether a phase that took so long by now is over.
type stop func(elapsed time.Duration) bool

func lasting(d time.Duration) stop {
	return func(elapsed time.Duration) bool { return elapsed >= d }
}

// measureFrom begins to measure anew, with groups that have yet to receive so many records.
func (t *test) measureFrom(behind int64) {
	t.stats.ResetLatencies()
	t.base, t.behind = t.stats.Snapshot().Totals, behind
	t.slow = load.CPUUse{}
	t.cpu.Use()
}

// measureOn begins to measure anew, with groups as far behind as they are.
func (t *test) measureOn() {
	before, behind := t.base, t.behind
	t.measureFrom(0)
	sent, received := t.base.Sent-before.Sent, t.base.Received-before.Received
	t.behind = behind + int64(t.cfg.Groups)*sent - received
}

// backlogAt gives how many records groups have yet to receive. A record may be received before its acknowledgement is, so
// the difference can be below zero for a moment.
func (t *test) backlogAt(totals load.Counters) int64 {
	sent, received := totals.Sent-t.base.Sent, totals.Received-t.base.Received
	return max(0, t.behind+int64(t.cfg.Groups)*sent-received)
}

// collect prints a line every interval until the phase is over, then its summary.
func (t *test) collect(ctx context.Context, over stop) (*Result, error) {
	result := &Result{Config: t.cfg.settings(t.options.common), StartMs: time.Now().UnixMilli()}
	start := time.Now()
	ticker := time.NewTicker(t.cfg.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
		snapshot := t.stats.Snapshot()
		elapsed := time.Since(start)
		p := newPeriod(snapshot, t.backlogAt(snapshot.Totals))
		result.addPeriod(elapsed.Seconds(), p)
		t.say("%s", periodLine(elapsed.Seconds(), p))
		t.watch(snapshot.LastError)
		if over(elapsed) {
			t.summarize(result, snapshot.Totals, elapsed)
			return result, nil
		}
	}
}

// watch tells of errors and of a client that has too little CPU.
func (t *test) watch(lastError string) {
	if lastError != "" {
		t.say("warning: %s", lastError)
	}
	if use := t.cpu.Use(); use.Share > t.slow.Share {
		t.slow = use
	}
}

func (t *test) summarize(r *Result, totals load.Counters, elapsed time.Duration) {
	all := newTotals(load.Counters{
		Sent: totals.Sent - t.base.Sent, Failed: totals.Failed - t.base.Failed, BytesSent: totals.BytesSent - t.base.BytesSent,
		Received: totals.Received - t.base.Received, BytesReceived: totals.BytesReceived - t.base.BytesReceived,
	}, t.stats.Cumulative(), elapsed.Seconds())
	r.setTotals(all)
	t.say("%s", summaryLine(all))
}
