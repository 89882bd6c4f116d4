package latency

import (
	"context"
	"fmt"

	"github.com/freshet-io/freshet/objstore"
)

// upload holds the answers of an upload back.
type upload struct {
	inner  objstore.Upload
	bucket *Bucket
	key    string
}

// Create creates and holds the answer back. An upload whose creator does not wait for it is left behind.
func (b *Bucket) Create(ctx context.Context, key string) (u objstore.Upload, err error) {
	err = b.write(ctx, objstore.OpCreateUpload, key, 0, func() error {
		u, err = b.inner.Create(ctx, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &upload{u, b, key}, nil
}

// Part puts a part and holds the answer back.
func (u *upload) Part(ctx context.Context, number int, offset int64, body objstore.Body) error {
	return u.bucket.write(ctx, objstore.OpPutPart, u.key, body.Size, func() error { return u.inner.Part(ctx, number, offset, body) })
}

// Complete completes and holds the answer back.
func (u *upload) Complete(ctx context.Context) error {
	return u.bucket.write(ctx, objstore.OpCompleteUpload, u.key, 0, func() error { return u.inner.Complete(ctx) })
}

// Abort aborts and holds the answer back.
func (u *upload) Abort(ctx context.Context) error {
	return u.bucket.write(ctx, objstore.OpAbortUpload, u.key, 0, func() error { return u.inner.Abort(ctx) })
}

// AbortUpload aborts and holds the answer back.
func (b *Bucket) AbortUpload(ctx context.Context, info objstore.UploadInfo) error {
	return b.write(ctx, objstore.OpAbortUpload, info.Key, 0, func() error { return b.inner.AbortUpload(ctx, info) })
}

func (b *Bucket) write(ctx context.Context, op objstore.Op, key string, size int64, request func() error) error {
	wait := b.begin(ctx, op, size)
	err := request()
	if waitErr := wait(); waitErr != nil {
		return fmt.Errorf("%s %s: %w: %w", op, key, objstore.ErrOutcomeUnknown, waitErr)
	}
	return err
}

// Uploads lists uploads and holds the answer back.
func (b *Bucket) Uploads(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.UploadInfo, error) {
	wait := b.begin(ctx, objstore.OpListUploads, 0)
	page, err := b.inner.Uploads(ctx, prefix, startAfter, limit)
	if waitErr := wait(); waitErr != nil {
		return nil, fmt.Errorf("list uploads %s: %w", prefix, waitErr)
	}
	return page, err
}
