package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/objstore"
)

// deletesAtOnce bounds the single deletes under way for one batch.
const deletesAtOnce = 16

// Delete removes the objects by one DeleteObjects, or, where the store knows no such request, one by one.
func (b *Bucket) Delete(ctx context.Context, keys []string) error {
	if err := objstore.CheckKeys(keys); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if len(keys) == 0 {
		return nil
	}
	if !b.singleDeletes.Load() {
		err := b.deleteBatch(ctx, keys)
		if !isUnsupported(err) {
			return err
		}
		b.singleDeletes.Store(true)
	}
	return b.deleteSingly(ctx, keys)
}

func (b *Bucket) deleteBatch(ctx context.Context, keys []string) error {
	objects := make([]types.ObjectIdentifier, len(keys))
	for i, key := range keys {
		objects[i].Key = b.key(key)
	}
	out, err := b.client.DeleteObjects(ctx, &awss3.DeleteObjectsInput{
		Bucket: b.name, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)},
	})
	if err != nil {
		return fmt.Errorf("delete %d objects: %w", len(keys), mapError(err, true))
	}
	var faults []error
	for _, e := range out.Errors {
		sentinel, ok := sentinels[aws.ToString(e.Code)]
		if !ok {
			sentinel = errors.New("refused")
		}
		if errors.Is(sentinel, objstore.ErrNotFound) {
			continue
		}
		faults = append(faults, fmt.Errorf("delete %s: %w: %s", aws.ToString(e.Key), sentinel, aws.ToString(e.Message)))
	}
	return errors.Join(faults...)
}

func (b *Bucket) deleteSingly(ctx context.Context, keys []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deletesAtOnce)
	for _, key := range keys {
		group.Go(func() error {
			_, err := b.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: b.name, Key: b.key(key)})
			if err == nil {
				return nil
			}
			if err = mapError(err, true); errors.Is(err, objstore.ErrNotFound) {
				return nil
			}
			return fmt.Errorf("delete %s: %w", key, err)
		})
	}
	return group.Wait()
}

// isUnsupported is true for the answers of stores that know no DeleteObjects, or want a header with it that the SDK
// no longer sends.
func isUnsupported(err error) bool {
	switch errorCode(err) {
	case "NotImplemented", "MethodNotAllowed", "MissingContentMD5":
		return true
	}
	status := statusOf(err)
	return status == http.StatusNotImplemented || status == http.StatusMethodNotAllowed
}
