package zonewriter

import (
	"context"
	"fmt"

	"github.com/freshet-io/freshet/agent/writer"
)

// held is a batch that is sent without the route's intake, so that other partitions' batches pass it: it is above the window
// and waits for room at the writer, or it waits behind such a batch of its partition. The Add that brought it waits too. So
// there are no more of them than requests in memory have.
type held struct {
	batch  *writer.Batch
	index  int           // of its Produce
	before *held         // the one before it of its partition; nil: there is none
	passed chan struct{} // closed when it is sent or refused
	left   bool          // it was refused before its turn: the next one waits for the one before it; guarded by link.mu
}

// hold holds a batch back if it must not be sent at once; else nil. Called with the intake held.
func (l *link) hold(b *writer.Batch, index int) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.mu.held[b.Partition]
	if before == nil && len(b.Bytes) <= window {
		return nil
	}
	h := &held{batch: b, index: index, before: before, passed: make(chan struct{})}
	l.mu.held[b.Partition] = h
	return h
}

// holds reports whether a batch must not be sent at once.
func (l *link) holds(b *writer.Batch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(b.Bytes) > window || l.mu.held[b.Partition] != nil
}

// sendHeld sends the batches that add returned, one after the other. Each waits for batches of earlier Adds only, so some
// batch always goes on.
func (l *link) sendHeld(ctx context.Context, p *writer.Produce, waiting []*held) {
	for _, h := range waiting {
		err := l.awaitBefore(ctx, h)
		if err == nil {
			err = l.sendNow(ctx, p, h)
		}
		l.pass(h)
		if err != nil {
			p.Resolve(int32(h.index), writer.Failed(err))
		}
	}
}

// awaitBefore waits until all batches before one are sent or refused.
func (l *link) awaitBefore(ctx context.Context, h *held) error {
	for h.before != nil {
		select {
		case <-h.before.passed:
		case <-ctx.Done():
			return fmt.Errorf("%w: a large batch before it waits for room: %w", writer.ErrNotTaken, ctx.Err())
		}
		l.mu.Lock()
		if h.before.left {
			h.before = h.before.before
		} else {
			h.before = nil
		}
		l.mu.Unlock()
	}
	return nil
}

// pass ends what a batch holds up.
func (l *link) pass(h *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.left = h.before != nil
	if l.mu.held[h.batch.Partition] == h {
		if l.mu.held[h.batch.Partition] = h.before; h.before == nil {
			delete(l.mu.held, h.batch.Partition)
		}
	}
	close(h.passed)
}

// sendNow sends a batch that all before it have passed.
func (l *link) sendNow(ctx context.Context, p *writer.Produce, h *held) error {
	batch, bytes := []writer.Batch{*h.batch}, len(h.batch.Bytes)
	if bytes <= window {
		return l.frame(ctx, batch, bytes, p, int32(h.index))
	}
	return l.large(ctx, batch, p, int32(h.index))
}

// large sends a batch above the window once there is room for it. A writer that does not take in what was sent before within
// roomTimeout gets the room back, since all streams share it.
func (l *link) large(ctx context.Context, batch []writer.Batch, p *writer.Produce, index int32) error {
	if err := l.acquire(ctx, l.asking, 1); err != nil {
		return err
	}
	defer l.asking.Release(1)
	for {
		if err := l.reserve(ctx, len(batch[0].Bytes)); err != nil {
			return err
		}
		soon, cancel := context.WithTimeout(ctx, roomTimeout)
		err := l.frame(soon, batch, len(batch[0].Bytes), p, index)
		late := soon.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil {
			return nil
		}
		l.giveBack()
		if !late {
			return err
		}
	}
}

// roomTimeout bounds how long room is kept while earlier frames are taken in: well below largeTimeout, after which the writer
// ends a stream that does not use its room.
const roomTimeout = largeTimeout / 3

// reserve asks for room for a batch above the window, and waits for it: bytes that the writer does not take in would hold
// up the signs of life behind them.
func (l *link) reserve(ctx context.Context, bytes int) error {
	room := make(chan struct{})
	l.ask(bytes, room)
	why := errBroken
	select {
	case <-room:
		return nil
	case <-l.broken:
	case <-l.leaving:
		why = errLeft
	case <-ctx.Done():
		why = ctx.Err()
	}
	l.giveBack()
	return fmt.Errorf("%w: the zone's writer has no room for a large batch: %w", writer.ErrNotTaken, why)
}

// giveBack ends the wish for room, and returns the room if there is any.
func (l *link) giveBack() { l.ask(0, nil) }

// ask replaces the ask before it: what is answered to that means nothing any more.
func (l *link) ask(bytes int, room chan struct{}) {
	l.mu.Lock()
	l.mu.asks = max(l.mu.asks+1, 1)
	number := l.mu.asks
	l.mu.room = room
	l.mu.Unlock()
	if err := l.write(head{kindAsk, number, uint64(bytes)}); err != nil {
		l.fail(err)
	}
}

// hasRoom takes the answer to an ask.
func (l *link) hasRoom(number uint16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.room != nil && number == l.mu.asks {
		close(l.mu.room)
		l.mu.room = nil
	}
}
