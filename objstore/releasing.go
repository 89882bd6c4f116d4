package objstore

import "context"

// ReleasingBucket is a Bucket whose puts may have several attempts under way, and which can tell success before the
// last of them stopped reading the buffers.
type ReleasingBucket interface {
	Bucket

	// PutReleasing is Put, except that it returns as soon as the outcome is known. The buffers must not change until
	// released was called: exactly once, on any goroutine, before or after PutReleasing returns.
	PutReleasing(ctx context.Context, key string, body Body, released func()) error
}

// PutReleasing puts by the bucket's own PutReleasing if it has one, else by Put.
func PutReleasing(ctx context.Context, b Bucket, key string, body Body, released func()) error {
	if r, ok := b.(ReleasingBucket); ok {
		return r.PutReleasing(ctx, key, body, released)
	}
	defer released()
	return b.Put(ctx, key, body)
}
