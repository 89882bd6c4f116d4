package meter

import (
	"context"

	"github.com/freshet-io/freshet/objstore"
)

// upload counts the requests of an upload.
type upload struct {
	inner  objstore.Upload
	bucket *Bucket
}

// Create creates and counts.
func (b *Bucket) Create(ctx context.Context, key string) (u objstore.Upload, err error) {
	err = b.measure(objstore.OpCreateUpload, func() error {
		u, err = b.inner.Create(ctx, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &upload{u, b}, nil
}

// Part puts a part and counts.
func (u *upload) Part(ctx context.Context, number int, offset int64, body objstore.Body) error {
	return u.bucket.measure(objstore.OpPutPart, func() error {
		err := u.inner.Part(ctx, number, offset, body)
		if err == nil {
			u.bucket.addBytes(objstore.OpPutPart, body.Size)
		}
		return err
	})
}

// Complete completes and counts.
func (u *upload) Complete(ctx context.Context) error {
	return u.bucket.measure(objstore.OpCompleteUpload, func() error { return u.inner.Complete(ctx) })
}

// Abort aborts and counts.
func (u *upload) Abort(ctx context.Context) error {
	return u.bucket.measure(objstore.OpAbortUpload, func() error { return u.inner.Abort(ctx) })
}

// Uploads lists uploads and counts.
func (b *Bucket) Uploads(
	ctx context.Context, prefix, startAfter string, limit int,
) (page []objstore.UploadInfo, err error) {
	err = b.measure(objstore.OpListUploads, func() error {
		page, err = b.inner.Uploads(ctx, prefix, startAfter, limit)
		return err
	})
	return page, err
}

// AbortUpload aborts and counts.
func (b *Bucket) AbortUpload(ctx context.Context, info objstore.UploadInfo) error {
	return b.measure(objstore.OpAbortUpload, func() error { return b.inner.AbortUpload(ctx, info) })
}
