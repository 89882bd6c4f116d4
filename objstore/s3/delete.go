package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

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
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
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
	asked := make(map[string]string, len(keys)) // our key by the store's key
	for i, key := range keys {
		objects[i].Key = b.key(key)
		asked[*objects[i].Key] = key
	}
	out, err := b.client.DeleteObjects(ctx, &awss3.DeleteObjectsInput{
		Bucket: b.name, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)},
	})
	if err != nil {
		return fmt.Errorf("delete %d objects: %w", len(keys), mapError(err, true))
	}
	failed := make(map[string]error)
	for i := range out.Errors {
		e := &out.Errors[i]
		if errors.Is(sentinels[aws.ToString(e.Code)], objstore.ErrNotFound) {
			continue
		}
		key, ok := asked[aws.ToString(e.Key)]
		if !ok { // the error may belong to any of the keys
			return fmt.Errorf("delete %d objects: the store names %q, which is none of them: %w", len(keys), aws.ToString(e.Key), refusal(e))
		}
		failed[key] = refusal(e)
	}
	return objstore.NewDeleteError(failed)
}

// refusal converts the store's error for one key.
func refusal(e *types.Error) error {
	code, message := aws.ToString(e.Code), aws.ToString(e.Message)
	if code == "AccessDenied" { // sentinels lacks it: for whole requests, mapError uses the status
		return fmt.Errorf("%w: %s: %s", objstore.ErrRefused, code, message)
	}
	if sentinel, ok := sentinels[code]; ok {
		return fmt.Errorf("%w: %s: %s", sentinel, code, message)
	}
	return fmt.Errorf("refused: %s: %s", code, message)
}

// deleteSingly sends one DELETE for each key. It continues after errors.
func (b *Bucket) deleteSingly(ctx context.Context, keys []string) error {
	var mu sync.Mutex
	failed := make(map[string]error)
	var group errgroup.Group
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
			mu.Lock()
			defer mu.Unlock()
			failed[key] = err
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete %d objects: %w", len(keys), err)
	}
	return objstore.NewDeleteError(failed)
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
