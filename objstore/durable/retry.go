package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/freshet-io/freshet/internal/wait"
	"github.com/freshet-io/freshet/objstore"
)

const (
	// firstPause is the pause after the first failed attempt. It doubles from there, with jitter of a half.
	firstPause = 50 * time.Millisecond
	// maxPause bounds the pause.
	maxPause = 2 * time.Second
	// throttlePause is the least pause after ErrThrottled.
	throttlePause = 500 * time.Millisecond
)

// retry makes attempts until one succeeds, the policy's bounds are reached, or ctx ends.
func (p Policy) retry(ctx context.Context, what string, attempt func(context.Context) error) error {
	r := retries{policy: p}
	pauses := &backoff.ExponentialBackOff{
		InitialInterval: firstPause, MaxInterval: maxPause, Multiplier: 2, RandomizationFactor: 0.5,
	}
	pauses.Reset()
	for {
		err := r.bounded(ctx, attempt)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w, last attempt: %w (%w)", what, ctx.Err(), err, objstore.ErrOutcomeUnknown)
		}
		if !r.retriable(err) {
			return err // which names what and the key itself
		}
		pause := pauses.NextBackOff()
		if errors.Is(err, objstore.ErrThrottled) {
			pause = max(pause, throttlePause)
		}
		if p.OnRetry != nil {
			p.OnRetry(err, pause)
		}
		if wait.For(ctx, pause) != nil {
			return fmt.Errorf("%s: %w, last attempt: %w (%w)", what, ctx.Err(), err, objstore.ErrOutcomeUnknown)
		}
	}
}

// retries are the failed attempts at one request so far.
type retries struct {
	policy    Policy
	attempts  int
	checksums int // ErrChecksum answers
}

// bounded makes one attempt; one that is cut short has an unknown outcome.
func (r *retries) bounded(ctx context.Context, attempt func(context.Context) error) error {
	r.attempts++
	ctx, cancel := context.WithTimeout(ctx, r.policy.AttemptTimeout)
	defer cancel()
	err := attempt(ctx)
	if err != nil && ctx.Err() != nil && !errors.Is(err, objstore.ErrOutcomeUnknown) {
		return fmt.Errorf("%w (%w)", err, objstore.ErrOutcomeUnknown)
	}
	return err
}

func (r *retries) retriable(err error) bool {
	if r.policy.MaxAttempts > 0 && r.attempts >= r.policy.MaxAttempts {
		return false
	}
	if errors.Is(err, objstore.ErrChecksum) {
		r.checksums++
		return r.checksums == 1
	}
	return errors.Is(err, objstore.ErrConflict) || errors.Is(err, objstore.ErrThrottled) ||
		errors.Is(err, objstore.ErrOutcomeUnknown)
}
