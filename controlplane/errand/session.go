package errand

import (
	"context"
	"fmt"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
)

// ListSession has an agent list the objects of a session or job, from the n behind after. The objects are sorted by n, and at most
// objstore.MaxKeys. An answer without objects is the last one. ErrNoAgent means that no agent is left to ask.
func (d *Dispatcher) ListSession(ctx context.Context, session id.Session, after uint32) (*api.SessionObjects, error) {
	done, err := d.do(ctx, Agents.ErrandTakers, func(id uint64) *api.Errand {
		return &api.Errand{Id: id, Errand: &api.Errand_ListSession{ListSession: &api.ListSession{Session: uint32(session), AfterN: after}}}
	}, func(done *api.ErrandDone) bool { return fitsListing(after, done) })
	if err != nil {
		return nil, fmt.Errorf("list the objects of session %d: %w", session, err)
	}
	return done.GetSessionObjects(), nil
}

// fitsListing reports whether an answer has at most one page of objects, all behind after, none twice and in order.
func fitsListing(after uint32, done *api.ErrandDone) bool {
	page := done.GetSessionObjects()
	if page == nil || len(page.Objects) > objstore.MaxKeys || page.Odd > api.MaxErrandKeys {
		return false
	}
	for _, o := range page.Objects {
		if o.GetN() <= after || o.GetBytes() < 0 {
			return false
		}
		after = o.GetN()
	}
	return true
}

// AbortUploads has an agent abort unfinished uploads of a session or job. If it aborts objstore.MaxKeys, more may be left. ErrNoAgent means
// that no agent is left to ask.
func (d *Dispatcher) AbortUploads(ctx context.Context, session id.Session) (*api.AbortedUploads, error) {
	done, err := d.do(ctx, Agents.ErrandTakers, func(id uint64) *api.Errand {
		return &api.Errand{Id: id, Errand: &api.Errand_AbortUploads{AbortUploads: &api.AbortUploads{Session: uint32(session)}}}
	}, fitsAborts)
	if err != nil {
		return nil, fmt.Errorf("abort the uploads of session %d: %w", session, err)
	}
	return done.GetAbortedUploads(), nil
}

// fitsAborts reports whether an answer has no more uploads than an errand.
func fitsAborts(done *api.ErrandDone) bool {
	aborted := done.GetAbortedUploads()
	return aborted != nil && aborted.Aborted <= objstore.MaxKeys && aborted.Young <= api.MaxErrandKeys
}
