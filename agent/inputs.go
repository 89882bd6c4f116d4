package agent

import (
	"context"
	"io"

	"github.com/freshet-io/freshet/agent/job/merge"
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
	return zoneBucket{
		Bucket: a.bucket, zone: a.zone, prefix: a.listeners.bundlePrefix(), window: zoneWindow(a.budgets.jobs / 100 * windowsPercent),
	}
}

// windowsPercent is the share of the memory for jobs that windows on other agents' memory have.
const windowsPercent = 10

// Bounds of a window: how much other agents are asked for at once, of one bundle.
const (
	minWindow = 16 << 10
	maxWindow = 128 << 10
)

// zoneWindow is the size of a window if those of a job, two for each input, are to come to so many bytes.
func zoneWindow(bytes int64) int {
	return int(min(max(bytes/(2*levelOneInputs), minWindow), maxWindow))
}

// levelOneInputs is how many inputs a job of the first level has at most.
const levelOneInputs = 64

// memory is what is asked for bytes that agents of the zone may have in memory (peer.Zone).
type memory interface {
	ReadAt(ctx context.Context, b id.Bundle, p []byte, position uint32) bool
}

// zoneBucket reads bundles from the memory of the zone's agents where it can.
type zoneBucket struct {
	objstore.Bucket
	zone   memory
	prefix string
	window int // bytes
}

var _ merge.Cached = zoneBucket{}

// Store implements merge.Cached.
func (b zoneBucket) Store() objstore.Bucket { return b.Bucket }

// Get implements objstore.Bucket. It always succeeds for a bundle: what is wrong shows when it is read.
func (b zoneBucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	name, err := bundle.ParseKey(b.prefix, key)
	if err != nil || offset < 0 || length <= 0 || offset+length > bundle.MaxSize {
		return b.Bucket.Get(ctx, key, offset, length)
	}
	r := &zoneReader{from: b, key: key, name: name, at: offset, end: offset + length}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r, nil
}

// zoneReader reads a range window by window from other agents, and what none of them has any more by one GET. While a
// window is read the next one is asked for: a job has many inputs, and would wait a round trip for each window of each.
type zoneReader struct {
	ctx    context.Context // of the reading; an io.Reader has no other place for it
	cancel context.CancelFunc
	from   zoneBucket
	key    string
	name   id.Bundle

	at, end int64         // what was not given a window yet
	left    []byte        // of the window that is read
	read    []byte        // that window
	asked   []byte        // the window that was asked for, for the bytes before at; nil if none is
	got     chan bool     // tells whether it was filled
	store   io.ReadCloser // once no agent had what came next
}

// Read implements io.Reader.
func (r *zoneReader) Read(p []byte) (int, error) {
	if len(r.left) == 0 && r.store == nil {
		if r.asked == nil && r.at == r.end {
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

// next takes the window that was asked for and asks for the one behind it, or opens the object for all that is left.
func (r *zoneReader) next() (err error) {
	if r.asked == nil {
		r.ask(nil)
	}
	window, ok := r.asked, <-r.got
	r.asked = nil
	if ok {
		spare := r.read
		r.read, r.left = window, window
		if r.at < r.end {
			r.ask(spare)
		}
		return nil
	}
	r.read = nil
	from := r.at - int64(len(window))
	r.store, err = r.from.Bucket.Get(r.ctx, r.key, from, r.end-from)
	return err
}

// ask asks for the next window, in the memory of one that was read.
func (r *zoneReader) ask(spare []byte) {
	size := min(int64(r.from.window), r.end-r.at)
	if int64(cap(spare)) < size {
		spare = make([]byte, size)
	}
	window, position, got := spare[:size], uint32(r.at), make(chan bool, 1)
	r.asked, r.got = window, got
	r.at += size
	go func() { got <- r.from.zone.ReadAt(r.ctx, r.name, window, position) }()
}

// Close implements io.Closer. It waits until nobody writes into a window any more.
func (r *zoneReader) Close() error {
	r.cancel()
	if r.asked != nil {
		<-r.got
		r.asked = nil
	}
	if r.store != nil {
		return r.store.Close()
	}
	return nil
}
