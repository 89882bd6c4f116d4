package omb

import (
	"context"
	"time"

	"github.com/freshet-io/freshet/internal/wait"
)

const (
	buildPoll = time.Second
	drainPoll = 100 * time.Millisecond
)

// backlog stops the consumers until enough has gathered, lets them catch up, and then lets the test go on for its
// length once more. It takes as long as it takes; the periods show how far it is.
func (f *flow) backlog(ctx context.Context) error {
	f.con.say("Stopping all consumers to build backlog")
	began := time.Now()
	if err := f.worker.PauseConsumers(ctx); err != nil {
		return err
	}
	size := f.w.backlogBytes()
	if err := f.until(ctx, buildPoll, func(behind int64) bool { return float64(behind)*float64(f.w.MessageSize) >= size }); err != nil {
		return err
	}
	f.con.say("--- Completed backlog build in %.1f s ---", time.Since(began).Seconds())
	f.con.say("--- Start draining backlog ---")
	began = time.Now()
	if err := f.worker.ResumeConsumers(ctx); err != nil {
		return err
	}
	if err := f.until(ctx, drainPoll, func(behind int64) bool { return behind <= f.w.drained() }); err != nil {
		return err
	}
	f.con.say("--- Completed backlog draining in %.1f s ---", time.Since(began).Seconds())
	if err := wait.For(ctx, f.w.Test()); err != nil {
		return err
	}
	f.draining.Store(false)
	return nil
}

// until polls how many messages all subscriptions together are behind.
func (f *flow) until(ctx context.Context, every time.Duration, enough func(behind int64) bool) error {
	for {
		c, err := f.worker.Counters(ctx)
		if err != nil {
			return err
		}
		if enough(int64(f.w.SubscriptionsPerTopic)*c.Sent - c.Received) {
			return nil
		}
		if err := wait.For(ctx, every); err != nil {
			return err
		}
	}
}
