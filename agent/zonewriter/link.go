package zonewriter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

var (
	// errBroken: the stream to the writer is gone.
	errBroken = errors.New("stream to the zone's writer is broken")
	// errLeft: this agent turns to another writer.
	errLeft = errors.New("the zone's writer is left")
)

// link is a stream to another agent's writer. Callers of add hold the route's intake.
type link struct {
	session id.Session // the writer's
	silence time.Duration
	conn    net.Conn
	in      *bufio.Reader
	window  *semaphore.Weighted
	asking  *semaphore.Weighted // held by the one batch above the window that asks for room; in order of arrival
	wake    chan struct{}       // capacity 1: there may be bytes to flush
	broken  chan struct{}       // closed when the stream is gone
	// draining is closed when the writer says that it takes no more.
	draining     chan struct{}
	saysDraining sync.Once
	// leaving is closed when nobody is to wait for the writer any more.
	leaving  chan struct{}
	leaveNow sync.Once
	first    chan struct{} // closed by the writer's first beat
	beat     atomic.Uint64 // the writer's last one
	unfit    atomic.Bool   // what it says with it: it does not reach the object store or the owner
	onUnfit  func()        // called with each such beat once the stream is used
	used     atomic.Bool   // batches were handed over

	send struct {
		turn    chan struct{} // capacity 1: holds a token while somebody writes, which may take a while
		out     *bufio.Writer
		scratch []byte
	}
	mu struct {
		sync.Mutex
		err     error
		last    uint64           // number of the newest frame
		oldest  uint64           // number of the oldest frame that may be without all its results
		frames  map[uint64]*sent // without all their results
		untaken []untaken        // in order
		asks    uint16           // number of the last
		room    chan struct{}    // closed when there is room for a large batch; nil: none is asked for
		// held has the newest held batch of each partition that has any.
		held map[id.TopicPartition]*held
	}
}

// sent is a frame of batches that waits for results: those from first on of a Produce.
type sent struct {
	produce *writer.Produce
	first   int32
	count   int
	plain   bool // see isPlain
	at      time.Time
}

// untaken is what a frame holds of the window.
type untaken struct {
	number uint64
	weight int64
}

const (
	// window bounds the bytes handed over that the writer has not taken in. In-zone round trips are below a
	// millisecond, so that it does not bound the rate; it is what a writer holds for a sender beyond its own budget.
	window = 512 << 10
	// sendBuffer is how much is written at once at least, when much is to be sent.
	sendBuffer = 64 << 10
	// aliveEvery and DefaultSilence: each side says that often that it lives, and believes the other dead after that long.
	aliveEvery     = 500 * time.Millisecond
	DefaultSilence = 3 * time.Second
	// largeTimeout bounds the sending of one batch in pieces. All other frames wait, because none may come between pieces.
	largeTimeout = 30 * time.Second
	// settleTimeout bounds the wait for a frame's results, and so what this agent notes of frames. A writer takes a minute at
	// most to store a bundle, and says so long before.
	settleTimeout = 2 * time.Minute
)

func newLink(session id.Session, conn net.Conn, in *bufio.Reader, silence time.Duration, onUnfit func()) *link {
	l := &link{
		session: session, silence: silence, conn: conn, in: in, window: semaphore.NewWeighted(window),
		asking: semaphore.NewWeighted(1),
		wake:   make(chan struct{}, 1), broken: make(chan struct{}), draining: make(chan struct{}),
		leaving: make(chan struct{}), first: make(chan struct{}), onUnfit: onUnfit,
	}
	l.send.turn, l.send.out = make(chan struct{}, 1), bufio.NewWriterSize(conn, sendBuffer)
	l.mu.frames, l.mu.held = make(map[uint64]*sent), make(map[id.TopicPartition]*held)
	return l
}

// run receives until the stream is gone; everything without a result then has one. It gives what ended it.
func (l *link) run() error {
	var flusher sync.WaitGroup
	flusher.Go(l.flushes)
	l.fail(l.receive())
	flusher.Wait()
	return l.failure()
}

// failure returns the error that ended the stream.
func (l *link) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.err
}

// alive reports whether the stream is not broken.
func (l *link) alive() bool {
	select {
	case <-l.broken:
		return false
	default:
		return true
	}
}

// fail gives the stream up: what was on its way is not known.
func (l *link) fail(err error) {
	l.mu.Lock()
	if l.mu.err != nil {
		l.mu.Unlock()
		return
	}
	l.mu.err = fmt.Errorf("%w: %w", errBroken, err)
	frames := l.mu.frames
	l.mu.frames = nil
	close(l.broken)
	l.mu.Unlock()
	_ = l.conn.Close()
	for _, f := range frames {
		f.lose(l.mu.err)
	}
}

// lose ends the frame's batches that have no result: what became of them is not known.
func (f *sent) lose(why error) {
	lost := writer.Failed(fmt.Errorf("%w: %w", writer.ErrUnknownOutcome, why))
	for i := range f.count {
		f.produce.Resolve(f.first+int32(i), lost)
	}
}

// overdue reports whether the writer owes results for longer than settleTimeout.
func (l *link) overdue(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; l.mu.oldest <= l.mu.last; l.mu.oldest++ {
		if f := l.mu.frames[l.mu.oldest]; f != nil {
			return now.Sub(f.at) > settleTimeout
		}
	}
	return false
}

// loseSequenced ends the wait for what sequence numbers keep in order, whichever way it comes again.
func (l *link) loseSequenced() {
	var lost []*sent
	l.mu.Lock()
	for _, f := range l.mu.frames {
		if !f.plain {
			lost = append(lost, f) // and stays: its results may come
		}
	}
	l.mu.Unlock()
	for _, f := range lost {
		f.lose(errStuck)
	}
}

// add hands the batches over, in order. It waits while the writer does not take in earlier frames. It returns the held batches,
// which the caller must pass to sendHeld. Batches that are not sent when ctx ends have no effect. Only one add runs at a time.
func (l *link) add(ctx context.Context, batches []writer.Batch, p *writer.Produce) (waiting []*held) {
	for first := 0; first < len(batches); {
		if h := l.hold(&batches[first], first); h != nil {
			waiting = append(waiting, h)
			first++
			continue
		}
		n, bytes := 1, len(batches[first].Bytes)
		for first+n < len(batches) && n < maxFrameBatches && bytes+len(batches[first+n].Bytes) <= frameBytes &&
			!l.holds(&batches[first+n]) {
			bytes += len(batches[first+n].Bytes)
			n++
		}
		if err := l.frame(ctx, batches[first:first+n], bytes, p, int32(first)); err != nil {
			for i := first; i < len(batches); i++ {
				p.Resolve(int32(i), writer.Failed(err))
			}
			return waiting
		}
		first += n
	}
	return waiting
}

// frame sends one frame of batches. After an error, none of the batches takes effect.
func (l *link) frame(ctx context.Context, batches []writer.Batch, bytes int, p *writer.Produce, first int32) error {
	weight := min(int64(bytes+frameOverhead), window)
	if err := l.acquire(ctx, l.window, weight); err != nil {
		return err
	}
	if err := l.awaitTurn(ctx); err != nil {
		l.window.Release(weight)
		return err
	}
	defer l.endTurn()
	l.mu.Lock()
	if l.mu.err != nil {
		l.mu.Unlock()
		return fmt.Errorf("%w: %w", writer.ErrNotTaken, errBroken)
	}
	l.mu.last++
	number := l.mu.last
	l.mu.frames[number] = &sent{p, first, len(batches), isPlain(batches), time.Now()}
	l.mu.untaken = append(l.mu.untaken, untaken{number, weight})
	l.mu.Unlock()
	if err := l.put(head{kindBatches, uint16(len(batches)), number}, batches); err != nil {
		l.fail(err) // which answers for this frame too
	}
	return nil
}

// acquire acquires weight of a semaphore. It fails once this agent leaves the writer.
func (l *link) acquire(ctx context.Context, of *semaphore.Weighted, weight int64) error {
	if of.TryAcquire(weight) {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-l.broken:
			cancel()
		case <-l.leaving:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := of.Acquire(ctx, weight); err != nil {
		return fmt.Errorf("%w: the zone's writer takes in nothing: %w", writer.ErrNotTaken, err)
	}
	return nil
}

// leave has nobody wait for the writer to take something in any more.
func (l *link) leave() { l.leaveNow.Do(func() { close(l.leaving) }) }

// receive takes results in until the stream ends.
func (l *link) receive() error {
	for {
		_ = l.conn.SetReadDeadline(time.Now().Add(l.silence))
		h, err := readHead(l.in)
		if err != nil {
			return err
		}
		switch h.kind {
		case kindAlive:
			l.taken(h.number)
		case kindBeat:
			if h.number == 0 {
				return fmt.Errorf("%w: beat 0", errProtocol)
			}
			l.beats(h)
		case kindRoom:
			l.hasRoom(h.count)
		case kindResults:
			if err := l.results(h); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: frame of kind %d", errProtocol, h.kind)
		}
	}
}

// beats takes a beat. It is told to the writer that it came: see lease.
func (l *link) beats(h head) {
	l.unfit.Store(h.count == beatUnfit)
	if l.beat.Swap(h.number) == 0 {
		close(l.first)
	}
	if h.count == beatUnfit && l.used.Load() {
		l.onUnfit()
	}
}

// taken gives the window back what frames up to a number held.
func (l *link) taken(number uint64) {
	l.mu.Lock()
	var weight int64
	for len(l.mu.untaken) > 0 && l.mu.untaken[0].number <= number {
		weight += l.mu.untaken[0].weight
		l.mu.untaken = l.mu.untaken[1:]
	}
	l.mu.Unlock()
	if weight > 0 {
		l.window.Release(weight)
	}
}

func (l *link) results(h head) error {
	l.mu.Lock()
	f := l.mu.frames[h.number]
	if f == nil || f.count != int(h.count) {
		l.mu.Unlock()
		return fmt.Errorf("%w: %d results of frame %d, which is not waited for", errProtocol, h.count, h.number)
	}
	delete(l.mu.frames, h.number)
	l.mu.Unlock()
	for i := range f.count {
		var raw [resultSize]byte
		if _, err := io.ReadFull(l.in, raw[:]); err != nil {
			lost := writer.Failed(fmt.Errorf("%w: %w", writer.ErrUnknownOutcome, err))
			for ; i < f.count; i++ {
				f.produce.Resolve(f.first+int32(i), lost)
			}
			return fmt.Errorf("read results: %w", err)
		}
		r := decodeResult(raw[:])
		if r.Err == nil && (r.Outcome > commit.InvalidTxn || r.Outcome == commit.Gap) {
			r = writer.Failed(fmt.Errorf("%w: outcome %d", writer.ErrUnknownOutcome, r.Outcome))
		}
		if errors.Is(r.Err, writer.ErrDraining) {
			l.saysDraining.Do(func() { close(l.draining) })
		}
		f.produce.Resolve(f.first+int32(i), r)
	}
	return nil
}
