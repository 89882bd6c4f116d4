package errand

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
)

// maxAborts is the maximum number of AbortMultipartUpload requests of one errand in flight.
const maxAborts = 16

// errUploads is returned if an errand lists its maximum of uploads and finds fewer than objstore.MaxKeys to abort.
var errUploads = fmt.Errorf("%d unfinished uploads are too young or of no bundle", api.MaxErrandKeys)

// AbortUploads aborts at most objstore.MaxKeys unfinished uploads of bundles of a session or job. Uploads younger than MinAge stay. Uploads
// without a time of initiation count as old.
func (b Bundles) AbortUploads(ctx context.Context, session id.Session) (*api.AbortedUploads, error) {
	prefix, err := b.sessionPrefix(session)
	if err != nil {
		return nil, err
	}
	var now time.Time
	done := &api.AbortedUploads{}
	after := ""
	for listed := 0; listed < api.MaxErrandKeys; {
		if err := b.wait(ctx, 1); err != nil {
			return nil, err
		}
		page, err := b.Bucket.Uploads(ctx, prefix, after, objstore.MaxKeys)
		if err != nil {
			return nil, fmt.Errorf("list the uploads of session %d: %w", session, err)
		}
		if len(page) == 0 {
			return done, nil
		}
		if now.IsZero() {
			if now, err = b.Bucket.Now(ctx); err != nil {
				return nil, fmt.Errorf("ask for the store's time: %w", err)
			}
		}
		var old []objstore.UploadInfo
		for _, upload := range page {
			_, ok := b.nOf(session, upload.Key)
			switch {
			case !ok:
			case !upload.Initiated.IsZero() && now.Sub(upload.Initiated) < b.MinAge:
				done.Young = min(done.Young+1, api.MaxErrandKeys)
			case int(done.Aborted)+len(old) < objstore.MaxKeys:
				old = append(old, upload)
			}
		}
		if err := b.abort(ctx, old); err != nil {
			return nil, err
		}
		done.Aborted += uint32(len(old))
		if done.Aborted == objstore.MaxKeys {
			return done, nil
		}
		listed += len(page)
		after = page[len(page)-1].Key
	}
	return nil, errUploads
}

// abort aborts uploads.
func (b Bundles) abort(ctx context.Context, uploads []objstore.UploadInfo) error {
	if err := b.wait(ctx, len(uploads)); err != nil {
		return err
	}
	aborts, ctx := errgroup.WithContext(ctx)
	aborts.SetLimit(maxAborts)
	for _, upload := range uploads {
		aborts.Go(func() error {
			err := b.Bucket.AbortUpload(ctx, upload)
			if err != nil && !errors.Is(err, objstore.ErrNotFound) {
				return fmt.Errorf("abort the upload of %s: %w", upload.Key, err)
			}
			return nil
		})
	}
	return aborts.Wait() //nolint:wrapcheck // wrapped above
}
