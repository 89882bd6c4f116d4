package fetch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/view/viewtest"
)

// A reader far behind gets min bytes at once, though one look-up does not name as many.
func TestFetcher_MinBytesOverSeveralLookups(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		size := 0
		for range 1000 {
			size = len(e.produce(e.t, tp(0), batch(100, 1)))
		}
		for _, c := range []struct{ minBytes, maxBytes, want int }{
			{127 * size, 1 << 20, 128 * size},
			{300 * size, 1 << 20, 384 * size}, // three look-ups
			{1000 * size, 1 << 20, 1000 * size},
			{300 * size, 200 * size, 200 * size}, // the partition may not bring as many
		} {
			req := request(Partition{ID: tp(0), MaxBytes: c.maxBytes})
			req.MinBytes, req.MaxWait = c.minBytes, 5*time.Second
			began := time.Now()
			resp := e.fetch(e.t, req)
			require.GreaterOrEqual(e.t, resp.Bytes, min(c.minBytes, c.maxBytes))
			require.LessOrEqual(e.t, resp.Bytes, c.want)
			require.Less(e.t, time.Since(began), 3*time.Second, "as long as so many GETs take")
		}
	})
}

// Beyond maxExtensions look-ups the answer has what they named, at once, and the next fetch goes on.
func TestFetcher_MinBytesBeyondTheBoundOfLookups(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		size, named := 0, (1+maxExtensions)*128
		for range named + 100 {
			size = len(e.produce(e.t, tp(0), batch(100, 1)))
		}
		req := request(part(0, 0))
		req.MinBytes, req.MaxWait = (named+50)*size, 30*time.Second
		began := time.Now()
		resp := e.fetch(e.t, req)
		require.Equal(e.t, named*size, resp.Bytes)
		require.Less(e.t, time.Since(began), 10*time.Second, "as long as so many GETs take")
		e.owner.Count(func(o *viewtest.Owner) { require.Equal(e.t, 1+maxExtensions, o.Lookups) })
	})
}

// A reader of committed records whose extents were read while a transaction was open goes on behind its offset.
func TestFetcher_MinBytesBehindAnOldStableOffset(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		size := 0
		for range 300 {
			size = len(e.produce(e.t, tp(0), batch(100, 1)))
		}
		e.owner.Change(tp(0), func(p *viewtest.Partition) { p.LastStable = 10 })
		require.NotZero(e.t, e.fetch(e.t, committed(part(0, 0))).Bytes)
		e.owner.Change(tp(0), func(p *viewtest.Partition) { p.LastStable = p.HighWatermark })
		pass(time.Second)
		req := committed(part(0, 5))
		req.MinBytes, req.MaxWait = 200*size, 5*time.Second
		began := time.Now()
		resp := e.fetch(e.t, req)
		require.GreaterOrEqual(e.t, resp.Bytes, 200*size)
		require.Less(e.t, time.Since(began), time.Second)
		require.EqualValues(e.t, 300, resp.Results[0].Marks.LastStable)
	})
}

// At its end a partition is waited for, however many extents led there.
func TestFetcher_MinBytesWaitAtTheEnd(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		for range 300 {
			e.produce(e.t, tp(0), batch(100, 1))
		}
		req := request(part(0, 0))
		req.MinBytes, req.MaxWait = 1<<20, 5*time.Second
		began := time.Now()
		require.NotZero(e.t, e.fetch(e.t, req).Bytes)
		require.GreaterOrEqual(e.t, time.Since(began), 5*time.Second)
	})
}
