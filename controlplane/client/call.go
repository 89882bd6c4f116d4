package client

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
)

// call is one request that waits for its answer, and what is sent for it on every stream until that comes.
type call struct {
	id     uint64
	item   *api.AgentItem
	weight int64
	once   bool                 // not to be sent on a second stream
	waits  bool                 // for other clients
	until  time.Time            // of a commit: see Session.Commit
	sent   bool                 // on some stream; guarded by Session.mu
	done   chan struct{}        // closed when answer or err is set
	answer *api.OwnerItem       // set before done is closed
	err    error                // set before done is closed
	seen   func(*api.OwnerItem) // called on the stream's goroutine before done; may be nil
}

// calls are the unanswered ones. Guarded by Session.mu.
type calls struct {
	last    uint64
	pending map[uint64]*call
}

// add registers a call under the next request id, which it sets in the item.
func (cs *calls) add(c *call) {
	cs.last++
	c.id = cs.last
	setRequest(c.item, c.id)
	cs.pending[c.id] = c
}

// take removes a call; nil if it is not there (its caller went away).
func (cs *calls) take(request uint64) *call {
	c := cs.pending[request]
	delete(cs.pending, request)
	return c
}

// inOrder gives the unanswered calls in the order they were made.
func (cs *calls) inOrder() []*call {
	return slices.SortedFunc(maps.Values(cs.pending), func(a, b *call) int { return cmp.Compare(a.id, b.id) })
}

// takeSpent removes the calls that were sent and may not be sent again.
func (cs *calls) takeSpent() (spent []*call) {
	for _, c := range cs.pending {
		if c.once && c.sent {
			spent = append(spent, cs.take(c.id))
		}
	}
	return spent
}

// setRequest writes the request id into an item that has one.
func setRequest(item *api.AgentItem, id uint64) {
	switch i := item.Item.(type) {
	case *api.AgentItem_Commit:
		i.Commit.Request = id
	case *api.AgentItem_Abandon:
		i.Abandon.Request = id
	case *api.AgentItem_Lookup:
		i.Lookup.Request = id
	case *api.AgentItem_Forward:
		i.Forward.Request = id
	case *api.AgentItem_Drain:
		i.Drain.Request = id
	case *api.AgentItem_Goodbye:
		i.Goodbye.Request = id
	case *api.AgentItem_CompleteJob:
		i.CompleteJob.Request = id
	case *api.AgentItem_AbortJob:
		i.AbortJob.Request = id
	}
}

// answered tells which request an item of the owner's answers, and with what error; ok is false for other items.
func answered(item *api.OwnerItem) (request uint64, err *api.Error, ok bool) {
	switch i := item.Item.(type) {
	case *api.OwnerItem_Commit:
		return i.Commit.Request, i.Commit.Error, true
	case *api.OwnerItem_Lookup:
		return i.Lookup.Request, i.Lookup.Error, true
	case *api.OwnerItem_Forward:
		return i.Forward.Request, i.Forward.Error, true
	case *api.OwnerItem_Done:
		return i.Done.Request, i.Done.Error, true
	}
	return 0, nil, false
}
