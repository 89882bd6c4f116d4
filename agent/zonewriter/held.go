package zonewriter

import (
	"context"
	"fmt"

	"github.com/freshet-io/freshet/agent/writer"
)

// held is a batch that link.add did not send: it is above the window, or must stay behind a held batch of its partition.
// Route.Add sends it without the route's intake, so that batches of other partitions overtake it. Add waits for its held
// batches, so the requests in memory bound their number.
type held struct {
	batch  *writer.Batch
	index  int           // in its Produce
	before *held         // the held batch before it in its partition, or nil
	passed chan struct{} // closed when the batch is sent or refused
	// skipped is set if the batch was refused before its turn. The batch behind it then waits for before. Guarded by link.mu.
	skipped bool
}

// hold returns a held batch if the batch must not be sent at once, else nil. The caller holds the intake.
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

// sendHeld sends the batches that add returned, one after the other. A held batch waits only for earlier batches, so there is
// always a held batch that need not wait.
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

// awaitBefore waits until all held batches before h are sent or refused.
func (l *link) awaitBefore(ctx context.Context, h *held) error {
	for h.before != nil {
		select {
		case <-h.before.passed:
		case <-ctx.Done():
			return fmt.Errorf("%w: a large batch before it waits for room: %w", writer.ErrNotTaken, ctx.Err())
		}
		l.mu.Lock()
		if h.before.skipped {
			h.before = h.before.before
		} else {
			h.before = nil
		}
		l.mu.Unlock()
	}
	return nil
}

// pass lets the batch behind h proceed.
func (l *link) pass(h *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.skipped = h.before != nil
	if l.mu.held[h.batch.Partition] == h {
		if l.mu.held[h.batch.Partition] = h.before; h.before == nil {
			delete(l.mu.held, h.batch.Partition)
		}
	}
	close(h.passed)
}

// sendNow sends a held batch whose turn it is.
func (l *link) sendNow(ctx context.Context, p *writer.Produce, h *held) error {
	batch, bytes := []writer.Batch{*h.batch}, len(h.batch.Bytes)
	if bytes <= window {
		return l.frame(ctx, batch, bytes, p, int32(h.index))
	}
	return l.sendLarge(ctx, batch, p, int32(h.index))
}

// sendLarge sends a batch above the window once the writer has room for it. If the writer does not take in earlier frames
// within roomTimeout, sendLarge returns the room, because all streams share it, and asks again.
func (l *link) sendLarge(ctx context.Context, batch []writer.Batch, p *writer.Produce, index int32) error {
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

// roomTimeout is how long room is kept while the writer takes in earlier frames. It is well below largeTimeout, after which the
// writer ends a stream that does not use its room.
const roomTimeout = largeTimeout / 3

// reserve asks for room for a batch above the window, and waits until the writer has that room. If the batch were sent without
// room, the alive frames behind it would be late.
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

// giveBack withdraws the ask for room, and returns the room if the writer has granted it.
func (l *link) giveBack() { l.ask(0, nil) }

// ask sends an ask for room. It replaces the ask before: hasRoom ignores an answer to an earlier ask.
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

// hasRoom handles the answer to an ask.
func (l *link) hasRoom(number uint16) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.room != nil && number == l.mu.asks {
		close(l.mu.room)
		l.mu.room = nil
	}
}
