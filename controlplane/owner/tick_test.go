package owner_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
)

// tick proposes a Tick and reports whether it was logged. Readers see the time of every Tick.
func (f *fixture) tick(t *testing.T) (logged bool) {
	t.Helper()
	before := f.tenure.Total()
	_, index, err := f.Propose(t.Context(), &metadata.Tick{})
	require.NoError(t, err)
	read, err := f.Read(func(s *metadata.State) { require.Equal(t, time.Now().UnixMilli(), s.Now()) })
	require.NoError(t, err)
	require.Equal(t, read, index)
	frozen, err := f.Freeze(nil)
	require.NoError(t, err)
	require.Equal(t, time.Now().UnixMilli(), frozen.Now())
	return f.tenure.Total() > before
}

// An idle owner logs a Tick once an hour. With work to come, it logs the first Tick after the work is due.
func TestOwner_LogsTicksThatAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		end := f.run(t)
		require.True(t, f.tick(t), "the log's time may be old")
		for range 359 {
			time.Sleep(10 * time.Second)
			require.False(t, f.tick(t))
		}
		time.Sleep(10 * time.Second)
		require.True(t, f.tick(t), "an hour without an entry")

		init := &metadata.InitTransaction{TransactionalID: "x", TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1}
		result, _, err := f.Propose(t.Context(), init)
		require.NoError(t, err)
		p := result.Value.(metadata.InitTransactionResult)
		ref := metadata.TransactionRef{TransactionalID: "x", ProducerID: p.ProducerID, Epoch: p.Epoch, Version: metadata.ProtocolTwo}
		result, _, err = f.Propose(t.Context(), &metadata.AddOffsets{TransactionRef: ref, Group: "g"})
		require.NoError(t, err)
		require.NoError(t, result.Err)
		ongoing := func() (open bool) {
			_, err := f.Read(func(s *metadata.State) {
				x, _ := s.Transaction("x")
				open = x.State == metadata.TransactionOngoing
			})
			require.NoError(t, err)
			return open
		}
		for range 6 {
			time.Sleep(10 * time.Second)
			require.False(t, f.tick(t))
			require.True(t, ongoing())
		}
		time.Sleep(10 * time.Second)
		require.True(t, f.tick(t), "the transaction timed out")
		require.False(t, ongoing())

		time.Sleep(time.Minute)
		require.False(t, f.tick(t))
		skipped := time.Now().UnixMilli()
		_, _, err = f.Propose(t.Context(), topic(1))
		require.NoError(t, err)
		require.NoError(t, end())
		require.GreaterOrEqual(t, replay(t, f.log).Now(), skipped)
	})
}

// The clock of commands goes back below the time of a skipped Tick. No entry is older than what readers have seen.
func TestOwner_TimeOfSkippedTicksDoesNotGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := time.Minute
		f := start(t, func(c *owner.Config) { c.Now = func() time.Time { return time.Now().Add(ahead) } })
		end := f.run(t)
		_, _, err := f.Propose(t.Context(), &metadata.Tick{})
		require.NoError(t, err)
		time.Sleep(time.Second)
		_, _, err = f.Propose(t.Context(), &metadata.Tick{})
		require.NoError(t, err)
		seen := time.Now().Add(ahead).UnixMilli()
		ahead = 0
		_, _, err = f.Propose(t.Context(), topic(1))
		require.NoError(t, err)
		require.NoError(t, end())
		require.Equal(t, seen, replay(t, f.log).Now())
	})
}
