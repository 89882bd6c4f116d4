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

	"github.com/freshet-io/freshet/objstore"
)

// upload is a multipart upload.
type upload struct {
	bucket *Bucket
	info   objstore.UploadInfo
	parts  objstore.Parts
	mu     struct {
		sync.Mutex
		sent map[int]types.CompletedPart // by number
	}
}

// Create begins a multipart upload whose checksum will be that of the whole object, not of its parts' checksums.
func (b *Bucket) Create(ctx context.Context, key string) (objstore.Upload, error) {
	if err := b.check(ctx, key); err != nil {
		return nil, fmt.Errorf("create upload: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	out, err := b.client.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{
		Bucket: b.name, Key: b.key(key),
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c, ChecksumType: types.ChecksumTypeFullObject,
	})
	if err != nil {
		return nil, fmt.Errorf("create upload of %s: %w", key, mapError(err, true))
	}
	u := &upload{bucket: b, info: objstore.UploadInfo{Key: key, ID: aws.ToString(out.UploadId)}}
	u.mu.sent = make(map[int]types.CompletedPart)
	return u, nil
}

// Part sends one part, as Put sends an object.
func (u *upload) Part(ctx context.Context, number int, offset int64, body objstore.Body) error {
	if err := errors.Join(ctx.Err(), u.parts.Check(number, offset, body)); err != nil {
		return fmt.Errorf("put part %d of %s: %w", number, u.info.Key, err)
	}
	crc := aws.String(encodeCRC(body.CRC32C))
	input := &awss3.UploadPartInput{
		Bucket: u.bucket.name, Key: u.bucket.key(u.info.Key), UploadId: aws.String(u.info.ID), PartNumber: aws.Int32(int32(number)),
		Body: stream{body.Size}, ContentLength: aws.Int64(body.Size), ChecksumCRC32C: crc,
	}
	var out *awss3.UploadPartOutput
	err := withPayload(ctx, body, func(ctx context.Context) (err error) {
		out, err = u.bucket.client.UploadPart(ctx, input, unsignedPayload)
		return err
	})
	if err != nil {
		return fmt.Errorf("put part %d of %s: %w", number, u.info.Key, mapError(err, true))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.sent[number] = types.CompletedPart{ETag: out.ETag, PartNumber: aws.Int32(int32(number)), ChecksumCRC32C: crc}
	u.parts.Add(number, offset, body)
	return nil
}

// Complete asks the store to join the parts, if the key is free.
func (u *upload) Complete(ctx context.Context) error {
	count, size, crc, err := u.parts.Whole()
	if err = errors.Join(ctx.Err(), err); err != nil {
		return fmt.Errorf("complete upload of %s: %w", u.info.Key, err)
	}
	request := &awss3.CompleteMultipartUploadInput{
		Bucket: u.bucket.name, Key: u.bucket.key(u.info.Key), UploadId: aws.String(u.info.ID),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: u.sent(count)},
		ChecksumCRC32C:  aws.String(encodeCRC(crc)), ChecksumType: types.ChecksumTypeFullObject, MpuObjectSize: aws.Int64(size),
	}
	if !u.bucket.plainComplete.Load() {
		if err = u.complete(ctx, request, aws.String("*")); !refusesCondition(err) {
			return err
		}
		u.bucket.plainComplete.Store(true)
	}
	// Without the header two writers of one key can both pass this check; the later one's object stays. Keys are names
	// given once, so they would be two attempts at the same bytes.
	_, err = u.bucket.Head(ctx, u.info.Key)
	switch {
	case err == nil:
		return fmt.Errorf("complete upload of %s: %w", u.info.Key, objstore.ErrAlreadyExists)
	case !errors.Is(err, objstore.ErrNotFound):
		return fmt.Errorf("complete upload of %s: is the key free: %w", u.info.Key, err)
	}
	return u.complete(ctx, request, nil)
}

// sent are the parts that the store has, in order.
func (u *upload) sent(count int) []types.CompletedPart {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]types.CompletedPart, count)
	for i := range list {
		list[i] = u.mu.sent[i+1]
	}
	return list
}

func (u *upload) complete(ctx context.Context, request *awss3.CompleteMultipartUploadInput, ifNoneMatch *string) error {
	request.IfNoneMatch = ifNoneMatch
	if _, err := u.bucket.client.CompleteMultipartUpload(ctx, request); err != nil {
		return fmt.Errorf("complete upload of %s: %w", u.info.Key, mapError(err, true))
	}
	return nil
}

// refusesCondition is true for the answers of stores that take no If-None-Match when an upload is completed.
func refusesCondition(err error) bool {
	return errorCode(err) == "NotImplemented" || statusOf(err) == http.StatusNotImplemented
}

// Abort drops the upload.
func (u *upload) Abort(ctx context.Context) error { return u.bucket.AbortUpload(ctx, u.info) }

// AbortUpload drops an upload.
func (b *Bucket) AbortUpload(ctx context.Context, info objstore.UploadInfo) error {
	if err := b.check(ctx, info.Key); err != nil {
		return fmt.Errorf("abort upload: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	_, err := b.client.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{
		Bucket: b.name, Key: b.key(info.Key), UploadId: aws.String(info.ID),
	})
	if err == nil {
		return nil
	}
	if err = mapError(err, true); errors.Is(err, objstore.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("abort upload of %s: %w", info.Key, err)
}

// Uploads gives one page of the multipart uploads under way.
func (b *Bucket) Uploads(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.UploadInfo, error) {
	if err := errors.Join(ctx.Err(), objstore.CheckLimit(limit)); err != nil {
		return nil, fmt.Errorf("list uploads %s: %w", prefix, err)
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	if b.isDirectory {
		return b.uploadsOfDirectory(ctx, prefix, startAfter, limit)
	}
	input := &awss3.ListMultipartUploadsInput{Bucket: b.name, Prefix: b.key(prefix), MaxUploads: aws.Int32(int32(limit))}
	if startAfter != "" {
		input.KeyMarker = b.key(startAfter)
	}
	out, err := b.client.ListMultipartUploads(ctx, input)
	if err != nil {
		return nil, fmt.Errorf("list uploads %s: %w", prefix, mapError(err, false))
	}
	page := make([]objstore.UploadInfo, 0, len(out.Uploads))
	for _, u := range out.Uploads {
		page = append(page, objstore.UploadInfo{
			Key: aws.ToString(u.Key)[len(b.prefix):], ID: aws.ToString(u.UploadId), Initiated: aws.ToTime(u.Initiated),
		})
	}
	if !aws.ToBool(out.IsTruncated) {
		return page, nil
	}
	return wholeKeys(page), nil
}

// wholeKeys leaves out the last key of a page, if it is not the only one: its uploads may go on in the next page, which
// begins after that key.
func wholeKeys(page []objstore.UploadInfo) []objstore.UploadInfo {
	if whole := objstore.DropLastKey(page); len(whole) > 0 {
		return whole
	}
	return page
}
