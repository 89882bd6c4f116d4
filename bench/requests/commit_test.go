package requests

import (
	"bytes"
	"context"
	"time"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// Commit implements writer.Committer: in order, as package session does.
func (a *agent) Commit(ctx context.Context, encoded []byte, _ time.Time) (*commit.Result, error) {
	h, err := commit.ParseHeader(encoded)
	if err != nil {
		return nil, err
	}
	encoded = bytes.Clone(encoded)
	p, err := a.inTurn(h.Submission.N, func() (proposal, error) {
		return a.w.owner.Enqueue(ctx, &metadata.CommitBundle{Encoded: encoded})
	})
	if err != nil {
		return nil, err
	}
	r, _, err := p.Wait(ctx)
	if err != nil {
		return nil, err
	}
	if r.Err != nil {
		return nil, r.Err
	}
	result := r.Value.(*commit.Result)
	a.w.committed(encoded, result)
	return result, nil
}

// proposal is *owner.Proposal.
type proposal interface {
	Wait(ctx context.Context) (metadata.Result, uint64, error)
}

// inTurn hands a submission in when those before it were.
func (a *agent) inTurn(n uint32, hand func() (proposal, error)) (proposal, error) {
	a.order.Lock()
	defer a.order.Unlock()
	for a.order.next != n {
		a.order.turn.Wait()
	}
	p, err := hand()
	a.order.next++
	a.order.turn.Broadcast()
	return p, err
}

// Abandon implements writer.Committer.
func (a *agent) Abandon(context.Context, id.Submission) (*commit.Result, error) {
	a.w.t.Error("a bundle was abandoned")
	return nil, context.Canceled
}
