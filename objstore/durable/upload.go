package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/freshet-io/freshet/objstore"
)

// maxConflicts bounds the attempts to complete one upload that end in objstore.ErrConflict.
const maxConflicts = 10

// Upload is an upload whose requests are repeated until their outcome is certain.
type Upload struct {
	policy Policy
	bucket objstore.Bucket
	key    string
	inner  objstore.Upload
	parts  objstore.Parts
}

var _ objstore.Upload = (*Upload)(nil)

// Create begins an upload. An attempt whose answer is lost leaves an empty upload behind, for objstore.Bucket.Uploads to
// find.
func (p Policy) Create(ctx context.Context, b objstore.Bucket, key string) (*Upload, error) {
	p.ApplyDefaults()
	u := &Upload{policy: p, bucket: b, key: key}
	err := p.retry(ctx, "create upload of "+key, func(ctx context.Context) (err error) {
		u.inner, err = b.Create(ctx, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return u, nil
}

// Part gives a part until the store has it. Errors: objstore.ErrNotFound (the upload was aborted); ctx's together with
// objstore.ErrOutcomeUnknown and the last attempt's; those that retries do not heal.
func (u *Upload) Part(ctx context.Context, number int, offset int64, body objstore.Body) error {
	err := u.policy.retry(ctx, fmt.Sprintf("put part %d of %s", number, u.key), func(ctx context.Context) error {
		return u.inner.Part(ctx, number, offset, body)
	})
	if err == nil {
		u.parts.Add(number, offset, body)
	}
	return err
}

// Complete completes until the object is there, with exactly the parts' bytes. What an attempt that is not the first one
// answers may be due to an earlier one whose answer was lost, so the object itself is looked at then. Errors:
// ErrForeign; objstore.ErrNotFound (the upload was aborted, and there is no object); ctx's together with
// objstore.ErrOutcomeUnknown and the last attempt's; those that retries do not heal.
func (u *Upload) Complete(ctx context.Context) error {
	first, conflicts := true, 0
	return u.policy.retry(ctx, "complete upload of "+u.key, func(ctx context.Context) error {
		err := u.inner.Complete(ctx)
		sure := first && err == nil
		first = false
		switch {
		case sure:
			return nil
		case err == nil, errors.Is(err, objstore.ErrAlreadyExists):
			return u.verify(ctx)
		case errors.Is(err, objstore.ErrConflict):
			// Of an attempt whose answer was lost, which ends; or of somebody else, and then S3 wants a new upload.
			if conflicts++; conflicts > maxConflicts {
				return fmt.Errorf("%d conflicts: %s", conflicts, err.Error())
			}
		case errors.Is(err, objstore.ErrNotFound):
			// Either a Complete took effect, which shows at once, or the upload was aborted, which no retry heals.
			if verifyErr := u.verify(ctx); !errors.Is(verifyErr, objstore.ErrNotFound) {
				return verifyErr
			}
		}
		return err
	})
}

func (u *Upload) verify(ctx context.Context) error {
	_, size, crc, err := u.parts.Whole()
	if err != nil {
		return err
	}
	if err := Verify(ctx, u.bucket, u.key, objstore.Body{Size: size, CRC32C: crc}); err != nil {
		return fmt.Errorf("complete upload of %s: %w", u.key, err)
	}
	return nil
}

// Abort drops the parts, until they are gone or ctx ends.
func (u *Upload) Abort(ctx context.Context) error {
	return u.policy.retry(ctx, "abort upload of "+u.key, u.inner.Abort)
}
