package errand

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

func listing(session id.Session, after uint32) *api.Errand {
	return &api.Errand{Id: 5, Errand: &api.Errand_ListSession{ListSession: &api.ListSession{Session: uint32(session), AfterN: after}}}
}

func aborting(session id.Session) *api.Errand {
	return &api.Errand{Id: 6, Errand: &api.Errand_AbortUploads{AbortUploads: &api.AbortUploads{Session: uint32(session)}}}
}

// listAll lists a session page by page, and returns the n of each page and the odd keys of all.
func (w *world) listAll(session id.Session) (pages [][]uint32, odd int) {
	w.t.Helper()
	for after := uint32(0); ; {
		done := w.ask(listing(session, after))
		require.Empty(w.t, done.Error)
		page := done.GetSessionObjects()
		odd += int(page.Odd)
		if len(page.Objects) == 0 {
			return pages, odd
		}
		var all []uint32
		for _, o := range page.Objects {
			all = append(all, o.N)
		}
		pages, after = append(pages, all), all[len(all)-1]
	}
}

func TestListSession_PagesOfOneSession(t *testing.T) {
	inAgedWorld(t, func(w *world, a *asked) {
		w.putAll(names(3, 1, 1500))
		w.putAll(names(4, 1, 3))
		first := bundle.Key(prefix, name(1))
		for _, odd := range []string{first + "x", bundle.Key(prefix, name(1499)) + "x", bundle.SessionPrefix(prefix, 3) + "readme", bundle.Key(prefix, name(0))} {
			w.put(odd)
		}
		pages, odd := w.listAll(3)
		require.Equal(t, 4, odd, "each is counted once")
		require.Len(t, pages, 2)
		require.Len(t, append(pages[0], pages[1]...), 1500)
		require.EqualValues(t, 1, pages[0][0])
		require.EqualValues(t, 1500, pages[1][len(pages[1])-1])
		require.EqualValues(t, 4, a.lists.Load(), "an errand makes one LIST, and the last one goes on behind the odd key")
		object := w.ask(listing(4, 2)).GetSessionObjects().Objects[0]
		require.EqualValues(t, 3, object.N)
		require.EqualValues(t, 1, object.Bytes)
		require.Equal(t, time.Now().UnixMilli(), object.ModifiedMs)
		pages, odd = w.listAll(5)
		require.Empty(t, pages)
		require.Zero(t, odd)
		require.Contains(t, w.ask(listing(0, 0)).Error, "0 is not a session")
		w.bucket.MustAdd("list fail")
		require.Contains(t, w.ask(listing(3, 0)).Error, "list the objects of session 3")
	})
}

// A session with nothing but odd keys costs a bounded number of LISTs.
func TestListSession_OddKeys(t *testing.T) {
	inAgedWorld(t, func(w *world, a *asked) {
		for _, b := range names(3, 1, api.MaxErrandKeys) {
			w.put(bundle.Key(prefix, b) + "x")
		}
		require.Equal(t, errOddKeys.Error(), w.ask(listing(3, 0)).Error)
		require.EqualValues(t, api.MaxErrandKeys/objstore.MaxKeys, a.lists.Load())
	})
}

func (w *world) upload(key string) objstore.Upload {
	w.t.Helper()
	u, err := w.stored.Create(w.t.Context(), key)
	require.NoError(w.t, err)
	require.NoError(w.t, u.Part(w.t.Context(), 1, 0, objstore.NewBody([]byte("x"))))
	return u
}

// uploads returns the number of unfinished uploads.
func (w *world) uploads() (n int) {
	w.t.Helper()
	for after := ""; ; {
		page, err := w.stored.Uploads(w.t.Context(), "", after, objstore.MaxKeys)
		require.NoError(w.t, err)
		if len(page) == 0 {
			return n
		}
		n, after = n+len(page), page[len(page)-1].Key
	}
}

func TestAbortUploads_OldOnesOfTheSession(t *testing.T) {
	inAgedWorld(t, func(w *world, _ *asked) {
		for _, b := range names(3, 1, 1200) {
			w.upload(bundle.Key(prefix, b))
		}
		other := w.upload(bundle.Key(prefix, names(4, 1, 1)[0]))
		odd := w.upload(bundle.SessionPrefix(prefix, 3) + "readme")
		age(10 * time.Minute)
		young := w.upload(bundle.Key(prefix, name(2000)))
		done := w.ask(aborting(3)).GetAbortedUploads()
		require.EqualValues(t, objstore.MaxKeys, done.Aborted)
		done = w.ask(aborting(3)).GetAbortedUploads()
		require.EqualValues(t, 200, done.Aborted)
		require.EqualValues(t, 1, done.Young)
		require.Equal(t, 3, w.uploads())
		require.Equal(t, 2, w.logs.Len(), "one line for each batch")
		for _, u := range []objstore.Upload{other, odd, young} {
			require.NoError(t, u.Complete(t.Context()))
		}
		require.Zero(t, w.ask(aborting(3)).GetAbortedUploads().Aborted)
		require.Equal(t, 2, w.logs.Len())
		require.Contains(t, w.ask(aborting(0)).Error, "0 is not a session")
	})
}

// An age that is not known aborts nothing.
func TestAbortUploads_Failures(t *testing.T) {
	for _, rule := range []string{"now fail", "list_uploads fail"} {
		inAgedWorld(t, func(w *world, _ *asked) {
			w.upload(bundle.Key(prefix, name(1)))
			age(time.Hour)
			w.bucket.MustAdd(rule)
			require.NotEmpty(t, w.ask(aborting(3)).Error, rule)
			require.Equal(t, 1, w.uploads())
		})
	}
}
