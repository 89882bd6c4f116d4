package zonewriter

import (
	"bufio"
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
	own     Own
	silence time.Duration
	log     *zap.Logger
	metrics *takerMetrics

	large *semaphore.Weighted // bytes of large batches on their way into the writer's memory

	mu struct {
		sync.Mutex
		draining bool
		streams  map[*intake]struct{}
		none     chan struct{} // closed when draining and there is no stream
	}
}

// NewTaker makes a Taker for the agent's own writer. silence is how long another agent may say nothing before it is given
// up; 0: DefaultSilence.
func NewTaker(own Own, silence time.Duration, log *zap.Logger, reg prometheus.Registerer) *Taker {
	def(&silence, DefaultSilence)
	t := &Taker{own: own, silence: silence, log: log, metrics: newTakerMetrics(reg), large: semaphore.NewWeighted(largeBytes)}
	t.mu.streams = make(map[*intake]struct{})
	t.mu.none = make(chan struct{})
	return t
}

// Serve takes what comes on one stream until it ends; the connection is closed then. from is the other agent.
func (t *Taker) Serve(conn net.Conn, in *bufio.Reader, from id.Session) {
	s := &intake{
		taker: t, conn: conn, in: in, frames: make(chan frame, window/frameOverhead), window: semaphore.NewWeighted(window),
		wake: make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if !t.enter(s) {
		_ = conn.Close()
		return
	}
	defer t.leave(s)
	t.log.Info("another agent of the zone hands its batches over", zap.Uint32("session", uint32(from)))
	var work sync.WaitGroup
	work.Go(s.read)
	work.Go(s.answer)
	s.add()
	_ = conn.Close() // ends the other two
	work.Wait()
	t.log.Info("another agent of the zone hands nothing over any more", zap.Uint32("session", uint32(from)),
		zap.NamedError("reason", context.Cause(s.ctx)))
}

func (t *Taker) enter(s *intake) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.draining {
		return false
	}
	t.mu.streams[s] = struct{}{}
	t.metrics.streams.Set(float64(len(t.mu.streams)))
	return true
}

func (t *Taker) leave(s *intake) {
	s.cancel(errEnded)
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

// largeBytes bounds the bytes of batches above window that are being taken in, of all streams; one batch at least.
const largeBytes = 64 << 20

var errEnded = errors.New("stream ended")

// intake is one stream.
type intake struct {
	taker  *Taker
	conn   net.Conn
	in     *bufio.Reader
	ctx    context.Context // ends with the stream
	cancel context.CancelCauseFunc
	frames chan frame          // read and not added
	window *semaphore.Weighted // of the bytes of those: as the sender counts them
	wake   chan struct{}       // capacity 1: there may be something to answer

	mu struct {
		sync.Mutex
		taken     uint64 // last frame added
		pending   int    // frames added whose results are not known
		settled   []settled
		finishing bool // to end when all results are sent
	}
}

// end ends the stream at once.
func (s *intake) end(why error) {
	s.cancel(why)
	_ = s.conn.Close()
}

// finish ends the stream when all results are sent.
func (s *intake) finish() {
	s.mu.Lock()
	s.mu.finishing = true
	s.mu.Unlock()
	s.poke()
}

// frame is batches that came, or a wish to have them sealed.
type frame struct {
	number  uint64
	batches []writer.Batch
	buffer  *[]byte // under the batches
	bytes   int     // of the batches
	window  int64   // what it holds of intake.window
	large   int64   // bytes that it holds of Taker.large
}

// settled is a frame whose results are known.
type settled struct {
	number uint64
	done   *writer.Produce
}

// buffers are the memory of frames until they are added; larger ones are made for their batch.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, frameBytes); return &b }}

// read brings what comes in order.
func (s *intake) read() {
	defer close(s.frames)
	for {
		_ = s.conn.SetReadDeadline(time.Now().Add(s.taker.silence))
		h, err := readHead(s.in)
		if err != nil {
			s.cancel(err)
			return
		}
		var f frame
		switch h.kind {
		case kindAlive:
			continue
		case kindFlush:
		case kindBatches:
			if f, err = s.readBatches(h); err != nil {
				s.taker.metrics.refused.Inc()
				s.cancel(err)
				return
			}
		default:
			s.cancel(fmt.Errorf("%w: frame of kind %d", errProtocol, h.kind))
			return
		}
		select {
		case s.frames <- f:
		case <-s.ctx.Done():
			s.taker.large.Release(f.large)
			return
		}
	}
}

func (s *intake) readBatches(h head) (f frame, err error) {
	if h.number == 0 || h.count == 0 || h.count > maxFrameBatches {
		return f, fmt.Errorf("%w: frame %d of %d batches", errProtocol, h.number, h.count)
	}
	f = frame{number: h.number, batches: make([]writer.Batch, h.count), buffer: buffers.Get().(*[]byte)}
	buf := (*f.buffer)[:0]
	for i := range f.batches {
		var to place
		if to, err = readPlace(s.in); err == nil {
			err = s.admit(&f, to.size)
		}
		if err == nil {
			f.batches[i], buf, err = to.readBatch(s.in, buf)
		}
		if err != nil {
			s.taker.large.Release(f.large)
			return f, err
		}
	}
	if cap(buf) <= 2*frameBytes {
		*f.buffer = buf
	}
	return f, nil
}

// admit tells whether the next batch of a frame may be read: the bytes of frames that are not added are bounded, and a
// large batch comes alone, and waits for its turn.
func (s *intake) admit(f *frame, size uint32) error {
	f.bytes += int(size)
	if len(f.batches) > 1 && f.bytes > frameBytes {
		return fmt.Errorf("%w: %d batches of %d bytes or more in a frame", errProtocol, len(f.batches), f.bytes)
	}
	weight := min(int64(f.bytes+frameOverhead), window) - f.window
	if !s.window.TryAcquire(weight) {
		return fmt.Errorf("%w: more than the window", errProtocol)
	}
	f.window += weight
	if size <= window {
		return nil
	}
	large := min(int64(size), largeBytes)
	if err := s.taker.large.Acquire(s.ctx, large); err != nil {
		return fmt.Errorf("wait to take a large batch in: %w", err)
	}
	f.large = large
	return nil
}

// add hands the frames to the writer, in order, which may hold it up.
func (s *intake) add() {
	for f := range s.frames {
		if s.ctx.Err() != nil {
			s.taker.large.Release(f.large)
			continue // its sender has given it up, and may be writing what follows already
		}
		if f.batches == nil {
			s.taker.own.Flush()
			continue
		}
		p := s.taker.own.Add(s.ctx, f.batches)
		buffers.Put(f.buffer)
		s.window.Release(f.window)
		s.taker.large.Release(f.large)
		s.taker.metrics.bytes.Add(float64(f.bytes))
		s.mu.Lock()
		s.mu.taken = f.number
		s.mu.pending++
		s.mu.Unlock()
		number := f.number
		p.OnDone(func() { s.settle(settled{number, p}) })
		s.poke()
	}
}

func (s *intake) settle(r settled) {
	s.mu.Lock()
	s.mu.pending--
	s.mu.settled = append(s.mu.settled, r)
	s.mu.Unlock()
	s.poke()
}

func (s *intake) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// answer sends results, and which frames were taken in, until the stream ends.
func (s *intake) answer() {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	var out []byte
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		case <-s.wake:
		}
		s.mu.Lock()
		known, taken := s.mu.settled, s.mu.taken
		s.mu.settled = nil
		last := s.mu.finishing && s.mu.pending == 0
		s.mu.Unlock()
		out = head{kind: kindAlive, number: taken}.append(out[:0])
		for _, k := range known {
			results := k.done.Results()
			out = head{kindResults, uint16(len(results)), k.number}.append(out)
			for i := range results {
				out = appendResult(out, &results[i])
			}
		}
		_ = s.conn.SetWriteDeadline(time.Now().Add(s.taker.silence))
		if _, err := s.conn.Write(out); err != nil {
			s.end(fmt.Errorf("send results: %w", err))
			return
		}
		if last {
			s.end(errEnded)
			return
		}
	}
}
