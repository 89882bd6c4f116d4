// Package s3 is a bucket of Amazon S3 or of a store that speaks its API.
//
// A put is one PutObject with If-None-Match: *, the CRC-32C in a header and an unsigned payload, sent from the
// caller's buffers without copying them (payload). An upload in parts is a multipart upload with a CRC-32C for each part
// and for the whole (full object), completed with If-None-Match: * too; stores that refuse that header there are asked by
// HEAD first (upload). Nothing is retried.
//
// Directory buckets (S3 Express One Zone, IsDirectory) are used by the same requests, signed with the key of a session that
// the SDK opens and renews (CreateSession, session). They list in no order, which is made up for (directory).
package s3

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/freshet-io/freshet/objstore"
)

// Bucket is one S3 bucket, or the part under a prefix.
type Bucket struct {
	client *awss3.Client
	http   *httpClient
	name   *string
	prefix string // empty, or ending in a slash

	timeout       time.Duration // of requests without an object's bytes
	isDirectory   bool          // lists in no order, see listDirectory
	singleDeletes atomic.Bool   // the store knows no DeleteObjects
	plainComplete atomic.Bool   // the store takes no If-None-Match when an upload is completed
}

var _ objstore.Bucket = (*Bucket)(nil)

// New gives the bucket of the configuration. It makes no request to the store, but may ask for credentials.
func New(ctx context.Context, config Config) (*Bucket, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("s3 bucket: %w", err)
	}
	client, err := newHTTPClient(config.CAFile)
	if err != nil {
		return nil, fmt.Errorf("s3 bucket %s: %w", config.Bucket, err)
	}
	options, err := config.options(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("s3 bucket %s: %w", config.Bucket, err)
	}
	b := &Bucket{
		client: newClient(options), http: client, name: aws.String(config.Bucket), isDirectory: IsDirectory(config.Bucket),
		timeout: cmp.Or(config.RequestTimeout, time.Minute),
	}
	if config.Prefix != "" {
		b.prefix = config.Prefix + "/"
	}
	return b, nil
}

// Put creates the object.
func (b *Bucket) Put(ctx context.Context, key string, body objstore.Body) error {
	if err := b.check(ctx, key); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	if err := body.CheckSize(); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	input := &awss3.PutObjectInput{
		Bucket: b.name, Key: b.key(key), Body: stream{body.Size}, ContentLength: aws.Int64(body.Size),
		IfNoneMatch: aws.String("*"), ChecksumCRC32C: aws.String(encodeCRC(body.CRC32C)),
	}
	err := withPayload(ctx, body, func(ctx context.Context) error {
		_, err := b.client.PutObject(ctx, input, unsignedPayload)
		return err
	})
	if err != nil {
		return fmt.Errorf("put %s: %w", key, mapError(err, true))
	}
	return nil
}

// unsignedPayload leaves the body out of the signature: its CRC-32C is in a signed header, and SHA-256 costs more
// than everything else a put does.
func unsignedPayload(o *awss3.Options) {
	o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
}

// Get opens a range of the object.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := b.check(ctx, key); err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	input := &awss3.GetObjectInput{Bucket: b.name, Key: b.key(key)}
	switch {
	case offset < 0 && length < 0:
		input.Range = aws.String(fmt.Sprintf("bytes=%d", offset))
	case offset < 0 || length == 0:
		return nil, fmt.Errorf("get %s at %d: %w", key, offset, objstore.ErrRange)
	case length > 0:
		input.Range = aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		input.Range = aws.String(fmt.Sprintf("bytes=%d-", offset))
	}
	out, err := b.client.GetObject(ctx, input)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, mapError(err, false))
	}
	if input.Range == nil || out.ContentRange != nil {
		return out.Body, nil
	}
	return cutRange(out, key, offset, length)
}

// cutRange takes the range out of an answer with the whole object, from a store that knows no ranges.
func cutRange(out *awss3.GetObjectOutput, key string, offset, length int64) (io.ReadCloser, error) {
	from, n, ok := objstore.Range(offset, length, aws.ToInt64(out.ContentLength))
	if !ok {
		out.Body.Close()
		return nil, fmt.Errorf("get %s at %d: %w", key, offset, objstore.ErrRange)
	}
	if _, err := io.CopyN(io.Discard, out.Body, from); err != nil {
		out.Body.Close()
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(out.Body, n), out.Body}, nil
}

// Head describes the object, with its checksum if the store tells that.
func (b *Bucket) Head(ctx context.Context, key string) (objstore.Info, error) {
	if err := b.check(ctx, key); err != nil {
		return objstore.Info{}, fmt.Errorf("head: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	out, err := b.client.HeadObject(ctx, &awss3.HeadObjectInput{
		Bucket: b.name, Key: b.key(key), ChecksumMode: types.ChecksumModeEnabled,
	})
	if err != nil {
		return objstore.Info{}, fmt.Errorf("head %s: %w", key, mapError(err, false))
	}
	info := objstore.Info{Key: key, Size: aws.ToInt64(out.ContentLength), Modified: aws.ToTime(out.LastModified)}
	if out.ChecksumType != types.ChecksumTypeComposite {
		info.CRC32C, info.HasCRC = decodeCRC(out.ChecksumCRC32C)
	}
	return info, nil
}

// List gives one page of objects in key order.
func (b *Bucket) List(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.Info, error) {
	if err := objstore.CheckLimit(limit); err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	if b.isDirectory {
		return b.listDirectory(ctx, prefix, startAfter, limit)
	}
	input := &awss3.ListObjectsV2Input{
		Bucket: b.name, Prefix: b.key(prefix), MaxKeys: aws.Int32(int32(limit)),
	}
	if startAfter != "" {
		input.StartAfter = b.key(startAfter)
	}
	out, err := b.client.ListObjectsV2(ctx, input)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, mapError(err, false))
	}
	page := make([]objstore.Info, 0, len(out.Contents))
	for _, o := range out.Contents {
		page = append(page, objstore.Info{
			Key: aws.ToString(o.Key)[len(b.prefix):], Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified),
		})
	}
	return page, nil
}

// Now is the Date header of the answer to a request about the bucket, whatever the answer.
func (b *Bucket) Now(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	out, err := b.client.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: b.name})
	var date string
	if err != nil {
		date = dateOf(err)
	} else if resp, ok := awsmiddleware.GetRawResponse(out.ResultMetadata).(*smithyhttp.Response); ok {
		date = resp.Header.Get("Date")
	}
	if err != nil && date == "" {
		return time.Time{}, fmt.Errorf("ask for time: %w", brief{err})
	}
	now, dateErr := http.ParseTime(date)
	if dateErr != nil {
		return time.Time{}, fmt.Errorf("ask for time: %w", errors.Join(err, dateErr))
	}
	return now, nil
}

// Close closes the connections that are not in use.
func (b *Bucket) Close() error {
	b.http.transport.CloseIdleConnections()
	return nil
}

func (b *Bucket) check(ctx context.Context, key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	return ctx.Err()
}

func (b *Bucket) key(key string) *string { return aws.String(b.prefix + key) }

func encodeCRC(crc uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc))
}

func decodeCRC(s *string) (uint32, bool) {
	p, err := base64.StdEncoding.DecodeString(aws.ToString(s))
	if err != nil || len(p) != 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(p), true
}
