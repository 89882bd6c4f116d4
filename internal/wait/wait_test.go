package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/wait"
)

func TestFor(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration // of the context; 0 means none
		ended   bool          // the context, before the call
		d       time.Duration
		took    time.Duration
		err     error
	}{
		{name: "waits for the whole duration", d: time.Hour, took: time.Hour},
		{name: "returns when the context ends first", timeout: time.Minute, d: time.Hour, took: time.Minute, err: context.DeadlineExceeded},
		{name: "returns at once when the context has ended", ended: true, d: time.Hour, err: context.Canceled},
		{name: "zero does not wait"},
		{name: "a negative duration does not wait", d: -time.Hour},
		{name: "zero reports that the context has ended", ended: true, err: context.Canceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.timeout > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, c.timeout)
					defer stop()
				}
				if c.ended {
					cancel(errors.New("a cause, which For does not return"))
				}
				began := time.Now()
				err := wait.For(ctx, c.d)
				require.Equal(t, c.err, err)
				require.Equal(t, c.took, time.Since(began))
			})
		})
	}
}

func TestAlign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble's clock begins at a full second
		time.Sleep(30 * time.Millisecond)
		for d, want := range map[time.Duration]time.Duration{
			0:                     70 * time.Millisecond,
			70 * time.Millisecond: 70 * time.Millisecond,
			71 * time.Millisecond: 170 * time.Millisecond,
		} {
			require.Equal(t, want, wait.Align(d, 100*time.Millisecond), d)
		}
		time.Sleep(70 * time.Millisecond)
		require.Zero(t, wait.Align(0, 100*time.Millisecond))
	})
}
