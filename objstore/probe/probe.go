// Package probe checks at start that the object store works, and that it never replaces an object on a create-only PUT. Without such
// PUTs, two clusters under one prefix would destroy each other's records.
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

// Key is the object that CreateOnly and Reach try to create. It is never deleted, so a later probe costs one PUT of 16 bytes that fails
// with 412.
const Key = "probe/create-only"

// Bounds of one attempt and of the pause after a failed one. Agents are not ready until an attempt succeeds.
const (
	limit    = 3 * time.Second
	maxPause = 5 * time.Second
)

// ErrReplaces is returned when the store replaces an object on a create-only PUT.
var ErrReplaces = errors.New("the object store ignores If-None-Match: a put replaced an object that was there. " +
	"Two clusters under one prefix would destroy each other's records unnoticed; use a store with conditional writes (docs/object-stores.md)")

// CreateOnly tries to create Key up to twice, with different bytes. It returns nil once the store reports that Key exists, and
// ErrReplaces if both PUTs succeed. It retries other errors with backoff until ctx ends, and calls failed with each error and pause.
func CreateOnly(ctx context.Context, bucket objstore.Bucket, failed func(*Fault, time.Duration)) error {
	return insist(ctx, func(ctx context.Context) error { return create(ctx, bucket) }, failed)
}

// Reach reads Key, which may be absent, and retries errors as CreateOnly does. Then it tries to create Key in the same way, and returns
// ErrReplaces if the store replaces objects. If those PUTs fail otherwise, Reach returns nil: the process can serve reads.
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

// put tries to create Key with random bytes. If the bytes were equal, Put might take the existing object for its own (objstore.Bucket).
func put(ctx context.Context, bucket objstore.Bucket) error {
	content := make([]byte, 16)
	rand.Read(content)
	return bucket.Put(ctx, Key, objstore.NewBody(content))
}

// read reads Key. S3 answers 403 instead of 404 if the caller may not list, so after ErrRefused read creates Key and reads again.
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
