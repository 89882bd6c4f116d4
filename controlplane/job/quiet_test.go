package job_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTenure_RestsWhileQuiet: rounds become rare once the state has been as it was for a minute, and the next change ends the rest.
func TestTenure_RestsWhileQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, small)
		session := w.agent()
		topic := w.topic(1, 1)
		r := w.own(session)
		defer r.stop()
		rounds := func(d time.Duration) int {
			r.mu.Lock()
			r.still = true
			before := r.reads
			r.mu.Unlock()
			w.pass(d)
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.reads - before
		}
		require.InDelta(t, 6, rounds(time.Minute), 1)
		rounds(time.Minute)
		require.InDelta(t, 10, rounds(10*time.Minute), 1)
		for range 4 {
			w.commit(session, 100, tp(topic, 0))
		}
		r.Applied(nil, 0, nil)
		require.Equal(t, 1, rounds(3*time.Second))
		require.Len(t, r.plans(), 1)
	})
}
