package latency

import (
	"context"
	"sync"
	"time"

	"github.com/freshet-io/freshet/objstore"
)

// keepBytes is how much of the newest objects a bucket keeps: far more than consumers at the end are behind.
const keepBytes = 512 * mib

// putBucket notes how long each PUT took, and forgets old objects.
type putBucket struct {
	objstore.Bucket
	store objstore.Bucket // the same, without its latency

	mu    sync.Mutex
	puts  []time.Duration
	keys  map[string]struct{} // put since the last take
	count int                 // PUTs begun since the last take
	kept  []objstore.Info     // oldest first
	bytes int64               // of kept
}

// Put notes its duration.
func (b *putBucket) Put(ctx context.Context, key string, body objstore.Body) error {
	b.mu.Lock()
	b.count++
	b.mu.Unlock()
	began := time.Now()
	err := b.Bucket.Put(ctx, key, body)
	took := time.Since(began)
	if err != nil {
		return err
	}
	return b.store.Delete(context.WithoutCancel(ctx), b.note(key, body.Size, took))
}

// note gives the keys of what is to be forgotten.
func (b *putBucket) note(key string, size int64, took time.Duration) (old []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keys == nil {
		b.keys = map[string]struct{}{}
	}
	b.puts = append(b.puts, took)
	b.keys[key] = struct{}{}
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
	bundles   int // different keys
	seconds   float64
}

// take gives the PUTs since the last take.
func (b *putBucket) take() puts {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := puts{durations: b.puts, begun: b.count, bundles: len(b.keys)}
	b.puts, b.keys, b.count = nil, nil, 0
	return p
}
