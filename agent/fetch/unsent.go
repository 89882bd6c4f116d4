package fetch

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/agent/cache"
)

// unsent bounds the record bytes of answers, from the read until the answer is written. At the bound, answers shrink to
// their first batch, which is copied so that it pins nothing but its own bytes. At twice the bound, fetches wait in the
// order in which they came until answers are released. While fetches wait, reclaim is called every reclaimPause.
type unsent struct {
	limit   int64
	reclaim func()
	held    atomic.Int64
	waiting atomic.Int64 // fetches in line

	mu struct {
		sync.Mutex
		line     list.List // of chan struct{}, the first to be admitted in front
		reserved int64     // for admitted fetches that have not read yet
		timed    bool      // reclaimForLine is due
	}
}

const (
	// reclaimPause is the time between calls of reclaim.
	reclaimPause = 50 * time.Millisecond
	// firstBatch is reserved for each admitted fetch until it has read: without it, one release would admit the whole line.
	// It is the usual maximum of a batch.
	firstBatch = 1 << 20
)

// await waits until there is room for a first batch. read must be called once the fetch has read. ok is false if ctx ended
// before.
func (u *unsent) await(ctx context.Context) (read func(), ok bool) {
	if u.waiting.Load() == 0 && u.held.Load() < 2*u.limit {
		return func() {}, true
	}
	admitted := make(chan struct{})
	u.mu.Lock()
	place := u.mu.line.PushBack(admitted)
	u.waiting.Add(1)
	u.admit() // a release since the check above saw no line
	u.setTimer()
	u.mu.Unlock()
	select {
	case <-admitted:
		return u.read, true
	case <-ctx.Done():
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-admitted:
		u.mu.reserved -= u.reservation()
	default:
		u.mu.line.Remove(place)
		u.waiting.Add(-1)
	}
	u.admit()
	return nil, false
}

// reservation returns the bytes reserved for an admitted fetch.
func (u *unsent) reservation() int64 { return min(firstBatch, u.limit) }

// read ends the reservation of an admitted fetch.
func (u *unsent) read() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.reserved -= u.reservation()
	u.admit()
}

// admit wakes fetches from the front of the line while there is room. Called with mu held.
func (u *unsent) admit() {
	for u.mu.line.Len() > 0 && u.held.Load()+u.mu.reserved < 2*u.limit {
		u.mu.reserved += u.reservation()
		close(u.mu.line.Remove(u.mu.line.Front()).(chan struct{}))
		u.waiting.Add(-1)
	}
}

// release gives back bytes of an answer.
func (u *unsent) release(bytes int64) {
	u.held.Add(-bytes)
	if u.waiting.Load() > 0 {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.admit()
	}
}

// setTimer calls reclaimForLine after a pause if fetches wait. Called with mu held.
func (u *unsent) setTimer() {
	if u.mu.line.Len() > 0 && !u.mu.timed {
		u.mu.timed = true
		time.AfterFunc(reclaimPause, u.reclaimForLine)
	}
}

// reclaimForLine calls reclaim, and itself again after a pause as long as fetches wait.
func (u *unsent) reclaimForLine() {
	if u.waiting.Load() > 0 {
		u.reclaim()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.timed = false
	u.setTimer()
}

// pressed reports whether answers have used up their memory, or pin too much that has left the cache.
func (f *Fetcher) pressed() bool { return f.unsent.held.Load() >= f.unsent.limit || f.cfg.Pressed() }

// keep adds bytes [from, to) of b to the partition's records. Under pressure they are copied, because a batch pins the
// whole bundle that it lies in.
func (r *reader) keep(b *cache.Bytes, from, to int) {
	size := to - from
	r.result.Size += size
	r.resp.hold(&r.f.unsent, size)
	if !r.single {
		r.result.Records = b.Append(r.result.Records, from, to)
		r.resp.held = append(r.resp.held, b)
		return
	}
	copied := make([]byte, 0, size)
	for _, p := range b.Append(nil, from, to) {
		copied = append(copied, p...)
	}
	r.result.Records = append(r.result.Records, copied)
	b.Release()
}
