package session

import (
	"errors"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/freshet-io/freshet/controlplane/api"
)

// errRevoked ends the stream of an agent whose key was withdrawn.
var errRevoked = errors.New("the agent key was withdrawn")

// errSlow ends the stream of an agent that does not take what it is sent.
var errSlow = errors.New("the agent takes messages too slowly")

// outbox holds the items for one agent, in order. Their bytes are bounded. At the bound the outbox drops its items, takes no more, and fails
// the stream; the agent comes back and subscribes anew. Answers to forwarded requests do not count: Answers bounds them.
type outbox struct {
	limit int
	mu    struct {
		sync.Mutex
		places   []*place
		bytes    int
		closed   bool
		held     bool // take returns nothing until release
		finished bool // finish was called
	}
	signal chan struct{} // capacity 1: take may return something, or ended is true
	over   func(error)   // called when the bound is passed
}

// place is one position in an outbox.
type place struct {
	items  []*api.OwnerItem
	bytes  int
	answer *Answer // of a forwarded request; nil for other items
	open   bool    // reserved, not filled yet
}

// counted returns the bytes that count in the outbox.
func (p *place) counted() int {
	if p.answer != nil {
		return 0
	}
	return p.bytes
}

func newOutbox(limit int, over func(error)) *outbox {
	return &outbox{limit: limit, signal: make(chan struct{}, 1), over: over}
}

// wake signals the sender if there are items to send, or all are sent after finish. Called with mu held.
func (o *outbox) wake() {
	ready := len(o.mu.places) > 0 && !o.mu.places[0].open
	if o.mu.closed || o.mu.held || !ready && !o.mu.finished {
		return
	}
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

// hold keeps items from the sender until release, so that the items pushed in between leave in one message.
func (o *outbox) hold() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.held = true
}

// release ends hold.
func (o *outbox) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.held = false
	o.wake()
}

// finish makes ended true once all items are sent.
func (o *outbox) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.finished = true
	o.wake()
}

// push appends items.
func (o *outbox) push(items ...*api.OwnerItem) {
	o.fill(o.reserve(), items...)
}

// pushAnswer appends the answer to a forwarded request. The bytes of answer are given back once the item is sent or dropped.
func (o *outbox) pushAnswer(answer *Answer, item *api.OwnerItem) {
	p := o.reserve()
	p.answer = answer
	o.fill(p, item)
}

// reserve appends a place whose content comes later. It must be filled.
func (o *outbox) reserve() *place {
	p := &place{open: true}
	o.mu.Lock()
	if !o.mu.closed {
		o.mu.places = append(o.mu.places, p)
	}
	o.mu.Unlock()
	return p
}

// fill fills a reserved place, possibly with nothing.
func (o *outbox) fill(p *place, items ...*api.OwnerItem) {
	size := 0
	for _, item := range items {
		size += proto.Size(item)
	}
	o.mu.Lock()
	if o.mu.closed {
		o.mu.Unlock()
		p.answer.set(0)
		return
	}
	p.items, p.bytes, p.open = items, size, false
	o.mu.bytes += p.counted()
	over := o.mu.bytes > o.limit
	if !over {
		o.wake()
	}
	o.mu.Unlock()
	if over {
		o.close()
		o.over(errSlow)
	}
}

// close drops the items, and all later ones.
func (o *outbox) close() {
	o.mu.Lock()
	dropped := o.mu.places
	o.mu.places, o.mu.closed = nil, true
	o.mu.Unlock()
	for _, p := range dropped {
		if !p.open { // fill gives back the others
			p.answer.set(0)
		}
	}
}

// take removes the next items that can be sent, at most batchBytes or one larger place. It returns none while the outbox is held. The caller calls
// sent once it has sent them.
func (o *outbox) take() (items []*api.OwnerItem, sent func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.held {
		return nil, nil
	}
	return o.next(batchBytes)
}

// takeSmall is like take, but also takes from a held outbox. It removes at most smallMessage bytes, and nothing if the first place is larger.
func (o *outbox) takeSmall() (items []*api.OwnerItem, sent func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.mu.places) == 0 || o.mu.places[0].bytes > smallMessage {
		return nil, nil
	}
	return o.next(smallMessage)
}

// next removes the next items that can be sent, at most limit bytes or one larger place. Called with mu held.
func (o *outbox) next(limit int) (items []*api.OwnerItem, sent func()) {
	var answers []*Answer
	size := 0
	for len(o.mu.places) > 0 && size < limit {
		p := o.mu.places[0]
		if p.open || size > 0 && size+p.bytes > limit {
			break
		}
		items = append(items, p.items...)
		if p.answer != nil {
			answers = append(answers, p.answer)
		}
		size += p.bytes
		o.mu.bytes -= p.counted()
		o.mu.places[0] = nil
		o.mu.places = o.mu.places[1:]
	}
	return items, func() {
		for _, a := range answers {
			a.set(0)
		}
	}
}

// ended reports whether finish was called and nothing can be sent any more.
func (o *outbox) ended() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	ready := len(o.mu.places) > 0 && !o.mu.places[0].open
	return o.mu.finished && !ready
}
