package kafka

import (
	"maps"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
)

// recent remembers names for a time, by a hash: names are as long as clients make them.
type recent struct {
	pause time.Duration // how long a name is remembered
	max   int           // number of names remembered

	mu    sync.Mutex
	names map[uint64]time.Time
	swept time.Time // when expired entries were last removed
}

// newRecent returns an empty memory of at most limit names, each for pause.
func newRecent(pause time.Duration, limit int) *recent {
	return &recent{pause: pause, max: limit, names: make(map[uint64]time.Time)}
}

// allow reports whether a name is new, and remembers it. It returns true at most once per pause and name, and false while max
// other names are remembered.
func (r *recent) allow(name string, now time.Time) bool {
	hash := xxhash.Sum64String(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.names[hash]; ok && now.Sub(last) < r.pause {
		return false
	}
	if len(r.names) >= r.max {
		r.sweep(now)
		if len(r.names) >= r.max {
			return false
		}
	}
	r.names[hash] = now
	return true
}

// first reports whether a name is new, or was new less than window ago, and remembers it for the pause. It returns false while max other
// names are remembered.
func (r *recent) first(name string, now time.Time, window time.Duration) bool {
	if r.allow(name, now) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.names[xxhash.Sum64String(name)]
	return ok && now.Sub(at) < window
}

// len returns the number of names remembered.
func (r *recent) len(now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep(now)
	return len(r.names)
}

// sweep removes expired names, at most once a second. The caller holds mu.
func (r *recent) sweep(now time.Time) {
	if now.Sub(r.swept) < time.Second {
		return
	}
	r.swept = now
	maps.DeleteFunc(r.names, func(_ uint64, last time.Time) bool { return now.Sub(last) >= r.pause })
}
