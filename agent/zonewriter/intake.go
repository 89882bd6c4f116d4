package zonewriter

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/agent/writer"
)

// intake is one stream of another agent's batches.
type intake struct {
	taker  *Taker
	number uint64 // in the order of arrival, of all streams
	conn   net.Conn
	in     *bufio.Reader
	ctx    context.Context // ends with the stream
	cancel context.CancelCauseFunc
	lease  *lease
	until  time.Time           // when the batch in pieces that is being read must be there; of read alone
	frames chan frame          // read and not added
	window *semaphore.Weighted // of the bytes of those: as the sender counts them
	arena  arena               // memory of those
	wake   chan struct{}       // capacity 1: there may be something to answer
	asked  chan struct{}       // capacity 1: mu.ask has changed

	waiting  atomic.Bool  // for the next frame, with nothing unread
	inFlight atomic.Int32 // frames read whose results are not known

	mu struct {
		sync.Mutex
		read      uint64                     // number of the last frame that came
		withdrawn uint64                     // frames up to it are not wanted
		adding    context.CancelFunc         // of the frame that is being added; nil: none
		added     map[uint64]*writer.Produce // frames added whose results are not known
		taken     uint64                     // last frame added, as its sender may be told
		settled   []settled
		finishing bool // to end when all results are sent
		ask       ask
	}
}

// frame is batches that came, or a wish to have them sealed.
type frame struct {
	number  uint64
	batches []writer.Batch
	rooms   []room // of the batches
	bytes   int    // of the batches
	window  int64  // what it holds of intake.window
	large   int64  // bytes that it holds of Taker.large
}

// settled is a frame whose results are known.
type settled struct {
	number uint64
	done   *writer.Produce
}

func newIntake(t *Taker, conn net.Conn, in *bufio.Reader) *intake {
	s := &intake{
		taker: t, conn: conn, in: in, lease: newLease(t.cfg.Silence), frames: make(chan frame, window/frameOverhead),
		window: semaphore.NewWeighted(window), wake: make(chan struct{}, 1), asked: make(chan struct{}, 1),
	}
	s.mu.added = make(map[uint64]*writer.Produce)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// end ends the stream at once. Its agent counts on nothing any more: what is not handed in for commit never will be.
func (s *intake) end(why error) {
	s.lease.end()
	s.cancel(why)
	_ = s.conn.Close()
	s.withdraw()
}

// withdraw ends what came so far and is not handed in for commit.
func (s *intake) withdraw() {
	s.mu.Lock()
	s.mu.withdrawn = s.mu.read
	if s.mu.adding != nil {
		s.mu.adding()
	}
	added := make([]*writer.Produce, 0, len(s.mu.added))
	for _, p := range s.mu.added {
		added = append(added, p)
	}
	s.mu.Unlock()
	for _, p := range added {
		p.Withdraw(writer.ErrWithdrawn)
	}
}

// finish ends the stream when all results are sent.
func (s *intake) finish() {
	s.mu.Lock()
	s.mu.finishing = true
	s.mu.Unlock()
	s.poke()
}

// read brings what comes in order.
func (s *intake) read() {
	defer close(s.frames)
	for {
		_ = s.conn.SetReadDeadline(time.Now().Add(s.taker.cfg.Silence))
		s.waiting.Store(s.in.Buffered() == 0)
		h, err := readHead(s.in)
		s.waiting.Store(false)
		if err == nil {
			err = s.take(h)
		}
		if err != nil {
			s.end(err)
			return
		}
	}
}

// heard is called before each piece of a large batch, with the beat that the sender has heard. It extends the read deadline
// by the silence, but not beyond the time that a whole batch may take.
func (s *intake) heard(beat uint64) {
	deadline := time.Now().Add(s.taker.cfg.Silence)
	if deadline.After(s.until) {
		deadline = s.until
	}
	_ = s.conn.SetReadDeadline(deadline)
	s.lease.heard(beat)
}

// take takes one frame in.
func (s *intake) take(h head) (err error) {
	var f frame
	switch h.kind {
	case kindAlive:
		s.lease.heard(h.number)
		return nil
	case kindWithdraw:
		s.withdraw()
		return nil
	case kindAsk:
		s.asks(h)
		return nil
	case kindFlush:
	case kindBatches:
		if f, err = s.readBatches(h); err != nil {
			s.taker.metrics.refused.Inc()
			return err
		}
	default:
		return fmt.Errorf("%w: frame of kind %d", errProtocol, h.kind)
	}
	select {
	case s.frames <- f:
		return nil
	case <-s.ctx.Done():
		s.release(&f)
		return context.Cause(s.ctx)
	}
}

func (s *intake) readBatches(h head) (f frame, err error) {
	s.mu.Lock()
	next := s.mu.read + 1
	s.mu.Unlock()
	if h.number != next || h.count == 0 || h.count > maxFrameBatches {
		return f, fmt.Errorf("%w: frame %d of %d batches", errProtocol, h.number, h.count)
	}
	f = frame{number: h.number, batches: make([]writer.Batch, h.count)}
	for i := range f.batches {
		var to place
		if to, err = readPlace(s.in); err == nil {
			err = s.admit(&f, to.size)
		}
		if err == nil {
			f.batches[i], f.rooms, err = to.readBatch(s.in, &s.arena, f.rooms, s.heard)
			f.batches[i].Lease = s.lease
		}
		if err != nil {
			s.release(&f)
			return f, err
		}
	}
	f.batches[0].Window = s
	s.inFlight.Add(1)
	s.mu.Lock()
	s.mu.read = f.number
	s.mu.Unlock()
	return f, nil
}

// Parked implements writer.Window for the stream: another agent is as one client, whose requests are its frames.
func (s *intake) Parked(frames int) bool {
	return s.waiting.Load() && int(s.inFlight.Load()) == frames
}

// admit tells whether the next batch of a frame may be read: the bytes of frames that are not added are bounded, and a
// large batch comes alone, when there is room for it.
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
	if size > pieceBytes {
		s.until = time.Now().Add(largeTimeout + s.taker.cfg.Silence)
	}
	if size <= window {
		return nil
	}
	if f.large = s.room(size); f.large == 0 {
		return fmt.Errorf("%w: a batch of %d bytes that there is no room for", errProtocol, size)
	}
	return nil
}

// add hands the frames to the writer, in order, which may hold it up.
func (s *intake) add() {
	for f := range s.frames {
		if f.batches == nil {
			s.taker.cfg.Own.Flush()
			continue
		}
		p := s.hand(&f)
		s.release(&f)
		if p == nil {
			continue
		}
		s.took(f.number) // only now: what its sender sends next needs what this frame held
		p.OnDone(func() { s.settle(settled{f.number, p}) })
	}
}

// release gives back what a frame holds.
func (s *intake) release(f *frame) {
	s.arena.release(f.rooms)
	s.window.Release(f.window)
	s.taker.large.Release(f.large)
}

// hand adds one frame. What has been withdrawn is not added; nil if nobody waits for its result either.
func (s *intake) hand(f *frame) *writer.Produce {
	if s.ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.mu.Lock()
	wanted := f.number > s.mu.withdrawn
	s.mu.adding = cancel
	s.mu.Unlock()
	var p *writer.Produce
	if wanted {
		p = s.taker.cfg.Own.Add(ctx, f.batches)
		s.taker.metrics.bytes.Add(float64(f.bytes))
	} else {
		p = refused(len(f.batches), writer.ErrWithdrawn)
	}
	s.mu.Lock()
	s.mu.adding = nil
	s.mu.added[f.number] = p
	wanted = f.number > s.mu.withdrawn
	s.mu.Unlock()
	if !wanted || s.ctx.Err() != nil {
		p.Withdraw(writer.ErrWithdrawn)
	}
	return p
}

// took notes that a frame holds nothing here any more.
func (s *intake) took(number uint64) {
	s.mu.Lock()
	s.mu.taken = number
	s.mu.Unlock()
	s.poke()
}

func (s *intake) settle(r settled) {
	s.inFlight.Add(-1)
	s.mu.Lock()
	delete(s.mu.added, r.number)
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

// answer sends results, which frames were taken in, and beats, until the stream ends.
func (s *intake) answer() {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	out := s.beat(nil)
	for {
		_ = s.conn.SetWriteDeadline(time.Now().Add(s.taker.cfg.Silence))
		if _, err := s.conn.Write(out); err != nil {
			s.end(fmt.Errorf("send results: %w", err))
			return
		}
		out = out[:0]
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			if s.roomUnused(time.Now()) {
				s.end(fmt.Errorf("%w: no batch came for the room that was asked for", errProtocol))
				return
			}
			out = s.beat(out)
		case <-s.wake:
		}
		var last bool
		if out, last = s.news(out); last {
			_, _ = s.conn.Write(out)
			s.end(errEnded)
			return
		}
	}
}

// beat appends a sign of life: its number, and whether others had better write themselves.
func (s *intake) beat(out []byte) []byte {
	h := head{kind: kindBeat, number: s.lease.beat()}
	if !s.taker.cfg.Fit() {
		h.count = beatUnfit
	}
	return h.append(out)
}

// news appends what has happened since; last tells that nothing more will.
func (s *intake) news(out []byte) (_ []byte, last bool) {
	s.mu.Lock()
	known, taken, room := s.mu.settled, s.mu.taken, s.mu.ask.news()
	s.mu.settled = nil
	last = s.mu.finishing && len(s.mu.added) == 0
	s.mu.Unlock()
	out = head{kind: kindAlive, number: taken}.append(out)
	if room != 0 {
		out = head{kind: kindRoom, count: room}.append(out)
	}
	for _, k := range known {
		results := k.done.Results()
		out = head{kindResults, uint16(len(results)), k.number}.append(out)
		for i := range results {
			out = appendResult(out, &results[i])
		}
	}
	return out, last
}
