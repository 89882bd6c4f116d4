package agent

import (
	"context"
	"io"

	"github.com/freshet-io/freshet/agent/peer"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// inputs is where a job reads what this agent does not have in memory: of bundles as agents wrote them the memory of
// others in the zone, so that compacting what is fresh costs no GET.
func (a *Agent) inputs(p *job.Plan) objstore.Bucket {
	if a.zone == nil || p.Level > 1 {
		return a.bucket
	}
	return zoneBucket{Bucket: a.bucket, zone: a.zone, prefix: a.listeners.bundlePrefix()}
}

// zoneBucket reads bundles from the memory of the zone's agents where it can.
type zoneBucket struct {
	objstore.Bucket
	zone   *peer.Zone
	prefix string
}

// Get implements objstore.Bucket. It always succeeds for a bundle: what is wrong shows when it is read.
func (b zoneBucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	name, err := bundle.ParseKey(b.prefix, key)
	if err != nil || offset < 0 || length <= 0 || offset+length > bundle.MaxSize {
		return b.Bucket.Get(ctx, key, offset, length)
	}
	return &zoneReader{ctx: ctx, from: b, key: key, name: name, at: offset, end: offset + length}, nil
}

// zoneWindow is how much other agents are asked for at once, of one bundle.
const zoneWindow = 128 << 10

// zoneReader reads a range window by window from other agents, and what none of them has any more by one GET.
type zoneReader struct {
	ctx  context.Context // of the reading; an io.Reader has no other place for it
	from zoneBucket
	key  string
	name id.Bundle

	at, end int64 // what was not asked for yet
	window  []byte
	left    []byte        // of the window
	store   io.ReadCloser // once no agent had what came next
}

// Read implements io.Reader.
func (r *zoneReader) Read(p []byte) (int, error) {
	if len(r.left) == 0 && r.store == nil {
		if r.at == r.end {
			return 0, io.EOF
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	if r.store != nil {
		return r.store.Read(p)
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// next gets the next window, or opens the object for all that is left.
func (r *zoneReader) next() (err error) {
	if r.window == nil {
		r.window = make([]byte, min(zoneWindow, r.end-r.at))
	}
	w := r.window[:min(int64(len(r.window)), r.end-r.at)]
	if r.from.zone.ReadAt(r.ctx, r.name, w, uint32(r.at)) {
		r.left, r.at = w, r.at+int64(len(w))
		return nil
	}
	r.window = nil
	r.store, err = r.from.Bucket.Get(r.ctx, r.key, r.at, r.end-r.at)
	return err
}

// Close implements io.Closer.
func (r *zoneReader) Close() error {
	if r.store != nil {
		return r.store.Close()
	}
	return nil
}
