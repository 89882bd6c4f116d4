package view

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/view/viewtest"
	"github.com/freshet-io/freshet/metadata/extent"
)

// tryPlan plans within a second.
func tryPlan(t *testing.T, p *Partitions, wants ...Want) ([]Plan, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	plans := make([]Plan, len(wants))
	return plans, p.Plan(ctx, wants, plans)
}

func TestPartitions_StaleServesRecordsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		o.Commit(tp0, ext(1, 5), ext(2, 5))
		o.Commit(tp1, ext(3, 5))
		p, s := open(t, o, Config{})
		before := plan(t, p, tp0, 0)
		s.Cut()
		synctest.Wait()
		o.Commit(tp0, ext(4, 5))

		began := time.Now()
		plans, err := tryPlan(t, p, Want{Partition: tp0, Offset: 7})
		require.NoError(t, err)
		require.Zero(t, time.Since(began), "nobody is asked")
		require.Equal(t, Plan{Stale: true, Live: true, Marks: before.Marks, End: 10, Extents: before.Extents[1:]}, plans[0])
		require.False(t, plans[0].FreshFor(began.Add(-time.Hour)))

		for name, w := range map[string]Want{
			"at the end": {Partition: tp0, Offset: 10}, "beyond it": {Partition: tp0, Offset: 11},
			"below the log start": {Partition: tp0, Offset: -1}, "never heard of": {Partition: tp1},
		} {
			_, err = tryPlan(t, p, w)
			require.Error(t, err, name)
			plans, err = tryPlan(t, p, w, Want{Partition: tp0, Offset: 2})
			require.NoError(t, err, name)
			require.Equal(t, Plan{Away: true}, plans[0], name)
			require.True(t, plans[1].Stale)
		}

		s.Mend()
		synctest.Wait()
		plans, err = tryPlan(t, p, Want{Partition: tp0, Offset: 7}, Want{Partition: tp1})
		require.NoError(t, err)
		require.False(t, plans[0].Stale)
		require.EqualValues(t, 15, plans[0].Marks.HighWatermark)
		require.Len(t, plans[1].Extents, 1)
		o.Commit(tp0, ext(5, 5))
		synctest.Wait()
		require.EqualValues(t, 20, plan(t, p, tp0, 7).Marks.HighWatermark, "notices come again")
	})
}

func TestPartitions_StaleCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		write(o, 0, 0)
		write(o, 1, 0)
		a := abort(o, 2, 1, 7, 0)
		p, s := open(t, o, Config{})
		planCommitted(t, p, 0)
		s.Cut()
		synctest.Wait()
		abort(o, 3, 4, 8, 1) // nobody is told
		got := planCommitted(t, p, 0)
		require.True(t, got.Stale)
		require.EqualValues(t, 1, got.End)
		require.Equal(t, []extent.Aborted{a}, got.Aborted)
		_, err := tryPlan(t, p, Want{Partition: tp0, Offset: 1, Committed: true})
		require.Error(t, err, "how the transaction ended is not known")
		require.True(t, plan(t, p, tp0, 1).Stale)
	})
}

func TestPartitions_StaleForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		o.Commit(tp0, ext(1, 5))
		p, s := open(t, o, Config{StaleFor: 10 * time.Minute})
		plan(t, p, tp0, 0)
		pass(20 * time.Second)
		o.Commit(tp1, ext(2, 5))
		require.NoError(t, p.Confirm(t.Context())) // as new as that
		known := time.Now()
		pass(20 * time.Second)
		plan(t, p, tp0, 0)
		s.Cut()
		for time.Since(known) < 10*time.Minute {
			pass(30 * time.Second)
			if time.Since(known) < 10*time.Minute {
				require.True(t, plan(t, p, tp0, 0).Stale, "%s", time.Since(known))
			}
		}
		got, err := tryPlan(t, p, Want{Partition: tp0})
		require.Error(t, err, "%s %+v", time.Since(known), got)
		require.Zero(t, p.extents.Load(), "too old to keep")
	})
}

// A stream that is there again without an answer, an object that is gone, and a topic that is.
func TestPartitions_StaleUntilAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		o.Commit(tp0, ext(1, 5))
		o.Commit(tp1, ext(2, 5))
		p, s := open(t, o, Config{})
		plan(t, p, tp0, 0)
		plan(t, p, tp1, 0)
		s.Break()
		synctest.Wait()
		s.Hold()
		began := time.Now()
		plans, err := tryPlan(t, p, Want{Partition: tp0})
		require.NoError(t, err)
		require.True(t, plans[0].Stale)
		require.Equal(t, time.Second, time.Since(began), "the owner was asked first")

		p.Invalidate(tp0)
		plans, err = tryPlan(t, p, Want{Partition: tp0}, Want{Partition: tp1})
		require.NoError(t, err)
		require.True(t, plans[0].Away)
		require.True(t, plans[1].Stale)

		o.DeleteTopic(topicA)
		s.Resume()
		synctest.Wait()
		require.True(t, plan(t, p, tp1, 0).Unknown)
		s.Cut()
		synctest.Wait()
		_, err = tryPlan(t, p, Want{Partition: tp1})
		require.Error(t, err, "what was known is forgotten")
	})
}

// Readers of a partition that is being looked up when the stream breaks do not wait for that.
func TestPartitions_StaleWhileLookingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		o.Commit(tp0, ext(1, 5))
		p, s := open(t, o, Config{})
		plan(t, p, tp0, 0)
		s.Break()
		synctest.Wait()
		s.Hold()
		asking := make(chan error)
		go func() {
			_, err := tryPlan(t, p, Want{Partition: tp0, Offset: 5})
			asking <- err
		}()
		synctest.Wait()
		s.Cut()
		s.Resume()
		synctest.Wait()
		began := time.Now()
		plans, err := tryPlan(t, p, Want{Partition: tp0})
		require.NoError(t, err)
		require.True(t, plans[0].Stale)
		require.Zero(t, time.Since(began))
		require.Error(t, <-asking)
		s.Mend()
		synctest.Wait()
		require.False(t, plan(t, p, tp0, 0).Stale)
	})
}

var _ viewtest.Handler = both{}
