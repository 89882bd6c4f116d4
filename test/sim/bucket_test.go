package sim

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
)

// audited is the store's last stop. It sees every attempt to put a bundle, those too that come too late to win, and
// counts attempts whose bytes are not what their checksum says: somebody reused the buffers.
type audited struct {
	*mem.Bucket
	keep   int64 // bytes of newest bundles kept, for long runs; 0: all
	dawdle int64 // every such bundle is read slowly, for as long as it takes, whoever gives the put up; 0: none

	puts, gets, torn, dawdled atomic.Int64 // of bundles

	mu   sync.Mutex
	kept []objstore.Info // in order of their puts, if keep
	size int64
}

func (a *audited) Put(ctx context.Context, key string, body objstore.Body) error {
	if !strings.HasPrefix(key, bundlePrefix) {
		return a.Bucket.Put(ctx, key, body)
	}
	n := a.puts.Add(1)
	slow := a.dawdle > 0 && n%a.dawdle == 0
	sum := uint32(0)
	for _, b := range body.Buffers {
		if slow {
			<-time.After(500 * time.Millisecond / time.Duration(len(body.Buffers)))
		}
		sum = crc32.Update(sum, objstore.Castagnoli, b)
	}
	if slow {
		a.dawdled.Add(1)
	}
	if sum != body.CRC32C {
		a.torn.Add(1)
	}
	err := a.Bucket.Put(ctx, key, body)
	if err == nil && a.keep > 0 {
		a.forget(objstore.Info{Key: key, Size: body.Size})
	}
	return err
}

func (a *audited) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if strings.HasPrefix(key, bundlePrefix) {
		a.gets.Add(1)
	}
	return a.Bucket.Get(ctx, key, offset, length)
}

// forget deletes the oldest bundles beyond what is kept.
func (a *audited) forget(added objstore.Info) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept = append(a.kept, added)
	a.size += added.Size
	for a.size > a.keep {
		_ = a.Delete(context.Background(), []string{a.kept[0].Key}) // memory refuses nothing
		a.size -= a.kept[0].Size
		a.kept = a.kept[1:]
	}
}

// tornObjects reads every object and gives the keys of those whose bytes are not what they were put with.
func (a *audited) tornObjects(ctx context.Context) (torn []string, objects int, err error) {
	for after := ""; ; {
		page, err := a.List(ctx, "", after, objstore.MaxKeys)
		if err != nil || len(page) == 0 {
			return torn, objects, err
		}
		for _, info := range page {
			after = info.Key
			objects++
			head, err := a.Head(ctx, info.Key)
			if err != nil {
				return torn, objects, err
			}
			r, err := a.Get(ctx, info.Key, 0, -1)
			if err != nil {
				return torn, objects, err
			}
			data, err := io.ReadAll(r)
			if err = errors.Join(err, r.Close()); err != nil {
				return torn, objects, err
			}
			if crc32.Checksum(data, objstore.Castagnoli) != head.CRC32C {
				torn = append(torn, info.Key)
			}
		}
	}
}

// shared is a bucket that outlives the agents that close it.
type shared struct{ objstore.Bucket }

func (shared) Close() error { return nil }
