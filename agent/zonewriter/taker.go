package zonewriter

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/metadata/id"
)

// Own is an agent's own writer; writer.Writer implements it.
type Own interface {
	Add(ctx context.Context, batches []writer.Batch) *writer.Produce
	Flush()
}

// Taker adds the batches of other agents to this agent's writer.
type Taker struct {
	cfg     TakerConfig
	log     *zap.Logger
	metrics *takerMetrics

	large *semaphore.Weighted // bytes of large batches on their way into the writer's memory

	mu struct {
		sync.Mutex
		draining bool
		streams  map[*intake]id.Session // by whose they are
		entered  uint64                 // number of the newest
		none     chan struct{}          // closed when draining and there is no stream
	}
}

// TakerConfig is what a Taker is made of.
type TakerConfig struct {
	Own Own // the agent's own writer
	// Address is as in Config.
	Address func(id.Session) string
	// Fit tells whether this agent reaches the object store and the owner; while it does not, others are told to write
	// themselves. nil: it always does.
	Fit func() bool
	// LargeBytes bounds the bytes of batches above the window that are being taken in, of all streams; one batch at least.
	// Default DefaultLargeBytes.
	LargeBytes int64
	// Silence is how long another agent may say nothing before it is given up. Default DefaultSilence.
	Silence    time.Duration
	Log        *zap.Logger
	Registerer prometheus.Registerer
}

// NewTaker makes a Taker.
func NewTaker(cfg TakerConfig) *Taker {
	cfg.Silence = cmp.Or(cfg.Silence, DefaultSilence)
	cfg.LargeBytes = cmp.Or(cfg.LargeBytes, DefaultLargeBytes)
	if cfg.Fit == nil {
		cfg.Fit = func() bool { return true }
	}
	cfg.Log = cmp.Or(cfg.Log, zap.NewNop())
	t := &Taker{cfg: cfg, log: cfg.Log, metrics: newTakerMetrics(cfg.Registerer), large: semaphore.NewWeighted(cfg.LargeBytes)}
	t.mu.streams = make(map[*intake]id.Session)
	t.mu.none = make(chan struct{})
	return t
}

// Serve takes what comes on one stream until it ends; the connection is closed then. from is the other agent.
func (t *Taker) Serve(conn net.Conn, in *bufio.Reader, from id.Session) {
	s := newIntake(t, conn, in)
	if !t.enter(s, from) {
		_ = conn.Close()
		return
	}
	defer t.leave(s)
	name := nameOf(from, t.cfg.Address)
	t.log.Info("another agent of the zone hands its batches over", name)
	var work sync.WaitGroup
	work.Go(s.read)
	work.Go(s.answer)
	work.Go(s.reserve)
	s.add()
	s.end(errEnded) // ends the others
	work.Wait()
	t.log.Info("another agent of the zone hands nothing over any more", name, zap.NamedError("reason", context.Cause(s.ctx)))
}

func (t *Taker) enter(s *intake, from id.Session) bool {
	t.mu.Lock()
	if t.mu.draining {
		t.mu.Unlock()
		return false
	}
	surplus := t.surplus(from)
	t.mu.entered++
	s.number = t.mu.entered
	t.mu.streams[s] = from
	t.metrics.streams.Set(float64(len(t.mu.streams)))
	t.mu.Unlock()
	if surplus != nil {
		surplus.end(errSurplus)
	}
	return true
}

// surplus returns the oldest stream of an agent that has maxStreams, else nil. Called with mu held.
func (t *Taker) surplus(of id.Session) (oldest *intake) {
	n := 0
	for s, from := range t.mu.streams {
		if from != of {
			continue
		}
		if n++; oldest == nil || s.number < oldest.number {
			oldest = s
		}
	}
	if n < maxStreams {
		return nil
	}
	return oldest
}

func (t *Taker) leave(s *intake) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.streams, s)
	t.metrics.streams.Set(float64(len(t.mu.streams)))
	t.checkNone()
}

// checkNone is called with mu held.
func (t *Taker) checkNone() {
	if t.mu.draining && len(t.mu.streams) == 0 {
		select {
		case <-t.mu.none:
		default:
			close(t.mu.none)
		}
	}
}

// Drain takes no further streams and waits until those that stand have ended, as their agents turn to another writer;
// or until ctx ends.
func (t *Taker) Drain(ctx context.Context) error {
	t.mu.Lock()
	t.mu.draining = true
	t.checkNone()
	t.mu.Unlock()
	select {
	case <-t.mu.none:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other agents to hand over elsewhere: %w", ctx.Err())
	}
}

// Close ends the streams that are left, each when it has sent all its results, for which the writer has been stopped; or
// when that takes too long.
func (t *Taker) Close() {
	t.mu.Lock()
	t.mu.draining = true
	t.checkNone()
	for s := range t.mu.streams {
		s.finish()
	}
	t.mu.Unlock()
	select {
	case <-t.mu.none:
		return
	case <-time.After(lastResults):
	}
	t.mu.Lock()
	for s := range t.mu.streams {
		s.end(errEnded)
	}
	t.mu.Unlock()
	<-t.mu.none
}

// lastResults bounds the sending of results when the agent stops.
const lastResults = 500 * time.Millisecond

// DefaultLargeBytes is the default of TakerConfig.LargeBytes.
const DefaultLargeBytes = 64 << 20

// maxStreams bounds the streams of one agent. It uses one, beside those that it lets go until they are settled, or whose end
// has not arrived yet. A further one ends the oldest.
const maxStreams = 8

var (
	errEnded   = errors.New("stream ended")
	errSurplus = errors.New("its agent has opened too many others")
)
