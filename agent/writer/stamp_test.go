package writer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/metadata/commit"
)

// answering is a prober that takes so long and knows index 99.
type answering time.Duration

func (a answering) Fresh(ctx context.Context) (uint64, error) {
	select {
	case <-time.After(time.Duration(a)):
		return 99, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// stamped is a batch of a transaction of the first protocol, whose stamp takes so long and may take 2 s.
func stamped(t *testing.T, takes time.Duration) writer.Batch {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	t.Cleanup(cancel)
	b := produce(0, 500, 7, 0)
	b.Commit.Transactional, b.Commit.TransactionVersion = true, 1
	b.Stamp = view.AskStamp(ctx, answering(takes))
	return b
}

// missed gives how often a stamp did not come in time.
func missed(t *testing.T, r *rig) float64 {
	t.Helper()
	families, err := r.reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "freshet_writer_waits_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == "stamps" {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatal("no such metric")
	return 0
}

// TestWriter_WithoutStampNothingIsPut: a request that waited for a session for longer than for its stamp is refused
// before it costs a PUT, and the next one is taken.
func TestWriter_WithoutStampNothingIsPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newIdleRig(t, nil)
		b := stamped(t, time.Hour)
		done := make(chan writer.Result, 1)
		go func() { done <- r.result(r.add(b)) }()
		<-time.After(3 * time.Second)
		r.OnWelcome(r.seq.open(t, "first"))
		got := <-done
		require.ErrorIs(t, got.Err, writer.ErrNoStamp)
		<-time.After(time.Second)
		require.Zero(t, r.bucket.count())
		require.InDelta(t, 1, missed(t, r), 0)
		r.accepted(r.add(plain(0, 100)))
	})
}

// TestWriter_StampsAreAwaitedAfterThePut: a stamp that is not there yet delays no PUT.
func TestWriter_StampsAreAwaitedAfterThePut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		began := time.Now()
		got := r.result(r.add(stamped(t, time.Second)))
		require.NoError(t, got.Err)
		require.Equal(t, commit.InvalidTxn, got.Outcome, "it was asked, and has no transaction")
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, 1, r.bucket.count())

		got = r.result(r.add(stamped(t, time.Hour)))
		require.ErrorIs(t, got.Err, writer.ErrNoStamp)
		require.Equal(t, 3*time.Second, time.Since(began))
		require.InDelta(t, 1, missed(t, r), 0)
		count, err := testutil.GatherAndCount(r.reg, "freshet_writer_stamp_seconds")
		require.NoError(t, err)
		require.Equal(t, 1, count)
	})
}
