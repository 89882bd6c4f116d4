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

// enter counts a produce until it is settled.
func (l *lane) enter(p *writer.Produce, batches []writer.Batch) {
	plain := 0
	for i := range batches {
		if batches[i].Commit.ProducerID == commit.NoProducer {
			plain = 1
			break
		}
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

// settle waits until nothing is under way; after patience, only for what no sequence number keeps in order.
func (l *lane) settle(ctx context.Context, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	patient := true
	for {
		l.mu.Lock()
		left := l.mu.plain
		if patient {
			left = l.mu.all
		}
		if left == 0 {
			l.mu.Unlock()
			return nil
		}
		if l.mu.changed == nil {
			l.mu.changed = make(chan struct{})
		}
		changed := l.mu.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			patient = false
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
