package zonewriter

import (
	"context"
	"sync"
	"time"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/metadata/commit"
)

// lane counts what was handed to one writer and is not settled.
type lane struct {
	mu struct {
		sync.Mutex
		all, plain int           // plain: with batches that no sequence number keeps in order
		changed    chan struct{} // made by who waits, closed by the next that is settled
	}
}

// isPlain tells whether no sequence number keeps some of the batches in order.
func isPlain(batches []writer.Batch) bool {
	for i := range batches {
		if batches[i].Commit.ProducerID == commit.NoProducer {
			return true
		}
	}
	return false
}

// enter counts a produce until it is settled.
func (l *lane) enter(p *writer.Produce, batches []writer.Batch) {
	plain := 0
	if isPlain(batches) {
		plain = 1
	}
	l.mu.Lock()
	l.mu.all++
	l.mu.plain += plain
	l.mu.Unlock()
	p.OnDone(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.mu.all--
		l.mu.plain -= plain
		if l.mu.changed != nil {
			close(l.mu.changed)
			l.mu.changed = nil
		}
	})
}

// settle waits until nothing is under way; not all after patience.
func (l *lane) settle(ctx context.Context, patience time.Duration) (all bool, err error) {
	timer := time.NewTimer(max(patience, 0))
	defer timer.Stop()
	return l.await(ctx, timer.C, func() bool { return l.mu.all == 0 })
}

// settlePlain waits until nothing is under way that no sequence number keeps in order.
func (l *lane) settlePlain(ctx context.Context) error {
	_, err := l.await(ctx, nil, func() bool { return l.mu.plain == 0 })
	return err
}

// await waits for a condition, which it asks for with mu held; not met once late brings something.
func (l *lane) await(ctx context.Context, late <-chan time.Time, condition func() bool) (met bool, err error) {
	for {
		l.mu.Lock()
		if condition() {
			l.mu.Unlock()
			return true, nil
		}
		if l.mu.changed == nil {
			l.mu.changed = make(chan struct{})
		}
		changed := l.mu.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-late:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
