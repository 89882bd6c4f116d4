package session

import (
	"errors"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/freshet-io/freshet/controlplane/api"
)

// errSlow ends the stream of an agent that does not take what it is sent.
var errSlow = errors.New("the agent takes messages too slowly")

// outbox holds what is to be sent to one agent, in order, bounded in bytes. It may be full of what was pushed: then
// it stops taking anything and fails the stream, and the agent comes back and subscribes anew.
type outbox struct {
	limit int
	mu    struct {
		sync.Mutex
		places []*place
		bytes  int
		full   bool
	}
	signal chan struct{} // capacity 1: there may be something to send
	over   func(error)   // called when the bound is passed
}

// place is one position in an outbox.
type place struct {
	items []*api.OwnerItem
	bytes int
	open  bool // reserved, not filled yet
}

func newOutbox(limit int, over func(error)) *outbox {
	return &outbox{limit: limit, signal: make(chan struct{}, 1), over: over}
}

// push appends items.
func (o *outbox) push(items ...*api.OwnerItem) {
	o.fill(o.reserve(), items...)
}

// reserve appends a place whose content comes later. It must be filled.
func (o *outbox) reserve() *place {
	p := &place{open: true}
	o.mu.Lock()
	if !o.mu.full {
		o.mu.places = append(o.mu.places, p)
	}
	o.mu.Unlock()
	return p
}

// fill gives a reserved place its content, which may be nothing.
func (o *outbox) fill(p *place, items ...*api.OwnerItem) {
	size := 0
	for _, item := range items {
		size += proto.Size(item)
	}
	o.mu.Lock()
	p.items, p.bytes, p.open = items, size, false
	o.mu.bytes += size
	over := o.mu.bytes > o.limit && !o.mu.full
	if over {
		o.mu.full = true
		o.mu.places = nil
	}
	o.mu.Unlock()
	if over {
		o.over(errSlow)
		return
	}
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

// take removes what can be sent next, about batchBytes of it.
func (o *outbox) take() []*api.OwnerItem {
	o.mu.Lock()
	defer o.mu.Unlock()
	var items []*api.OwnerItem
	size := 0
	for len(o.mu.places) > 0 && size < batchBytes {
		p := o.mu.places[0]
		if p.open || size > 0 && size+p.bytes > batchBytes {
			break
		}
		items = append(items, p.items...)
		size += p.bytes
		o.mu.places[0] = nil
		o.mu.places = o.mu.places[1:]
	}
	o.mu.bytes -= size
	return items
}
