package s3

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/freshet-io/freshet/objstore"
)

// directorySuffixes end the names of directory buckets, and of access points of such, as in name--use1-az4--x-s3
// (Amazon S3 User Guide, "Directory bucket naming rules").
var directorySuffixes = []string{"--x-s3", "--xa-s3"}

// IsDirectory tells whether a bucket of that name is a directory bucket (S3 Express One Zone): its objects are kept in one
// availability zone, and lost with it.
func IsDirectory(bucket string) bool {
	return slices.ContainsFunc(directorySuffixes, func(suffix string) bool { return strings.HasSuffix(bucket, suffix) })
}

// listDirectory is List for directory buckets, which list in no order, cannot start after a key, and know only prefixes that
// end in a slash. All of the directory is listed for each page and the least keys are kept, so a page costs one LIST for
// every 1,000 objects there.
func (b *Bucket) listDirectory(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.Info, error) {
	kept := least[objstore.Info]{limit: limit, key: func(o objstore.Info) string { return o.Key }}
	pages := awss3.NewListObjectsV2Paginator(b.client, &awss3.ListObjectsV2Input{Bucket: b.name, Prefix: b.directory(prefix)})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", prefix, mapError(err, false))
		}
		for _, o := range out.Contents {
			if key := aws.ToString(o.Key)[len(b.prefix):]; strings.HasPrefix(key, prefix) && key > startAfter {
				kept.add(objstore.Info{Key: key, Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)})
			}
		}
	}
	return kept.sorted(), nil
}

// uploadsOfDirectory is Uploads for directory buckets: no order, a marker that is no key, prefixes that end in a slash.
func (b *Bucket) uploadsOfDirectory(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.UploadInfo, error) {
	// One more than asked for, to know whether there are more.
	kept := least[objstore.UploadInfo]{limit: limit + 1, key: func(u objstore.UploadInfo) string { return u.Key }}
	input := &awss3.ListMultipartUploadsInput{Bucket: b.name, Prefix: b.directory(prefix)}
	for more := true; more; {
		out, err := b.client.ListMultipartUploads(ctx, input)
		if err != nil {
			return nil, fmt.Errorf("list uploads %s: %w", prefix, mapError(err, false))
		}
		for _, u := range out.Uploads {
			if key := aws.ToString(u.Key)[len(b.prefix):]; strings.HasPrefix(key, prefix) && key > startAfter {
				kept.add(objstore.UploadInfo{Key: key, ID: aws.ToString(u.UploadId), Initiated: aws.ToTime(u.Initiated)})
			}
		}
		input.KeyMarker = out.NextKeyMarker
		more = aws.ToBool(out.IsTruncated) && aws.ToString(out.NextKeyMarker) != ""
	}
	page := kept.sorted()
	if len(page) <= limit {
		return page, nil
	}
	return wholeKeys(page[:limit]), nil
}

// directory is the longest part of a prefix that directory buckets can list by; nil is the whole bucket.
func (b *Bucket) directory(prefix string) *string {
	whole := b.prefix + prefix
	if end := strings.LastIndexByte(whole, '/') + 1; end > 0 {
		return aws.String(whole[:end])
	}
	return nil
}

// least keeps the items with the least keys of those added, at most limit, in memory of at most twice as many.
type least[T any] struct {
	limit int
	key   func(T) string
	items []T
}

func (l *least[T]) add(item T) {
	if l.items = append(l.items, item); len(l.items) >= 2*l.limit {
		l.items = l.sorted()
	}
}

func (l *least[T]) sorted() []T {
	slices.SortStableFunc(l.items, func(a, b T) int { return cmp.Compare(l.key(a), l.key(b)) })
	return l.items[:min(len(l.items), l.limit)]
}
