package client

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/freshet-io/freshet/controlplane/api"
)

// outbox holds what one stream has yet to send, in order. Its size is bounded by the session's budgets for unanswered
// calls. Other items are small and limited in number: one probe, unsubscribes of partitions that were asked for, answers to errands, and
// loads, which the sending goroutine adds itself.
type outbox struct {
	mu struct {
		sync.Mutex
		items []*api.AgentItem
	}
	signal chan struct{} // capacity 1: there may be items
}

func newOutbox() *outbox { return &outbox{signal: make(chan struct{}, 1)} }

func (o *outbox) push(item *api.AgentItem) {
	o.mu.Lock()
	o.mu.items = append(o.mu.items, item)
	o.mu.Unlock()
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

// take removes the first items, about batchBytes of them, at least one if there is one.
func (o *outbox) take() []*api.AgentItem {
	o.mu.Lock()
	defer o.mu.Unlock()
	size, n := 0, 0
	for n < len(o.mu.items) && (n == 0 || size < batchBytes) {
		size += proto.Size(o.mu.items[n])
		n++
	}
	batch := o.mu.items[:n:n]
	o.mu.items = o.mu.items[n:]
	if len(o.mu.items) == 0 {
		o.mu.items = nil
	}
	return batch
}
