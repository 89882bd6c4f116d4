package view

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/view/viewtest"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/extent"
)

func planCommitted(t *testing.T, p *Partitions, offset int64) Plan {
	t.Helper()
	plans := make([]Plan, 1)
	require.NoError(t, p.Plan(t.Context(), []Want{{Partition: tp0, Offset: offset, Committed: true}}, plans))
	return plans[0]
}

// write appends one record of an open transaction.
func write(o *viewtest.Owner, offset, stable int64) {
	e := ext(uint64(offset+1), 1)
	e.Base, e.Last = offset, offset
	o.Write(tp0, stable, nil, e)
}

// abort ends a transaction at an offset.
func abort(o *viewtest.Owner, offset, stable, producer, first int64) extent.Aborted {
	a := extent.Aborted{ProducerID: producer, First: first, Last: offset}
	o.Write(tp0, stable, []extent.Aborted{a}, extent.NewMarker(offset, 1, extent.EndMarker{ProducerID: producer}))
	return a
}

func TestPartitions_AbortedFollowNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		write(o, 0, 0) // of 7
		write(o, 1, 0) // of 8
		early := abort(o, 2, 1, 7, 0)
		p, _ := open(t, o, Config{})
		got := planCommitted(t, p, 0)
		require.Equal(t, []extent.Aborted{early}, got.Aborted)
		require.EqualValues(t, 1, got.End)
		require.Empty(t, planCommitted(t, p, 1).Extents, "nothing is to be read at the last stable offset")
		require.Nil(t, plan(t, p, tp0, 0).Aborted, "who reads all is not told")
		require.EqualValues(t, 3, plan(t, p, tp0, 0).End)

		late := abort(o, 3, 4, 8, 1)
		synctest.Wait()
		require.Equal(t, []extent.Aborted{early, late}, planCommitted(t, p, 0).Aborted)
		require.Equal(t, []extent.Aborted{early, late}, planCommitted(t, p, 2).Aborted)
		require.Equal(t, []extent.Aborted{late}, planCommitted(t, p, 3).Aborted)
		require.Len(t, got.Aborted, 1, "a plan does not change")
		require.Equal(t, 1, lookups(o))
	})
}

// A look-up of what is behind the window knows of no transaction that ended after it: what it gave is not read beyond
// the last stable offset that it had, whatever that is by now.
func TestPartitions_RunsEndWhereTheyWereStable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		write(o, 0, 1)
		write(o, 1, 1) // of 7, long open
		for i := range int64(6) {
			write(o, 2+i, 1)
		}
		p, _ := open(t, o, Config{LookupExtents: 4})
		require.Len(t, planCommitted(t, p, 0).Extents, 4) // more follow: the window begins at the end
		require.Equal(t, 1, lookups(o))
		require.Len(t, planCommitted(t, p, 0).Extents, 4)
		require.Equal(t, 1, lookups(o))

		a := abort(o, 8, 9, 7, 1)
		synctest.Wait()
		got := planCommitted(t, p, 0)
		require.EqualValues(t, 9, got.Marks.LastStable)
		require.EqualValues(t, 1, got.End, "the abort is not in what was looked up")
		require.Nil(t, got.Aborted)
		require.Equal(t, 1, lookups(o))
		plan(t, p, tp0, 1)
		require.Equal(t, 1, lookups(o), "all records are known")

		got = planCommitted(t, p, 1)
		require.Equal(t, 2, lookups(o))
		require.Equal(t, []extent.Aborted{a}, got.Aborted)
		require.EqualValues(t, 9, got.End)
		require.Equal(t, []extent.Aborted{a}, planCommitted(t, p, 1).Aborted)
		require.Equal(t, 2, lookups(o))
	})
}

// A reader that stands at the last stable offset, far behind the window, needs no look-up to know it.
func TestPartitions_LongTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		write(o, 0, 0)
		p, _ := open(t, o, Config{WindowExtents: 2})
		planCommitted(t, p, 0)
		for i := range int64(5) {
			write(o, 1+i, 0)
		}
		synctest.Wait()
		require.Empty(t, planCommitted(t, p, 0).Extents)
		require.Equal(t, 1, lookups(o))
	})
}

func TestPartitions_AbortedGoWithTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		p, _ := open(t, o, Config{WindowExtents: 4})
		plan(t, p, tp0, 0)
		for i := range int64(10) {
			write(o, 2*i, 2*i)
			abort(o, 2*i+1, 2*i+2, i, 2*i)
		}
		synctest.Wait()
		require.EqualValues(t, 4+2, p.extents.Load())
		require.Len(t, planCommitted(t, p, 16).Aborted, 2)
		require.Len(t, planCommitted(t, p, 0).Aborted, 10, "by look-up")
	})
}

func TestPartitions_WaitersForCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		p, _ := open(t, o, Config{})
		write(o, 0, 0)
		seen := plan(t, p, tp0, 0).Marks
		few, many, all := NewWaiter(1, true), NewWaiter(250, true), NewWaiter(150, false)
		for _, w := range []*Waiter{few, many, all} {
			p.Park(w, tp0, seen)
			defer p.Leave(w, tp0)
		}
		ready := func(w *Waiter) bool {
			synctest.Wait()
			select {
			case <-w.Ready():
				return true
			default:
				return false
			}
		}
		write(o, 1, 0)
		require.False(t, ready(few), "not committed")
		require.False(t, ready(all))
		write(o, 2, 0)
		require.True(t, ready(all))
		require.False(t, ready(many))
		abort(o, 3, 2, 7, 0)
		require.True(t, ready(few))
		require.False(t, ready(many), "200 bytes")
		o.Change(tp0, func(p *viewtest.Partition) { p.LastStable = 3 })
		require.True(t, ready(many))
	})
}

func TestPartitions_AbortedOutOfPlace(t *testing.T) {
	marker := extent.NewMarker(5, 1, extent.EndMarker{})
	for name, aborted := range map[string][]*api.AbortedTransaction{
		"before the extents":    {{First: 1, Last: 4}},
		"after the extents":     {{First: 1, Last: 6}},
		"ends before it begins": {{First: 6, Last: 5}},
		"twice":                 {{First: 1, Last: 5}, {First: 1, Last: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := owner()
				o.Commit(tp0, ext(1, 5))
				p, _ := open(t, o, Config{})
				plan(t, p, tp0, 0)
				p.OnNotice(&api.Notice{Index: 100, Partitions: []*api.PartitionNotice{{
					Topic: tp0.Topic[:], HighWatermark: 6, LastStable: 6, Aborted: aborted,
					Extents: extent.AppendList(nil, []extent.Extent{marker}),
				}}})
				plan(t, p, tp0, 0)
				require.Equal(t, 2, lookups(o), "the window was dropped")
			})
		})
	}
}
