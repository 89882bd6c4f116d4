package merge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/resume"
)

// input is one bundle to be read, from front to back.
type input struct {
	key        string
	first, end int64          // the stretch of the object that is needed
	stream     *resume.Reader // of that stretch
	buf        *bufio.Reader  // nil before the first read
	missing    bool           // the store does not have the object
}

// at is the position of the next byte that the input gives.
func (in *input) at() int64 {
	if in.buf == nil {
		return in.stream.At()
	}
	return in.stream.At() - int64(in.buf.Buffered())
}

// close gives up the connection and the buffer, for good.
func (in *input) close() {
	_ = in.stream.Close() // never fails
	in.buf = nil
}

// inputs are those of a plan.
type inputs struct {
	env        *Env
	ctx        context.Context
	byBundle   map[id.Bundle]*input
	inOrder    []*input       // of their first extents
	side       *resume.Reader // see aside
	bufferSize int
}

// newInputs finds out which stretch of each bundle the plan needs: from its first extent to the last byte of any.
func newInputs(ctx context.Context, env *Env, plan *job.Plan) *inputs {
	ins := &inputs{env: env, ctx: ctx, byBundle: make(map[id.Bundle]*input)}
	for i := range plan.Partitions {
		for x := range stored(&plan.Partitions[i]) {
			in := ins.byBundle[x.Bundle]
			if in == nil {
				in = &input{key: bundle.Key(env.Prefix, x.Bundle), first: int64(x.Position)}
				ins.byBundle[x.Bundle] = in
				ins.inOrder = append(ins.inOrder, in)
			}
			in.end = max(in.end, end(x))
		}
	}
	for _, in := range ins.inOrder {
		in.stream = ins.stream(in.key, in.first, in.end)
	}
	ins.bufferSize = min(max(env.BuffersBytes/max(len(ins.inOrder), 1), minBuffer), maxBuffer)
	return ins
}

func (ins *inputs) stream(key string, from, to int64) *resume.Reader {
	r := resume.New(ins.ctx, ins.env.Bucket, key, from, to-from)
	r.StallTimeout, r.OnResume = ins.env.StallTimeout, ins.env.Metrics.resumed.Inc
	return r
}

// stored gives a partition's extents whose bytes are in objects.
func stored(p *job.Partition) func(yield func(*extent.Extent) bool) {
	return func(yield func(*extent.Extent) bool) {
		for i := range p.Extents {
			if p.Extents[i].Kind != extent.Marker && !yield(&p.Extents[i]) {
				return
			}
		}
	}
}

func end(x *extent.Extent) int64 { return int64(x.Position) + int64(x.Length) }

// open sends the GETs of all inputs, openAtOnce at a time. Otherwise the merge would wait a round trip for each input. If
// objects are missing, open returns a *MissingError. Any other failed GET is repeated when the merge reads its input.
func (ins *inputs) open() error {
	var group errgroup.Group
	group.SetLimit(openAtOnce)
	var mu sync.Mutex
	var missing []id.Bundle
	for b, in := range ins.byBundle {
		group.Go(func() error {
			err := in.stream.Open()
			mu.Lock()
			defer mu.Unlock()
			if in.missing = errors.Is(err, objstore.ErrNotFound); in.missing {
				missing = append(missing, b)
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
	if len(missing) > 0 {
		slices.Sort(missing)
		return &MissingError{Bundles: missing}
	}
	return nil
}

// reader returns a reader at the extent's first byte. Error: objstore.ErrNotFound, if open found the object missing.
func (ins *inputs) reader(x *extent.Extent) (io.Reader, error) {
	in := ins.byBundle[x.Bundle]
	if in.missing {
		return nil, objstore.ErrNotFound
	}
	gap := int64(x.Position) - in.at()
	if gap < 0 {
		return ins.aside(x, int64(x.Position)), nil
	}
	if in.buf == nil {
		in.buf = bufio.NewReaderSize(in.stream, ins.bufferSize)
	}
	if gap > skipBytes || !in.stream.Connected() && gap > int64(in.buf.Buffered()) {
		in.stream.SkipTo(int64(x.Position))
		in.buf.Reset(in.stream)
		return in.buf, nil
	}
	if _, err := in.buf.Discard(int(gap)); err != nil {
		return nil, fmt.Errorf("skip %d bytes: %w", gap, err)
	}
	return in.buf, nil
}

// aside reads an extent from that position on by a GET of its own. It is for what lies before the bytes that the input
// gave already: a batch that was handed in again after a gap in its producer's sequence has a later offset than those
// behind it. And for second looks. The reader is good until the next such call.
func (ins *inputs) aside(x *extent.Extent, position int64) io.Reader {
	ins.closeSide()
	ins.side = ins.stream(ins.byBundle[x.Bundle].key, position, end(x))
	return ins.side
}

func (ins *inputs) closeSide() {
	if ins.side != nil {
		_ = ins.side.Close() // never fails
	}
}

// done gives up what an input holds once its last extent was read.
func (ins *inputs) done(x *extent.Extent) {
	if in := ins.byBundle[x.Bundle]; in.at() >= in.end {
		in.close()
	}
}

// close gives up what all inputs hold.
func (ins *inputs) close() {
	ins.closeSide()
	for _, in := range ins.inOrder {
		in.close()
	}
}
