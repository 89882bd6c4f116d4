// Package probe finds out at start what nothing else would show before it is too late: whether the object store can be used
// at all, and whether it keeps a promise that Freshet rests on, that an object once created is never replaced.
package probe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/freshet-io/freshet/objstore"
)

// Key is the object that CreateOnly tries to create, and Reach reads. It stays, so that every probe but the first of a bucket
// is one refused PUT of 16 bytes.
const Key = "probe/create-only"

// Bounds of one attempt and of the pause between two.
const (
	limit    = 3 * time.Second
	maxPause = 5 * time.Second // agents are out of service until the store is known to work
)

// ErrReplaces says that the store replaced an object though it was asked to create it only.
var ErrReplaces = errors.New("the object store ignores If-None-Match: a put replaced an object that was there. " +
	"Two clusters under one prefix would destroy each other's records unnoticed; use a store with conditional writes (docs/object-stores.md)")

// CreateOnly puts an object twice, with different bytes, and gives ErrReplaces if the second put succeeds. It goes on, with
// growing pauses, until the store has said one or the other, or ctx ends. failed is told of each attempt that ended otherwise
// and the pause that follows.
func CreateOnly(ctx context.Context, bucket objstore.Bucket, failed func(*Fault, time.Duration)) error {
	return insist(ctx, func(ctx context.Context) error { return create(ctx, bucket) }, failed)
}

// Reach reads the object of CreateOnly, or finds that there is none yet, and goes on as CreateOnly does. nil means that this
// process can use the bucket, at least for reading. Then Reach puts the object once as CreateOnly does, and returns ErrReplaces if
// the store replaces objects. If that put fails otherwise, Reach returns nil: writes that fail show when records come.
func Reach(ctx context.Context, bucket objstore.Bucket, failed func(*Fault, time.Duration)) error {
	return insist(ctx, func(ctx context.Context) error { return read(ctx, bucket) }, failed)
}

func insist(ctx context.Context, try func(context.Context) error, failed func(*Fault, time.Duration)) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.MaxInterval, pauses.Multiplier = maxPause, 2
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		bounded, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := silence(bounded, try(bounded))
		if errors.Is(err, ErrReplaces) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, pause time.Duration) {
		if ctx.Err() == nil {
			failed(diagnose(err), pause)
		}
	}))
	return err
}

func create(ctx context.Context, bucket objstore.Bucket) error {
	for range 2 {
		err := put(ctx, bucket)
		if errors.Is(err, objstore.ErrAlreadyExists) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("probe the object store: %w", err)
		}
	}
	return ErrReplaces
}

// put tries to create the object, never with the same bytes: a bucket may take an object that has just these for its own
// (objstore.Bucket, Put).
func put(ctx context.Context, bucket objstore.Bucket) error {
	content := make([]byte, 16)
	rand.Read(content)
	return bucket.Put(ctx, Key, objstore.NewBody(content))
}

// read reads the object. S3 refuses to tell who may not list that there is none, so of a refusal it is sure only when the
// object is there for certain.
func read(ctx context.Context, bucket objstore.Bucket) error {
	err := get(ctx, bucket)
	if errors.Is(err, objstore.ErrRefused) {
		if created := put(ctx, bucket); created == nil || errors.Is(created, objstore.ErrAlreadyExists) {
			err = get(ctx, bucket)
		}
	}
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("probe the object store: %w", err)
	}
	if errors.Is(create(ctx, bucket), ErrReplaces) {
		return ErrReplaces
	}
	return nil
}

func get(ctx context.Context, bucket objstore.Bucket) error {
	object, err := bucket.Get(ctx, Key, 0, -1)
	if err != nil {
		return err
	}
	defer object.Close() // it was read
	_, err = io.Copy(io.Discard, object)
	return err
}
