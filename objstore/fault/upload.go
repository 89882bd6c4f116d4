package fault

import (
	"context"

	"github.com/freshet-io/freshet/objstore"
)

// upload is an upload under the rules.
type upload struct {
	inner  objstore.Upload
	bucket *Bucket
	key    string
}

// Create creates under the rules. An upload whose answer is lost is left behind.
func (b *Bucket) Create(ctx context.Context, key string) (u objstore.Upload, err error) {
	err = b.plan(objstore.OpCreateUpload, key).do(ctx, objstore.OpCreateUpload, func() error {
		u, err = b.inner.Create(ctx, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &upload{u, b, key}, nil
}

// Part puts a part under the rules.
func (u *upload) Part(ctx context.Context, number int, offset int64, body objstore.Body) error {
	return u.do(ctx, objstore.OpPutPart, func() error { return u.inner.Part(ctx, number, offset, body) })
}

// Complete completes under the rules.
func (u *upload) Complete(ctx context.Context) error {
	return u.do(ctx, objstore.OpCompleteUpload, func() error { return u.inner.Complete(ctx) })
}

// Abort aborts under the rules.
func (u *upload) Abort(ctx context.Context) error {
	return u.do(ctx, objstore.OpAbortUpload, func() error { return u.inner.Abort(ctx) })
}

func (u *upload) do(ctx context.Context, op objstore.Op, request func() error) error {
	return u.bucket.plan(op, u.key).do(ctx, op, request)
}

// Uploads lists uploads under the rules.
func (b *Bucket) Uploads(
	ctx context.Context, prefix, startAfter string, limit int,
) (page []objstore.UploadInfo, err error) {
	err = b.plan(objstore.OpListUploads, prefix).do(ctx, objstore.OpListUploads, func() error {
		page, err = b.inner.Uploads(ctx, prefix, startAfter, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// AbortUpload aborts under the rules.
func (b *Bucket) AbortUpload(ctx context.Context, info objstore.UploadInfo) error {
	return b.plan(objstore.OpAbortUpload, info.Key).do(ctx, objstore.OpAbortUpload, func() error {
		return b.inner.AbortUpload(ctx, info)
	})
}
