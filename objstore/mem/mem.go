// Package mem is a bucket in memory, for tests and for one process that may forget.
package mem

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/objstore"
)

// Bucket holds objects in memory, ordered by key. Its time is time.Now.
type Bucket struct {
	mu struct {
		sync.RWMutex
		objects    btree.Map[string, object]
		uploads    map[string]*upload // under way, by id
		nextUpload uint64
	}
}

// object is immutable once stored.
type object struct {
	data     []byte
	modified time.Time
	crc      uint32
}

var _ objstore.Bucket = (*Bucket)(nil)

// New gives an empty bucket.
func New() *Bucket { return &Bucket{} }

// Put copies the buffers and creates the object. Errors: ErrAlreadyExists, ErrChecksum.
func (b *Bucket) Put(ctx context.Context, key string, body objstore.Body) error {
	if err := check(ctx, key); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	if err := body.CheckSize(); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	data := bytes.Join(body.Buffers, nil)
	if crc := crc32.Checksum(data, objstore.Castagnoli); crc != body.CRC32C {
		return fmt.Errorf("put %s: %w: given %08x, bytes have %08x", key, objstore.ErrChecksum, body.CRC32C, crc)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, taken := b.mu.objects.Get(key); taken {
		return fmt.Errorf("put %s: %w", key, objstore.ErrAlreadyExists)
	}
	b.mu.objects.Set(key, object{data: data, modified: time.Now(), crc: body.CRC32C})
	return nil
}

// Get opens a range of the object.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	o, err := b.find(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	from, n, ok := objstore.Range(offset, length, int64(len(o.data)))
	if !ok {
		return nil, fmt.Errorf("get %s at %d: %w", key, offset, objstore.ErrRange)
	}
	return io.NopCloser(bytes.NewReader(o.data[from : from+n])), nil
}

// Head describes the object.
func (b *Bucket) Head(ctx context.Context, key string) (objstore.Info, error) {
	o, err := b.find(ctx, key)
	if err != nil {
		return objstore.Info{}, fmt.Errorf("head: %w", err)
	}
	return objstore.Info{
		Key: key, Size: int64(len(o.data)), Modified: o.modified, CRC32C: o.crc, HasCRC: true,
	}, nil
}

// List gives one page of objects in key order.
func (b *Bucket) List(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	if err := objstore.CheckLimit(limit); err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	var page []objstore.Info
	b.mu.RLock()
	defer b.mu.RUnlock()
	b.mu.objects.Ascend(max(prefix, startAfter), func(key string, o object) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		if key > startAfter {
			page = append(page, objstore.Info{Key: key, Size: int64(len(o.data)), Modified: o.modified})
		}
		return len(page) < limit
	})
	return page, nil
}

// Delete removes the objects that exist.
func (b *Bucket) Delete(ctx context.Context, keys []string) error {
	if err := objstore.CheckKeys(keys); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		b.mu.objects.Delete(key)
	}
	return nil
}

// Now is this process's clock.
func (b *Bucket) Now(context.Context) (time.Time, error) { return time.Now(), nil }

// Close does nothing: the objects live as long as the bucket is referenced.
func (b *Bucket) Close() error { return nil }

func (b *Bucket) find(ctx context.Context, key string) (object, error) {
	if err := check(ctx, key); err != nil {
		return object{}, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	o, ok := b.mu.objects.Get(key)
	if !ok {
		return object{}, fmt.Errorf("%s: %w", key, objstore.ErrNotFound)
	}
	return o, nil
}

func check(ctx context.Context, key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	return ctx.Err()
}
