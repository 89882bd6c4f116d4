package latency

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/freshet-io/freshet/objstore"
)

// keepBytes is how much of the newest objects a bucket keeps: far more than consumers at the end are behind.
const keepBytes = 512 * mib

// putBucket notes how long each PUT took, and when bundles were begun and known to be stored, and forgets old objects.
type putBucket struct {
	objstore.Bucket
	store objstore.Bucket // the same, without its latency

	mu      sync.Mutex
	puts    []time.Duration
	bundles map[string]stored // that were begun or stored since the last take
	count   int               // PUTs begun since the last take
	kept    []objstore.Info   // oldest first
	bytes   int64             // of kept
}

// stored is one bundle: its first PUT began, a PUT of it or a look at it succeeded. Zero: not since the last take.
type stored struct{ began, ended time.Time }

// Put notes its duration.
func (b *putBucket) Put(ctx context.Context, key string, body objstore.Body) error {
	began := time.Now()
	b.begin(key, began)
	err := b.Bucket.Put(ctx, key, body)
	took := time.Since(began)
	if err != nil {
		return err
	}
	b.end(key)
	return b.store.Delete(context.WithoutCancel(ctx), b.note(key, body.Size, took))
}

// Head may be how a bundle turns out to be stored whose PUT was hedged.
func (b *putBucket) Head(ctx context.Context, key string) (objstore.Info, error) {
	info, err := b.Bucket.Head(ctx, key)
	if err == nil {
		b.end(key)
	}
	return info, err
}

func (b *putBucket) begin(key string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count++
	if _, hedge := b.bundles[key]; !hedge {
		b.set(key, stored{began: now})
	}
}

func (b *putBucket) end(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.bundles[key]; s.ended.IsZero() {
		b.set(key, stored{s.began, time.Now()})
	}
}

// set is called with mu held.
func (b *putBucket) set(key string, s stored) {
	if b.bundles == nil {
		b.bundles = map[string]stored{}
	}
	b.bundles[key] = s
}

// note gives the keys of what is to be forgotten.
func (b *putBucket) note(key string, size int64, took time.Duration) (old []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.puts = append(b.puts, took)
	b.kept, b.bytes = append(b.kept, objstore.Info{Key: key, Size: size}), b.bytes+size
	for b.bytes > keepBytes {
		old = append(old, b.kept[0].Key)
		b.bytes -= b.kept[0].Size
		b.kept = b.kept[1:]
	}
	return old
}

// puts are those of a while.
type puts struct {
	durations []time.Duration // of those that succeeded
	begun     int
	bundles   []stored
	seconds   float64
}

// take gives the PUTs since the last take.
func (b *putBucket) take() puts {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := puts{durations: b.puts, begun: b.count, bundles: slices.Collect(maps.Values(b.bundles))}
	b.puts, b.bundles, b.count = nil, nil, 0
	return p
}

// sealed is how many bundles were stored.
func (p *puts) sealed() (n int) {
	for _, s := range p.bundles {
		if !s.ended.IsZero() {
			n++
		}
	}
	return n
}
