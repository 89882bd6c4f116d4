package load

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// take takes n messages and gives their intended times after start.
func take(t *testing.T, r *Rate, start time.Time, n int) []time.Duration {
	t.Helper()
	var due []time.Duration
	for range n {
		at, err := r.Take(t.Context())
		require.NoError(t, err)
		due = append(due, at.Sub(start))
	}
	return due
}

func TestRate_MessagesAreDueOneIntervalApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := NewRate(4)
		require.Equal(t, []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond}, take(t, r, start, 3))
		require.Equal(t, 500*time.Millisecond, time.Since(start), "no message was handed out early")
	})
}

func TestRate_AfterAStallNothingIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := NewRate(10)
		take(t, r, start, 1)
		<-time.After(10 * time.Second)
		require.EqualValues(t, 99, r.Overdue())
		due := take(t, r, start, 100)
		require.Equal(t, 10*time.Second, time.Since(start), "what is overdue needs no waiting")
		require.Equal(t, 100*time.Millisecond, due[0])
		require.Equal(t, 10*time.Second, due[99])
		require.Zero(t, r.Overdue())
	})
}

func TestRate_SetKeepsWhatIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := NewRate(1)
		<-time.After(2500 * time.Millisecond)
		r.Set(1000)
		due := take(t, r, start, 5)
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, due[:3])
		require.Equal(t, 2500*time.Millisecond+500*time.Microsecond, due[3], "half of the third interval was over")
		require.Equal(t, 2500*time.Millisecond+1500*time.Microsecond, due[4])
	})
}

func TestRate_RestartForgetsWhatIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := NewRate(1000)
		<-time.After(time.Minute)
		r.Restart(2)
		require.Equal(t, []time.Duration{time.Minute, time.Minute + 500*time.Millisecond}, take(t, r, start, 2))
	})
}

func TestRate_AChangeWakesSenders(t *testing.T) {
	for name, change := range map[string]func(*Rate){
		"set": func(r *Rate) { r.Set(2) }, "restart": func(r *Rate) { r.Restart(2) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				r := NewRate(0)
				go func() {
					<-time.After(time.Hour)
					change(r)
				}()
				require.Equal(t, []time.Duration{time.Hour, time.Hour + 500*time.Millisecond}, take(t, r, start, 2))
			})
		})
	}
}

func TestRate_AVerySlowRateIsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := NewRate(1e-300)
		take(t, r, start, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := r.Take(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// A long run must not drift: the last message of ten hours is where it belongs.
func TestRate_DoesNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRate(760_000)
		r.taken = 10 * 3600 * 760_000
		start := time.Now()
		require.Equal(t, 10*time.Hour, take(t, r, start, 1)[0])
	})
}
