package cli

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFirstAnswer: one waits for what tells, and for nothing else.
func TestFirstAnswer(t *testing.T) {
	const late = foreignAfter + 500*time.Millisecond // when the look is under way
	broken, foreign := errors.New("broken"), errors.New("foreign")
	for name, c := range map[string]struct {
		ask, look  time.Duration // what each takes
		asked, saw error
		want       error
		takes      time.Duration
	}{
		"an answer soon":                   {ask: 0, saw: foreign, want: nil, takes: 0},
		"an answer while it looks":         {ask: late, look: time.Hour, want: nil, takes: late},
		"an answer after the look":         {ask: time.Minute, look: time.Second, want: nil, takes: time.Minute},
		"foreign, and never an answer":     {ask: time.Hour, look: time.Second, asked: broken, saw: foreign, want: foreign, takes: foreignAfter + time.Second},
		"a failure soon, of a foreigner":   {ask: 0, look: time.Second, asked: broken, saw: foreign, want: foreign, takes: time.Second},
		"a failure while it looks":         {ask: late, look: time.Minute, asked: broken, saw: foreign, want: foreign, takes: foreignAfter + time.Minute},
		"a failure, and it is not foreign": {ask: late, look: time.Second, asked: broken, want: broken, takes: foreignAfter + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closed, hangUp := context.WithCancel(t.Context())
				defer hangUp()
				var running atomic.Int32
				takes := func(ctx context.Context, d time.Duration, err error) error {
					running.Add(1)
					defer running.Add(-1)
					select {
					case <-time.After(d):
					case <-ctx.Done():
					}
					return err
				}
				begin := time.Now()
				err := firstAnswer(t.Context(),
					func(context.Context) error { return takes(closed, c.ask, c.asked) },
					func(ctx context.Context) error { return takes(ctx, c.look, c.saw) }, hangUp)
				require.Equal(t, c.want, err)
				require.Equal(t, c.takes, time.Since(begin))
				require.Zero(t, running.Load(), "both have returned")
			})
		})
	}
}
