package errand

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// asked is a bucket that counts requests.
type asked struct {
	objstore.Bucket
	lists, heads atomic.Int64
}

func (a *asked) List(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.Info, error) {
	a.lists.Add(1)
	return a.Bucket.List(ctx, prefix, startAfter, limit)
}

func (a *asked) Head(ctx context.Context, key string) (objstore.Info, error) {
	a.heads.Add(1)
	return a.Bucket.Head(ctx, key)
}

// inAgedWorld is inWorld with a minimum age of 10 minutes, and counts the requests.
func inAgedWorld(t *testing.T, fn func(w *world, a *asked)) {
	t.Helper()
	inWorld(t, func(w *world) {
		a := &asked{Bucket: w.bucket}
		w.slow.Bucket = a
		w.Runner.cfg.Bundles.MinAge = 10 * time.Minute
		fn(w, a)
	})
}

// names returns the names of bundles of one session, from first to last.
func names(session id.Session, first, last uint32) (all []id.Bundle) {
	for n := first; n <= last; n++ {
		all = append(all, id.Submission{Session: session, N: n}.Bundle())
	}
	return all
}

// putAll puts the objects of bundles.
func (w *world) putAll(all []id.Bundle) {
	w.t.Helper()
	for _, b := range all {
		w.put(bundle.Key(prefix, b))
	}
}

// age lets objects age by d.
func age(d time.Duration) {
	time.Sleep(d) // sleeps: the clock of the bubble is the store's
}

// A faulty control plane names bundles that agents have just written.
func TestBundles_YoungOnesStay(t *testing.T) {
	for _, most := range []uint32{3, 40} { // with a HEAD each, and with a LIST
		inAgedWorld(t, func(w *world, _ *asked) {
			w.putAll(names(3, 1, most-1))
			age(10*time.Minute - time.Second)
			w.putAll(names(3, most, most))
			age(time.Second)
			done := w.ask(deletion(1, names(3, 1, most+2)...))
			require.Empty(t, done.Error)
			require.Equal(t, []string{bundle.Key(prefix, name(most))}, w.keys())
			failed := done.GetDeletedBundles().Failed
			require.Len(t, failed, 1, "objects that do not exist are gone")
			require.EqualValues(t, name(most), failed[0].Bundle)
			require.Equal(t, "the object is 1s old, and agents delete none below 10m0s", failed[0].Error)
			age(10 * time.Minute)
			require.Empty(t, w.ask(deletion(2, name(most))).GetDeletedBundles().Failed)
			require.Empty(t, w.keys())
		})
	}
}

// A LIST costs as much as 12.5 HEADs.
func TestBundles_CheapestRequests(t *testing.T) {
	inAgedWorld(t, func(w *world, a *asked) {
		w.putAll(names(3, 1, 3000))
		w.putAll(names(4, 1, 12))
		age(time.Hour)
		ask := func(all ...id.Bundle) (lists, heads int64) {
			t.Helper()
			a.lists.Store(0)
			a.heads.Store(0)
			done := w.ask(deletion(1, all...))
			require.Empty(t, done.Error)
			require.Empty(t, done.GetDeletedBundles().Failed)
			return a.lists.Load(), a.heads.Load()
		}
		lists, heads := ask(slices.Concat(names(3, 1, 900), names(4, 1, 12))...)
		require.EqualValues(t, 1, lists)
		require.EqualValues(t, 12, heads)
		lists, heads = ask(slices.Concat(names(3, 901, 903), names(3, 2905, 2914))...)
		require.EqualValues(t, 1, lists, "few names are on its page")
		require.EqualValues(t, 10, heads)
		lists, heads = ask(names(5, 1, 20)...)
		require.EqualValues(t, 1, lists)
		require.Zero(t, heads, "no object is left in the session")
		require.Equal(t, bundle.Key(prefix, name(904)), w.keys()[0])
	})
}

// An age that is not known deletes nothing.
func TestBundles_UnknownAge(t *testing.T) {
	for _, rule := range []string{"now fail", "head fail", "list fail"} {
		inAgedWorld(t, func(w *world, _ *asked) {
			all := slices.Concat(names(3, 1, 20), names(4, 1, 2))
			w.putAll(all)
			age(time.Hour)
			w.bucket.MustAdd(rule)
			require.NotEmpty(t, w.ask(deletion(1, all...)).Error, rule)
			w.bucket.Clear()
			require.Len(t, w.keys(), len(all))
		})
	}
}

// Errands wait for the rate, at most as long as an errand may take.
func TestBundles_Rate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Runner.cfg.Bundles.Rate = rate.NewLimiter(110, objstore.MaxKeys)
		start := time.Now()
		require.Empty(t, w.ask(deletion(1, names(3, 1, 1000)...)).Error)
		require.Zero(t, time.Since(start), "the burst")
		for n := range uint64(4) {
			w.OnErrand(deletion(n+2, names(3, 1, 1000)...))
		}
		var failed []*api.ErrandDone
		for range 4 {
			if done := <-w.answers; done.Error != "" {
				failed = append(failed, done)
			}
		}
		require.Len(t, failed, 1, "the fourth would wait 36 s")
		require.Contains(t, failed[0].Error, "wait for the rate of deletions")
		require.InDelta(t, 27.3, time.Since(start).Seconds(), 0.1)
	})
}
