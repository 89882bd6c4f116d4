package writer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/writer"
)

// TestWriter_AGapBehindALostBatch: what is behind a batch that its client was told to send again does not wait for that as
// long as for others, since some clients wait for this answer first.
func TestWriter_AGapBehindALostBatch(t *testing.T) {
	const a, b = 7, 8
	for name, tt := range map[string]struct {
		lost   func(r *rig) // before the gap is there
		later  func(r *rig) // 500 ms after it came
		within time.Duration
	}{
		"lost before":           {func(r *rig) { r.Lost(a) }, func(*rig) {}, 1500 * time.Millisecond},
		"lost after":            {func(*rig) {}, func(r *rig) { r.Lost(a) }, 2 * time.Second},
		"lost before and after": {func(r *rig) { r.Lost(a) }, func(r *rig) { r.Lost(a) }, 1500 * time.Millisecond},
		"another producer's":    {func(r *rig) { r.Lost(b) }, func(*rig) {}, 0},
		"long ago":              {func(r *rig) { r.Lost(a); <-time.After(100 * time.Second) }, func(*rig) {}, 0},
		"a minute before":       {func(r *rig) { r.Lost(a); <-time.After(time.Minute) }, func(*rig) {}, 1500 * time.Millisecond},
		"among more than is kept": {func(r *rig) {
			for producer := range int64(100_000) {
				r.Lost(100 + producer)
			}
			r.Lost(a)
		}, func(*rig) {}, 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				tt.lost(r)
				began := time.Now()
				late := r.add(batchOf(0, 300, 1, a, 1))
				<-time.After(500 * time.Millisecond)
				tt.later(r)
				require.ErrorIs(t, r.result(late).Err, writer.ErrGap)
				if tt.within == 0 {
					require.Greater(t, time.Since(began), 5*time.Second)
				} else {
					require.Greater(t, time.Since(began), time.Second, "a client that sends again at once has time for it")
					require.LessOrEqual(t, time.Since(began), tt.within)
				}
				require.Zero(t, r.accepted(r.add(batchOf(0, 300, 1, a, 0))))
				require.NoError(t, r.result(r.add(batchOf(0, 300, 1, a, 1))).Err)
			})
		})
	}
}

// TestWriter_ALostBatchThatComesAgain closes the gap as any other does.
func TestWriter_ALostBatchThatComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		const a = 7
		lost := batchOf(0, 300, 1, a, 0)
		r.Lost(a)
		late := r.add(batchOf(0, 300, 1, a, 1))
		<-time.After(700 * time.Millisecond)
		require.Zero(t, r.accepted(r.add(lost)))
		require.EqualValues(t, 1, r.accepted(late))
	})
}
