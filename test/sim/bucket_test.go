package sim

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"sync/atomic"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
)

// audited is the store's last stop. It sees every attempt to put, those too that come too late to win, and counts
// attempts whose bytes are not what their checksum says: somebody reused the buffers.
type audited struct {
	*mem.Bucket
	puts, torn atomic.Int64
}

func (a *audited) Put(ctx context.Context, key string, body objstore.Body) error {
	a.puts.Add(1)
	sum := uint32(0)
	for _, b := range body.Buffers {
		sum = crc32.Update(sum, objstore.Castagnoli, b)
	}
	if sum != body.CRC32C {
		a.torn.Add(1)
	}
	return a.Bucket.Put(ctx, key, body)
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
