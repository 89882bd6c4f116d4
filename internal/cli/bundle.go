package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/open"
)

// BundleConfig has the settings of the `freshet bundle` commands.
type BundleConfig struct {
	BucketURL string   // "": Names are files
	Names     []string // keys in the bucket, or files
	Prefix    string   // list: only keys that begin with it
}

// InspectBundles checks every checksum of bundles and writes their sections and batches. A broken bundle is an error. Its readable part
// is written too.
func InspectBundles(ctx context.Context, c BundleConfig, s Streams) error {
	source, err := c.source(ctx)
	if err != nil {
		return err
	}
	defer source.close()
	var faults []error
	found := []inspectedBundle{}
	for i, name := range c.Names {
		if i > 0 && !s.json() {
			fmt.Fprintln(s.Out)
		}
		description, err := inspect(ctx, source, name)
		switch {
		case description == nil:
		case s.json():
			found = append(found, inspectedOf(name, description, err))
		default:
			fmt.Fprintf(s.Out, "%s\n", name)
			err = errors.Join(err, description.Print(s.Out))
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	if s.json() {
		faults = append(faults, s.WriteJSON(found))
	}
	return errors.Join(faults...)
}

// inspect returns the description of a bundle. A broken bundle may have a description and an error.
func inspect(ctx context.Context, source bundleSource, name string) (*bundle.Description, error) {
	r, size, err := source.open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return bundle.Inspect(r, size)
}

// ListBundles writes the objects of a bucket, one a line: size, time, key.
func ListBundles(ctx context.Context, c BundleConfig, s Streams) error {
	b, err := open.Bucket(ctx, c.BucketURL, open.AllowOneZone(true))
	if err != nil {
		return err
	}
	defer b.Close()
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	objects := []listedObject{}
	for after := ""; ; {
		page, err := b.List(ctx, c.Prefix, after, 1000)
		if err != nil {
			return fmt.Errorf("list objects: %w", err)
		}
		switch {
		case len(page) == 0 && s.json():
			return s.WriteJSON(objects)
		case len(page) == 0:
			return w.Flush()
		}
		for _, object := range page {
			if s.json() {
				objects = append(objects, listedObject{object.Key, object.Size, object.Modified.UTC()})
			}
			fmt.Fprintf(w, "%d\t%s\t  %s\n", object.Size, object.Modified.UTC().Format(time.RFC3339), object.Key)
			after = object.Key
		}
	}
}

// listedObject is an object in a list.
type listedObject struct {
	Key      string    `json:"key"`
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`
}

// bundleSource opens bundles by name.
type bundleSource interface {
	open(ctx context.Context, name string) (r readerAtCloser, size int64, err error)
	close()
}

type readerAtCloser interface {
	io.ReaderAt
	io.Closer
}

func (c BundleConfig) source(ctx context.Context) (bundleSource, error) {
	if c.BucketURL == "" {
		return fileSource{}, nil
	}
	b, err := open.Bucket(ctx, c.BucketURL, open.AllowOneZone(true))
	if err != nil {
		return nil, err
	}
	return bucketSource{b}, nil
}

type fileSource struct{}

func (fileSource) open(_ context.Context, name string) (readerAtCloser, int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, fmt.Errorf("%w (give --bucket if this is a key in a bucket)", err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func (fileSource) close() {}

type bucketSource struct{ bucket objstore.Bucket }

func (s bucketSource) open(ctx context.Context, name string) (readerAtCloser, int64, error) {
	info, err := s.bucket.Head(ctx, strings.TrimPrefix(name, "/"))
	if err != nil {
		return nil, 0, err
	}
	return objectReader{ctx, s.bucket, info.Key}, info.Size, nil
}

func (s bucketSource) close() { _ = s.bucket.Close() }

// objectReader reads ranges of one object; each ReadAt is one GET.
type objectReader struct {
	ctx    context.Context
	bucket objstore.Bucket
	key    string
}

// ReadAt implements io.ReaderAt.
func (r objectReader) ReadAt(p []byte, offset int64) (int, error) {
	body, err := r.bucket.Get(r.ctx, r.key, offset, int64(len(p)))
	if err != nil {
		return 0, err
	}
	defer body.Close()
	n, err := io.ReadFull(body, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// Close implements io.Closer.
func (objectReader) Close() error { return nil }
