package edge

import (
	"sync"
	"sync/atomic"
	"time"
)

// item is a request between its start and its answer.
type item struct {
	wait          func() Reply    // nil: close the connection here
	done          <-chan struct{} // closed when wait returns at once; nil: not known
	frame         *frame
	key           int16
	version       int16
	correlationID int32
	arrived       time.Time
	reason        closeReason // with a nil wait
}

// queue holds the unanswered requests of one connection in order. The reader pushes, the writer takes.
type queue struct {
	maxItems int
	maxBytes int64

	mu struct {
		sync.Mutex
		items    []item
		head     int // items before head were taken
		pending  int // pushed and not yet answered
		overlaps int // of these, those of APIs that overlap only themselves (Produce)
		bytes    int64
		closed   bool
	}
	inFlight           atomic.Int32  // copy of mu.pending
	toReader, toWriter chan struct{} // of capacity 1: something changed
}

func newQueue(maxItems int, maxBytes int64) *queue {
	return &queue{
		maxItems: maxItems, maxBytes: maxBytes,
		toReader: make(chan struct{}, 1), toWriter: make(chan struct{}, 1),
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// until waits on the reader's side until ready, called under the lock, is true. False: stop was closed before. Where both
// are true the reader goes on: an answer that cannot be written any more must not hide the requests read with its own.
func (q *queue) until(stop <-chan struct{}, ready func() bool) bool {
	for stopped := false; ; {
		q.mu.Lock()
		ok := ready()
		q.mu.Unlock()
		if ok || stopped {
			return ok
		}
		select {
		case <-q.toReader:
		case <-stop:
			stopped = true
		}
	}
}

// room waits until the connection may hold one more request.
func (q *queue) room(stop <-chan struct{}) bool {
	return q.until(stop, func() bool {
		return q.mu.pending < q.maxItems && q.mu.bytes < q.maxBytes
	})
}

// turn waits until every request before that does not overlap was answered.
func (q *queue) turn(stop <-chan struct{}) bool {
	return q.until(stop, func() bool { return q.mu.pending == q.mu.overlaps })
}

// push adds a started request.
func (q *queue) push(it item) {
	q.mu.Lock()
	if q.mu.head > 0 && len(q.mu.items) == cap(q.mu.items) { // those taken make room: there may always be one that waits
		n := copy(q.mu.items, q.mu.items[q.mu.head:])
		clear(q.mu.items[n:])
		q.mu.items, q.mu.head = q.mu.items[:n], 0
	}
	q.mu.items = append(q.mu.items, it)
	q.mu.pending++
	q.inFlight.Store(int32(q.mu.pending))
	if overlaps(it.key) {
		q.mu.overlaps++
	}
	q.mu.Unlock()
	signal(q.toWriter)
}

// next takes the oldest request, waiting for one. False: closed, and all were taken.
func (q *queue) next() (item, bool) {
	for {
		q.mu.Lock()
		if q.mu.head < len(q.mu.items) {
			it := q.mu.items[q.mu.head]
			q.mu.items[q.mu.head] = item{}
			if q.mu.head++; q.mu.head == len(q.mu.items) {
				q.mu.items, q.mu.head = q.mu.items[:0], 0
			}
			q.mu.Unlock()
			return it, true
		}
		closed := q.mu.closed
		q.mu.Unlock()
		if closed {
			return item{}, false
		}
		<-q.toWriter
	}
}

// ready tells whether the oldest request is there and has its answer.
func (q *queue) ready() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.head == len(q.mu.items) {
		return false
	}
	select {
	case <-q.mu.items[q.mu.head].done:
		return true
	default:
		return false
	}
}

// answered says that a request of next has its answer.
func (q *queue) answered(it item) {
	q.mu.Lock()
	q.mu.pending--
	q.inFlight.Store(int32(q.mu.pending))
	if overlaps(it.key) {
		q.mu.overlaps--
	}
	q.mu.Unlock()
	signal(q.toReader)
}

// held and freed count the bytes of the connection's frames.
func (q *queue) held(bytes int64) {
	q.mu.Lock()
	q.mu.bytes += bytes
	q.mu.Unlock()
}

func (q *queue) freed(bytes int64) {
	q.mu.Lock()
	q.mu.bytes -= bytes
	q.mu.Unlock()
	signal(q.toReader)
}

// close says that nothing more is pushed.
func (q *queue) close() {
	q.mu.Lock()
	q.mu.closed = true
	q.mu.Unlock()
	signal(q.toWriter)
}

// idle tells whether nothing waits for an answer.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.pending == 0
}
