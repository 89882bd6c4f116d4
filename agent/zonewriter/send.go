package zonewriter

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/freshet-io/freshet/agent/writer"
)

// withdraw asks the writer to return the batches that it has not submitted for commit.
func (l *link) withdraw() {
	if err := l.write(head{kind: kindWithdraw}); err != nil {
		l.fail(err)
	}
}

// awaitTurn waits for the turn to write a frame of batches. It fails once this agent leaves the writer.
func (l *link) awaitTurn(ctx context.Context) error {
	select {
	case l.send.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: wait to send: %w", writer.ErrNotTaken, ctx.Err())
	}
	select {
	case <-l.leaving:
		l.endTurn()
		return fmt.Errorf("%w: %w", writer.ErrNotTaken, errLeft)
	default:
		return nil
	}
}

func (l *link) endTurn() { <-l.send.turn }

// write sends a frame without batches.
func (l *link) write(h head) error {
	l.send.turn <- struct{}{}
	defer l.endTurn()
	return l.put(h, nil)
}

// put writes a frame into the buffer, and bytes that do not fit there to the connection. The caller has the turn.
func (l *link) put(h head, batches []writer.Batch) error {
	_ = l.conn.SetWriteDeadline(time.Now().Add(l.silence))
	l.send.scratch = h.append(l.send.scratch[:0])
	if _, err := l.send.out.Write(l.send.scratch); err != nil {
		return fmt.Errorf("hand batches over: %w", err)
	}
	for i := range batches {
		l.send.scratch = appendBatchHead(l.send.scratch[:0], &batches[i])
		if _, err := l.send.out.Write(l.send.scratch); err != nil {
			return fmt.Errorf("hand batches over: %w", err)
		}
		if err := l.pieces(batches[i].Bytes); err != nil {
			return fmt.Errorf("hand batches over: %w", err)
		}
	}
	l.poke()
	return nil
}

// pieces writes a batch's bytes. Each piece of a large one may take as long as silence lasts, and tells which beat was
// heard last: an alive frame cannot come in between. Called in the turn.
func (l *link) pieces(p []byte) error {
	several, until := len(p) > pieceBytes, time.Now().Add(largeTimeout)
	for len(p) > 0 {
		if several {
			deadline := time.Now().Add(l.silence)
			if deadline.After(until) {
				deadline = until
			}
			_ = l.conn.SetWriteDeadline(deadline)
			l.send.scratch = binary.BigEndian.AppendUint64(l.send.scratch[:0], l.beat.Load())
			if _, err := l.send.out.Write(l.send.scratch); err != nil {
				return err
			}
		}
		n := min(len(p), pieceBytes)
		if _, err := l.send.out.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (l *link) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// flush asks the writer to seal its open bundle.
func (l *link) flush() {
	if err := l.write(head{kind: kindFlush}); err != nil {
		l.fail(err)
	}
}

// flushes writes what the buffer holds as soon as the one before is written, so that what came meanwhile goes together,
// and a sign of life when there is nothing else.
func (l *link) flushes() {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.broken:
			return
		case <-tick.C:
			if l.overdue(time.Now()) {
				l.fail(errStuck)
				return
			}
			if err := l.write(head{kind: kindAlive, number: l.beat.Load()}); err != nil {
				l.fail(err)
			}
			continue
		case <-l.wake:
		}
		l.send.turn <- struct{}{}
		_ = l.conn.SetWriteDeadline(time.Now().Add(l.silence))
		err := l.send.out.Flush()
		l.endTurn()
		if err != nil {
			l.fail(fmt.Errorf("hand batches over: %w", err))
		}
	}
}
