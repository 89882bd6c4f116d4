package fetch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/agent/cache"
)

// unsent bounds the record bytes of answers, from when they are read until they were written. At the bound answers
// shrink to their first batch, which is copied, so that it holds nothing but its own bytes; at twice the bound
// fetches wait.
type unsent struct {
	limit int64
	held  atomic.Int64
}

// roomPause is between looks for room.
const roomPause = 50 * time.Millisecond

// await waits until there is room for a first batch, calling reclaim meanwhile; false if ctx ended before.
func (u *unsent) await(ctx context.Context, reclaim func()) bool {
	if u.held.Load() < 2*u.limit {
		return true
	}
	tick := time.NewTicker(roomPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if u.held.Load() < 2*u.limit {
				return true
			}
			reclaim()
		case <-ctx.Done():
			return false
		}
	}
}

// pressed tells whether answers have used up their memory, or pin too much that has left the cache.
func (f *Fetcher) pressed() bool { return f.unsent.held.Load() >= f.unsent.limit || f.cfg.Pressed() }

// keep adds bytes [from, to) of b to what the partition brings. Under pressure they are copied, because a batch pins
// the whole bundle that it lies in.
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
