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
//
// A sender is a goroutine that calls take until the outbox is empty. It runs only while there are items to send: an idle agent has none. At most
// one sender runs at a time.
type outbox struct {
	limit int
	mu    struct {
		sync.Mutex
		places   []*place
		bytes    int
		closed   bool
		sending  bool // a sender runs, or may not start: before begin, and after its failure
		held     bool // no sender starts until release
		finished bool // finish was called
	}
	over func(error)  // called when the bound is passed
	send func()       // the sender
	end  func()       // called once finish was called and all items are sent
	run  func(func()) // starts a sender on its goroutine
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

// newOutbox returns an outbox that keeps its items until begin.
func newOutbox(limit int, over func(error)) *outbox {
	o := &outbox{limit: limit, over: over}
	o.mu.sending = true // none starts until the first sender of begin has ended
	return o
}

// begin starts the first sender with run(first), and each later one with run(send), for which run must not block. It calls end once finish was
// called and all items are sent.
func (o *outbox) begin(run func(func()), first, send, end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.run, o.send, o.end = run, send, end
	if !o.mu.closed {
		run(first)
	}
}

// wake starts a sender if none runs and there are items to send, or end to call. Called with mu held.
func (o *outbox) wake() {
	ready := len(o.mu.places) > 0 && !o.mu.places[0].open
	if o.mu.sending || o.mu.closed || o.mu.held || !ready && !o.mu.finished {
		return
	}
	o.mu.sending = true
	o.run(o.send)
}

// hold keeps senders from starting until release, so that the items pushed in between leave in one message.
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

// finish makes the outbox call end once all items are sent.
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

// close drops the items, and all later ones. No sender starts afterwards.
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

// take removes the next items that can be sent, about batchBytes of them. The sender calls sent once it has sent them. If take returns no items, the
// sender must end: the outbox starts another sender with the next items.
func (o *outbox) take() (items []*api.OwnerItem, sent func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var answers []*Answer
	size := 0
	for len(o.mu.places) > 0 && size < batchBytes {
		p := o.mu.places[0]
		if p.open || size > 0 && size+p.bytes > batchBytes {
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
	if len(items) == 0 {
		o.mu.sending = false
		if o.mu.finished && !o.mu.closed {
			o.end()
		}
		return nil, nil
	}
	return items, func() {
		for _, a := range answers {
			a.set(0)
		}
	}
}
