package marker

import (
	"context"
	"fmt"
	"sync"

	"github.com/freshet-io/freshet/objstore"
)

// Gate is a bucket whose writes and deletions wait until the marker was compared. Reads pass at once: they harm nothing.
type Gate struct {
	objstore.Bucket
	open chan struct{}
	once sync.Once
}

var _ objstore.Bucket = (*Gate)(nil)

// NewGate returns a closed gate in front of the bucket.
func NewGate(bucket objstore.Bucket) *Gate { return &Gate{Bucket: bucket, open: make(chan struct{})} }

// Open lets everything pass from now on.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }

// Opened is closed when the gate is open.
func (g *Gate) Opened() <-chan struct{} { return g.open }

// wait waits for Open. An error is the context's: nothing happened.
func (g *Gate) wait(ctx context.Context) error {
	select {
	case <-g.open:
		return nil
	default:
	}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait until the bucket's cluster id was compared: %w", ctx.Err())
	}
}

// Put implements objstore.Bucket.
func (g *Gate) Put(ctx context.Context, key string, body objstore.Body) error {
	if err := g.wait(ctx); err != nil {
		return err
	}
	return g.Bucket.Put(ctx, key, body)
}

// Delete implements objstore.Bucket.
func (g *Gate) Delete(ctx context.Context, keys []string) error {
	if err := g.wait(ctx); err != nil {
		return err
	}
	return g.Bucket.Delete(ctx, keys)
}

// Create implements objstore.Bucket.
func (g *Gate) Create(ctx context.Context, key string) (objstore.Upload, error) {
	if err := g.wait(ctx); err != nil {
		return nil, err
	}
	return g.Bucket.Create(ctx, key)
}

// AbortUpload implements objstore.Bucket.
func (g *Gate) AbortUpload(ctx context.Context, upload objstore.UploadInfo) error {
	if err := g.wait(ctx); err != nil {
		return err
	}
	return g.Bucket.AbortUpload(ctx, upload)
}
