// Package probe finds out whether a bucket keeps a promise that Freshet rests on and that nothing would show before it
// is too late: that an object once created is never replaced.
package probe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/freshet-io/freshet/objstore"
)

// Key is the object that CreateOnly tries to create. It stays, so that every probe but the first of a bucket is one
// refused PUT of 16 bytes.
const Key = "probe/create-only"

// Bounds of one attempt and of the pause between two.
const (
	attempt  = 10 * time.Second
	maxPause = 30 * time.Second
)

// ErrReplaces says that the store replaced an object though it was asked to create it only.
var ErrReplaces = errors.New("the object store ignores If-None-Match: a put replaced an object that was there. " +
	"Two clusters under one prefix would destroy each other's records unnoticed; use a store with conditional writes (docs/object-stores.md)")

// CreateOnly puts an object twice, with different bytes, and gives ErrReplaces if the second put succeeds. It goes on, with
// growing pauses, until the store has said one or the other, or ctx ends. failed is told of each attempt that ended otherwise
// and the pause that follows.
func CreateOnly(ctx context.Context, bucket objstore.Bucket, failed func(error, time.Duration)) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.MaxInterval = maxPause
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := try(ctx, bucket)
		if errors.Is(err, ErrReplaces) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0), backoff.WithNotify(failed))
	return err
}

func try(ctx context.Context, bucket objstore.Bucket) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	for range 2 {
		// Never the same bytes: a bucket may take an object that has just these for its own (objstore.Bucket, Put).
		content := make([]byte, 16)
		rand.Read(content)
		err := bucket.Put(ctx, Key, objstore.NewBody(content))
		if errors.Is(err, objstore.ErrAlreadyExists) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("probe the object store: %w", err)
		}
	}
	return ErrReplaces
}
