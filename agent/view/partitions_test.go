package view

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/view/viewtest"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

type both struct {
	*Catalogue
	*Partitions
}

// source lets the stream and the views know each other.
type source struct{ *viewtest.Session }

func open(tb testing.TB, o *viewtest.Owner, cfg Config) (*Partitions, *viewtest.Session) {
	tb.Helper()
	src := &source{}
	cfg.Source = src
	p, err := NewPartitions(cfg)
	require.NoError(tb, err)
	src.Session = o.Open(both{NewCatalogue(), p})
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan struct{}, 2)
	go func() { src.Run(ctx); done <- struct{}{} }()
	go func() { _ = p.Run(ctx); done <- struct{}{} }()
	tb.Cleanup(func() { cancel(); <-done; <-done })
	return p, src.Session
}

// pass lets time go by in the bubble.
func pass(d time.Duration) { <-time.After(d) }

var (
	topicA = id.Topic{0xa}
	tp0    = id.TopicPartition{Topic: topicA}
	tp1    = id.TopicPartition{Topic: topicA, Partition: 1}
)

func owner() *viewtest.Owner {
	o := viewtest.NewOwner()
	o.CreateTopic(topicA, "a", 2)
	return o
}

func ext(bundle uint64, records int64) extent.Extent {
	return extent.Extent{Bundle: id.Bundle(bundle), Last: records, Position: 24, Length: 100, Batches: 1}
}

func plan(t *testing.T, p *Partitions, tp id.TopicPartition, offset int64) Plan {
	t.Helper()
	plans := make([]Plan, 1)
	require.NoError(t, p.Plan(t.Context(), []Want{{Partition: tp, Offset: offset}}, plans))
	return plans[0]
}

func lookups(o *viewtest.Owner) (n int) {
	o.Count(func(o *viewtest.Owner) { n = o.Lookups })
	return n
}

func TestPartitions_WindowFollowsNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		o.Commit(tp0, ext(1, 5), ext(2, 5))
		p, _ := open(t, o, Config{})
		first := plan(t, p, tp0, 7)
		require.Equal(t, Watermarks{0, 10, 10}, first.Marks)
		require.Len(t, first.Extents, 1)
		require.True(t, first.Live)

		o.Commit(tp0, ext(3, 1))
		synctest.Wait()
		next := plan(t, p, tp0, 9)
		require.Len(t, next.Extents, 2)
		require.Equal(t, int64(10), next.Extents[1].Base)
		require.Len(t, first.Extents, 1, "a plan does not change")
		require.Equal(t, 1, lookups(o))

		// The front was not looked up: one more look-up, whose extents are kept for the next reader there.
		back := plan(t, p, tp0, 0)
		require.Len(t, back.Extents, 3)
		require.Equal(t, 2, lookups(o))
		require.Len(t, plan(t, p, tp0, 4).Extents, 3)
		require.Equal(t, 2, lookups(o))
	})
}

func TestPartitions_NoticeWhileLookingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		o.Commit(tp0, ext(1, 5))
		p, s := open(t, o, Config{})
		synctest.Wait()
		s.Hold()
		got := make(chan Plan)
		go func() { got <- plan(t, p, tp0, 0) }()
		synctest.Wait()
		o.Commit(tp0, ext(2, 5)) // its notice may be seen before the look-up's answer was taken
		other := make(chan Plan)
		go func() { other <- plan(t, p, tp0, 5) }()
		synctest.Wait()
		s.Resume()
		require.Equal(t, int64(5), (<-got).Marks.HighWatermark)
		<-other
		synctest.Wait()
		require.Len(t, plan(t, p, tp0, 5).Extents, 1)
		require.Equal(t, 1, lookups(o), "concurrent readers share a look-up")
	})
}

func TestPartitions_Disconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		p, s := open(t, o, Config{})
		seen := plan(t, p, tp0, 0)
		w := NewWaiter(1, false)
		p.Park(w, tp0, seen.Marks)
		defer p.Leave(w, tp0)
		s.Break()
		o.Commit(tp0, ext(1, 5)) // nobody is told
		<-w.Ready()
		synctest.Wait()
		require.Len(t, plan(t, p, tp0, 0).Extents, 1)
		require.Equal(t, 2, lookups(o))
	})
}

func TestPartitions_DisconnectWhileLookingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		p, s := open(t, o, Config{})
		synctest.Wait()
		s.Hold()
		got := make(chan Plan)
		go func() { got <- plan(t, p, tp0, 0) }()
		synctest.Wait()
		p.OnDisconnect()
		s.Resume()
		<-got
		plan(t, p, tp0, 0)
		require.Equal(t, 2, lookups(o), "an answer from before the break opens no window")
	})
}

func TestPartitions_Freshness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		p, s := open(t, o, Config{})
		require.True(t, plan(t, p, tp0, 0).FreshFor(time.Now()))
		pass(time.Second)
		arrived := time.Now()
		got := plan(t, p, tp0, 0)
		require.False(t, got.FreshFor(arrived))

		s.Hold()
		o.Commit(tp0, ext(1, 5))
		require.Error(t, p.Confirm(t.Context()), "a black hole confirms nothing")
		got = plan(t, p, tp0, 0)
		require.Empty(t, got.Extents)
		require.False(t, got.FreshFor(arrived))
		s.Resume()
		require.NoError(t, p.Confirm(t.Context()))
		got = plan(t, p, tp0, 0)
		require.True(t, got.FreshFor(arrived))
		require.Len(t, got.Extents, 1, "what is confirmed is in the plan")
	})
}

func TestPartitions_Waiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		p, _ := open(t, o, Config{})
		seen := plan(t, p, tp0, 0)
		plan(t, p, tp1, 0)
		w, elsewhere := NewWaiter(150, false), NewWaiter(1, false)
		p.Park(w, tp0, seen.Marks)
		p.Park(elsewhere, tp1, seen.Marks)
		defer p.Leave(w, tp0)
		defer p.Leave(elsewhere, tp1)
		ready := func(w *Waiter) bool {
			synctest.Wait()
			select {
			case <-w.Ready():
				return true
			default:
				return false
			}
		}
		require.False(t, ready(w))
		o.Commit(tp0, ext(1, 1))
		require.False(t, ready(w), "100 of 150 bytes")
		o.Commit(tp0, ext(2, 1))
		require.True(t, ready(w))
		require.False(t, ready(elsewhere), "a notice wakes only its partition's waiters")

		p.Park(w, tp0, seen.Marks)
		require.True(t, ready(w), "marks moved between plan and park")
	})
}

func TestPartitions_WindowBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		p, _ := open(t, o, Config{WindowExtents: 4, LookupExtents: 2})
		plan(t, p, tp0, 0)
		for i := range 10 {
			o.Commit(tp0, ext(uint64(i+1), 1))
		}
		synctest.Wait()
		require.Len(t, plan(t, p, tp0, 6).Extents, 4)
		require.Equal(t, 1, lookups(o))
		behind := plan(t, p, tp0, 3)
		require.False(t, behind.Live)
		require.Len(t, behind.Extents, 2)
		require.Equal(t, 2, lookups(o))

		o.Change(tp0, func(p *viewtest.Partition) { p.LogStart = 8 })
		synctest.Wait()
		low := plan(t, p, tp0, 6)
		require.Empty(t, low.Extents)
		require.Equal(t, int64(8), low.Marks.LogStart)
		require.Len(t, plan(t, p, tp0, 8).Extents, 2)
	})
}

func TestPartitions_GapVoidsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		p, _ := open(t, o, Config{})
		plan(t, p, tp0, 0)
		o.Commit(tp0, ext(1, 1))
		synctest.Wait()
		lost := ext(3, 1)
		lost.Base, lost.Last = 5, 6
		p.OnNotice(&api.Notice{Index: 99, Partitions: []*api.PartitionNotice{{
			Topic: topicA[:], HighWatermark: 7, LastStable: 7, Extents: extent.AppendList(nil, []extent.Extent{lost}),
		}}})
		require.Len(t, plan(t, p, tp0, 0).Extents, 1)
		require.Equal(t, 2, lookups(o))
	})
}

func TestPartitions_IdleAndBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		p, s := open(t, o, Config{Subscriptions: 1})
		plan(t, p, tp0, 0)
		require.True(t, plan(t, p, id.TopicPartition{Topic: topicA, Partition: 1}, 0).FreshFor(time.Now()))
		require.Equal(t, 1, s.Subscribed(), "over the bound a read takes a look-up")
		pass(3 * time.Minute)
		synctest.Wait()
		require.Equal(t, 0, s.Subscribed())
		plan(t, p, tp1, 0)
		require.Equal(t, 1, s.Subscribed())
		require.True(t, plan(t, p, id.TopicPartition{Topic: id.Topic{9}}, 0).Unknown)
	})
}

func TestPartitions_SharedProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		p, _ := open(t, o, Config{})
		pass(10 * time.Second)
		o.Count(func(o *viewtest.Owner) { require.Zero(t, o.Probes, "nobody waits") })
		p.Parked(1000)
		arrived := time.Now()
		pass(time.Second)
		synctest.Wait()
		plan(t, p, tp0, 0)
		o.Count(func(o *viewtest.Owner) { require.Equal(t, 1, o.Probes) })
		require.True(t, plan(t, p, tp0, 0).FreshFor(arrived))
		p.Parked(-1000)
		pass(time.Second)
		synctest.Wait()
		o.Count(func(o *viewtest.Owner) { require.Equal(t, 1, o.Probes) })
	})
}

func TestPartitions_ExtentsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		p, s := open(t, o, Config{MaxExtents: 6, LookupExtents: 4})
		for i := range 5 {
			o.Commit(tp0, ext(uint64(i+1), 1))
		}
		plan(t, p, tp0, 0) // a run of 4: the window begins behind it
		plan(t, p, tp1, 0)
		for i := range 20 {
			o.Commit(tp1, ext(uint64(i+10), 1))
		}
		synctest.Wait()
		require.LessOrEqual(t, p.extents.Load(), int64(7))
		require.Len(t, plan(t, p, tp1, 19).Extents, 1)
		s.Break()
		synctest.Wait()
		require.NotZero(t, p.extents.Load(), "what was known may be needed")
		pass(3 * time.Minute)
		require.Zero(t, p.extents.Load())
	})
}
