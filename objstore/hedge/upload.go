package hedge

import (
	"context"

	"github.com/freshet-io/freshet/objstore"
)

// Create is not hedged, and neither are the upload's parts: uploads are background work, which nobody waits for, and of
// two attempts at one part the one that ends last counts, so that the upload could be completed by the other's tag.
func (b *Bucket) Create(ctx context.Context, key string) (objstore.Upload, error) {
	return b.inner.Create(ctx, key)
}

// Uploads is not hedged.
func (b *Bucket) Uploads(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.UploadInfo, error) {
	return b.inner.Uploads(ctx, prefix, startAfter, limit)
}

// AbortUpload is not hedged.
func (b *Bucket) AbortUpload(ctx context.Context, upload objstore.UploadInfo) error {
	return b.inner.AbortUpload(ctx, upload)
}
