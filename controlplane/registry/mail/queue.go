package mail

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Bounds of a Queue.
const (
	// MaxQueued bounds the mails that are not sent yet, including mails that wait for a repetition.
	MaxQueued = 1000
	// maxSends bounds the mails that are sent at once.
	maxSends = 4
	// patience is the time for which a mail is repeated.
	patience = 6 * time.Hour
	// firstPause and maxPause bound the pause before a repetition. Each is twice the one before.
	firstPause = 5 * time.Second
	maxPause   = 10 * time.Minute
)

// ErrFull is returned by Add at MaxQueued mails.
var ErrFull = errors.New("too many mails wait to be sent")

// Compose returns a mail. nil means that none is to be sent. It is called again after an error.
type Compose func(context.Context) (*Message, error)

// Config configures a Queue.
type Config struct {
	Server     *Server
	Log        *zap.Logger
	Registerer prometheus.Registerer // nil means no metrics
}

// Queue sends mails. It is safe for concurrent use.
type Queue struct {
	cfg     Config
	metrics metrics
	send    func(context.Context, Message) error
	ready   chan *queued // has room for all mails
	size    atomic.Int64
}

// queued is a mail that is not sent yet.
type queued struct {
	compose Compose
	message *Message // nil before it is composed
	added   time.Time
	pause   time.Duration // of the last repetition
}

// New returns a Queue. Mails wait for Run.
func New(cfg Config) *Queue {
	return &Queue{cfg: cfg, metrics: newMetrics(cfg.Registerer), send: cfg.Server.send, ready: make(chan *queued, MaxQueued)}
}

// Add queues a mail. Error: ErrFull.
func (q *Queue) Add(compose Compose) error {
	if q.size.Add(1) > MaxQueued {
		q.size.Add(-1)
		return ErrFull
	}
	q.metrics.queued.Inc()
	q.ready <- &queued{compose: compose, added: time.Now()}
	return nil
}

// Run sends mails until ctx ends.
func (q *Queue) Run(ctx context.Context) error {
	var senders sync.WaitGroup
	for range maxSends {
		senders.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case m := <-q.ready:
					q.try(ctx, m)
				}
			}
		})
	}
	senders.Wait()
	return nil
}

// try sends a mail once, and repeats it later if that fails.
func (q *Queue) try(ctx context.Context, m *queued) {
	err := q.sendOnce(ctx, m)
	switch {
	case err == nil:
		q.leave(sent)
	case errors.Is(err, errRefused), time.Since(m.added) >= patience:
		q.cfg.Log.Warn("mail was dropped", zap.Error(err))
		q.leave(dropped)
	default:
		m.pause = min(max(2*m.pause, firstPause), maxPause)
		q.cfg.Log.Warn("mail was not sent, another attempt follows", zap.Duration("after", m.pause), zap.Error(err))
		q.metrics.attempts.WithLabelValues(string(failed)).Inc()
		time.AfterFunc(m.pause, func() { q.ready <- m })
	}
}

func (q *Queue) sendOnce(ctx context.Context, m *queued) (err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if m.message == nil {
		if m.message, err = m.compose(ctx); err != nil || m.message == nil {
			return err
		}
	}
	return q.send(ctx, *m.message)
}

// leave takes a mail out of the queue.
func (q *Queue) leave(o outcome) {
	q.size.Add(-1)
	q.metrics.queued.Dec()
	q.metrics.attempts.WithLabelValues(string(o)).Inc()
}
