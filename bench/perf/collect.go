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

// reset begins to measure anew; behind is how many records groups have yet to receive.
func (t *test) reset(behind int64) {
	t.stats.ResetLatencies()
	t.base = t.stats.Snapshot().Totals
	t.behind = behind
	t.slow = load.CPUUse{}
	t.cpu.Use()
}

// backlog gives how many records groups have yet to receive.
func (t *test) backlog() int64 { return t.backlogAt(t.stats.Counters()) }

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
