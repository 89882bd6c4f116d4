package errand

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
)

func objects(n ...uint32) *api.SessionObjects {
	page := &api.SessionObjects{}
	for _, n := range n {
		page.Objects = append(page.Objects, &api.SessionObject{N: n, Bytes: 10, ModifiedMs: 1})
	}
	return page
}

// answers makes an agent answer each errand with what result returns.
func (w *world) answers(agent id.Session, result func(*api.ErrandDone)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer[agent] = func(e *api.Errand) {
		done := &api.ErrandDone{Id: e.Id}
		result(done)
		w.Done(agent, done)
	}
}

func listed(page *api.SessionObjects) func(*api.ErrandDone) {
	return func(done *api.ErrandDone) { done.Result = &api.ErrandDone_SessionObjects{SessionObjects: page} }
}

func aborted(a *api.AbortedUploads) func(*api.ErrandDone) {
	return func(done *api.ErrandDone) { done.Result = &api.ErrandDone_AbortedUploads{AbortedUploads: a} }
}

func TestListSession_ReturnsThePage(t *testing.T) {
	inWorld(t, func(w *world) {
		page := objects(6, 8)
		page.Odd = 3
		w.answers(1, listed(page))
		got, err := w.ListSession(w.t.Context(), 7, 5)
		require.NoError(t, err)
		require.Same(t, page, got)
		require.EqualValues(t, 7, w.givenAll()[0].errand.GetListSession().Session)
		require.EqualValues(t, 5, w.givenAll()[0].errand.GetListSession().AfterN)
		require.Zero(t, w.dropped())
	}, 1)
}

// An answer that does not fit is dropped and counted, and the next agent is asked.
func TestListSession_DropsAnswersThatDoNotFit(t *testing.T) {
	long := objects()
	for n := range uint32(objstore.MaxKeys + 1) {
		long.Objects = append(long.Objects, objects(6+n).Objects...)
	}
	negative := objects(6)
	negative.Objects[0].Bytes = -1
	for reason, result := range map[string]func(*api.ErrandDone){
		"before the page": listed(objects(5)), "twice": listed(objects(6, 6)), "not in order": listed(objects(7, 6)),
		"more than a page": listed(long), "too many odd keys": listed(&api.SessionObjects{Odd: api.MaxErrandKeys + 1}),
		"negative size": listed(negative), "an empty object": listed(&api.SessionObjects{Objects: []*api.SessionObject{nil}}),
		"of another kind": aborted(&api.AbortedUploads{}), "nothing": func(*api.ErrandDone) {},
	} {
		t.Run(reason, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.answers(1, result)
				_, err := w.ListSession(w.t.Context(), 7, 5)
				require.ErrorIs(t, err, errAnswer)
				require.EqualValues(t, 1, w.dropped())
				require.EqualValues(t, 1, w.attempts(resultFailed))
				w.join(2)
				w.answers(2, listed(objects(6)))
				page, err := w.ListSession(w.t.Context(), 7, 5)
				require.NoError(t, err)
				require.Len(t, page.Objects, 1)
			}, 1)
		})
	}
}

func TestAbortUploads_ReturnsTheCounts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.answers(1, aborted(&api.AbortedUploads{Aborted: objstore.MaxKeys, Young: 2}))
		got, err := w.AbortUploads(w.t.Context(), 7)
		require.NoError(t, err)
		require.EqualValues(t, objstore.MaxKeys, got.Aborted)
		require.EqualValues(t, 2, got.Young)
		require.EqualValues(t, 7, w.givenAll()[0].errand.GetAbortUploads().Session)
		for _, result := range []func(*api.ErrandDone){
			aborted(&api.AbortedUploads{Aborted: objstore.MaxKeys + 1}), aborted(&api.AbortedUploads{Young: api.MaxErrandKeys + 1}), listed(objects()),
		} {
			w.answers(1, result)
			_, err := w.AbortUploads(w.t.Context(), 7)
			require.ErrorIs(t, err, errAnswer)
		}
		require.EqualValues(t, 3, w.dropped())
	}, 1)
}

func TestDeleteBundles_DropsAnswersThatDoNotFit(t *testing.T) {
	other := id.Submission{Session: 4, N: 7}.Bundle()
	for reason, failed := range map[string][]uint64{
		"not asked for": {9}, "twice": {7, 7}, "of another session": {uint64(other)}, "more than asked": {7, 8, 9},
	} {
		t.Run(reason, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.answers(1, func(done *api.ErrandDone) {
					d := &api.DeletedBundles{}
					for _, b := range failed {
						d.Failed = append(d.Failed, &api.FailedBundle{Bundle: b, Error: "refused"})
					}
					done.Result = &api.ErrandDone_DeletedBundles{DeletedBundles: d}
				})
				_, err := w.DeleteBundles(w.t.Context(), []id.Bundle{7, 8})
				require.ErrorIs(t, err, errAnswer)
				require.EqualValues(t, 1, w.dropped())
			}, 1)
		})
	}
}
