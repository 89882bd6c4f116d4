package omb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/bench/worker"
	"github.com/freshet-io/freshet/internal/wait"
)

// load sends, warms up and measures. Rate and backlog are seen to by goroutines of aside, which asideCtx ends.
func (f *flow) load(ctx, asideCtx context.Context, aside *errgroup.Group, payload worker.Payload) error {
	curve, err := f.w.Curve()
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := f.worker.Period(ctx); err != nil { // what came before is not part of the first period
		return err
	}
	if err := f.worker.StartLoad(ctx, worker.Load{Rate: f.firstRate(curve, began), Keys: f.w.KeyDistributor, Payload: payload}); err != nil {
		return err
	}
	switch {
	case curve != nil:
		aside.Go(func() error { return f.follow(asideCtx, curve, began) })
	case f.w.ProducerRate == 0:
		aside.Go(func() error { return f.search(asideCtx) })
	}
	if f.w.Warmup() > 0 {
		f.con.say("----- Starting warm-up traffic (%.4gm) ------", f.w.WarmupDurationMinutes)
		if err := f.measure(ctx, asideCtx, "warm-up", f.w.Warmup(), nil); err != nil {
			return err
		}
	}
	if f.w.ConsumerBacklogSizeGB > 0 {
		f.draining.Store(true)
		aside.Go(func() error { return f.backlog(asideCtx) })
	}
	if err := f.worker.ResetLatencies(ctx); err != nil {
		return err
	}
	f.con.say("----- Starting benchmark traffic (%.4gm)------", f.w.TestDurationMinutes)
	f.outcome.Began = time.Now()
	f.outcome.Result = f.emptyResult()
	return f.measure(ctx, asideCtx, "test", f.w.Test(), &f.outcome.Result)
}

// firstRate gives the rate that the load starts with, in messages/s.
func (f *flow) firstRate(curve *Curve, began time.Time) float64 {
	switch {
	case curve != nil:
		return curve.At(began, began)
	case f.w.ProducerRate == 0:
		return startRate
	}
	return f.w.ProducerRate
}

// follow lets the rate follow a curve. What is overdue stays so.
func (f *flow) follow(ctx context.Context, curve *Curve, began time.Time) error {
	for {
		if err := wait.For(ctx, curvePeriod); err != nil {
			return err
		}
		if err := f.worker.SetRate(ctx, worker.RateChange{Rate: curve.At(began, time.Now())}); err != nil {
			return err
		}
	}
}

// search looks for the highest rate, all through the test.
func (f *flow) search(ctx context.Context) error {
	control, now, last := newRateControl(), float64(startRate), time.Now()
	for {
		if err := wait.For(ctx, searchPeriod); err != nil {
			return err
		}
		c, err := f.worker.Counters(ctx)
		if err != nil {
			return err
		}
		period := time.Since(last)
		last = last.Add(period)
		now = control.next(now, period, c.Sent, c.Received/int64(max(1, f.w.SubscriptionsPerTopic)))
		if err := f.worker.SetRate(ctx, worker.RateChange{Rate: now, Restart: true}); err != nil {
			return err
		}
	}
}

// measure prints a line for each period, and adds it to the result if there is one, until the time is over and no
// backlog is waited for. It ends too when what runs aside does, which only errors make it do.
func (f *flow) measure(ctx, asideCtx context.Context, name string, length time.Duration, into *Result) error {
	f.con.begin(name, length)
	defer f.con.end()
	start := time.Now()
	for at := start; ; {
		at = f.nextPeriod(start, at, length)
		if err := f.await(asideCtx, start, at); err != nil {
			return err
		}
		p, err := f.worker.Period(ctx)
		if err != nil {
			return err
		}
		backlog := max(0, int64(f.w.SubscriptionsPerTopic)*p.Totals.Sent-p.Totals.Received)
		f.con.say("%s", periodLine(p, backlog))
		if p.LastError != "" {
			f.con.say("last error of this period: %s", p.LastError)
		}
		if into != nil {
			into.add(p, backlog)
			if p.CPU.Share > f.outcome.CPU.Share {
				f.outcome.CPU = p.CPU
			}
		}
		if length > 0 && time.Since(start) >= length && !f.draining.Load() {
			return nil
		}
	}
}

// nextPeriod gives the end of the period after at. The last one is up to half longer or shorter than the others, so that
// the test ends when it should.
func (f *flow) nextPeriod(start, at time.Time, length time.Duration) time.Time {
	next, end := at.Add(f.w.Interval()), start.Add(length)
	if length > 0 && at.Before(end) && end.Sub(next) < f.w.Interval()/2 {
		return end
	}
	return next
}

// await waits until a time, and moves the bar meanwhile.
func (f *flow) await(ctx context.Context, start, until time.Time) error {
	for {
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		if err := wait.For(ctx, min(left, time.Second)); err != nil {
			return err
		}
		f.con.reach(time.Since(start))
	}
}

// conclude takes the totals, ends the load, and waits a while for what was sent to arrive.
func (f *flow) conclude(ctx context.Context) error {
	f.outcome.Ended = time.Now()
	total, err := f.worker.Cumulative(ctx)
	if err != nil {
		return err
	}
	f.outcome.Result.aggregate(total)
	for _, line := range totalLines(total) {
		f.con.say("%s", line)
	}
	err = f.worker.StopLoad(ctx)
	waiting, cancel := context.WithTimeout(ctx, lastWait)
	defer cancel()
	for {
		var counted error
		if f.outcome.Totals, counted = f.worker.Counters(ctx); counted != nil {
			return errors.Join(err, counted)
		}
		missing := f.outcome.Totals.Sent*int64(f.w.SubscriptionsPerTopic) - f.outcome.Totals.Received
		if missing <= 0 || wait.For(waiting, readyPoll) != nil {
			f.judge(missing)
			return err
		}
	}
}

// judge warns of what makes figures doubtful.
func (f *flow) judge(missing int64) {
	t := f.outcome.Totals
	switch {
	case missing > 0:
		f.warn(fmt.Sprintf("%d of %d messages were not received within %v after the test", missing, t.Sent*int64(f.w.SubscriptionsPerTopic), lastWait))
	case missing < 0 && f.w.SubscriptionsPerTopic > 0:
		f.warn(fmt.Sprintf("%d messages more were received than were acknowledged", -missing))
	}
	if t.Failed > 0 {
		f.warn(fmt.Sprintf("%d messages failed", t.Failed))
	}
	if warning := f.outcome.CPU.Warning(); warning != "" {
		f.warn(warning)
	}
	if achieved := mean(f.outcome.Result.PublishRate); f.w.ProducerRate > 0 && f.w.ProducerRateList == nil && achieved < keptShare*f.w.ProducerRate {
		f.warn(fmt.Sprintf("the schedule could not be kept: %.1f messages/s of %.1f were published; publish delay shows by how much they were late",
			achieved, f.w.ProducerRate))
	}
	f.con.say("Sent %d messages, %d failed, %d received", t.Sent, t.Failed, t.Received)
}

// keptShare is the part of the intended rate from which a schedule counts as kept.
const keptShare = 0.98

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}
