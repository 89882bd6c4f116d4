package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

func zapPartition(tp id.TopicPartition) zap.Field { return zap.Stringer("partition", tp) }

func zapOffset(offset int64) zap.Field { return zap.Int64("offset", offset) }

// translate gives the Kafka error of a failed read.
func (f *Fetcher) translate(err error, p *Partition) *kerr.Error {
	if corrupt := (*cache.CorruptError)(nil); errors.As(err, &corrupt) {
		return kerr.CorruptMessage // logged where it was found
	}
	if !errors.Is(err, context.Canceled) && f.warns.Allow() { // the client may be gone
		f.cfg.Log.Warn("read failed", zapPartition(p.ID), zapOffset(p.Offset),
			zap.Int64("warnings_not_logged", f.unsaid.Swap(0)), zap.Error(err))
	} else {
		f.unsaid.Add(1)
	}
	return kerr.KafkaStorageError
}

// reader reads one partition for one answer.
type reader struct {
	*attempt
	partition *Partition
	plan      *view.Plan
	result    *Result
	class     cache.Class
	budget    int  // bytes that it may bring
	first     bool // the answer's first batch is given however large it is
	single    bool // and only that: unsent answers press
	patient   bool // waits for bytes that are not in memory
	stopped   bool
	waiting   bool        // it needs bytes that are not in memory
	others    int         // bytes that other partitions brought
	next      cache.Next  // what is worth reading ahead, behind the live edge
	state     cache.State // of its first unit
	at        place       // where the next batch is
	end       int64       // after the last offset taken
}

// read appends whole batches from the partition's offset on.
func (r *reader) read(ctx context.Context) error {
	exts, limit := r.below(), r.plan.End
	for i := range exts {
		if r.stopped {
			break
		}
		if exts[i].Last < r.from() { // read before
			continue
		}
		if exts[i].Kind == extent.Marker {
			r.made(marker(&exts[i]), exts[i].Last)
			continue
		}
		if err := r.checkKnown(exts[i : i+1]); err != nil {
			return err
		}
		whole, err := r.readExtent(ctx, &exts[i], limit)
		if err != nil {
			return err
		}
		if !whole {
			break
		}
	}
	return nil
}

// errKnownMissing is returned without a GET if the object had a 404 after the plan was made, in this fetch or another one.
var errKnownMissing = fmt.Errorf("since this plan: %w", cache.ErrGone)

// checkKnown returns errKnownMissing if an extent's object is known to be missing.
func (r *reader) checkKnown(e []extent.Extent) error {
	if r.plan.Stale {
		return nil
	}
	if _, v := r.f.lost.check(r.partition.ID, e, r.planned); v != readable {
		return errKnownMissing
	}
	return nil
}

// from returns the offset of the next batch to take, or an offset in it.
func (r *reader) from() int64 { return max(r.partition.Offset, r.end) }

// noteEnd remembers where a partition behind the live edge ended, for the next fetch.
func (r *reader) noteEnd() {
	if r.class == cache.CatchUp && r.result.Size > 0 {
		first := r.f.ahead.note(r.req.Reader, r.partition, place{offset: r.end, bundle: r.at.bundle, position: r.at.position})
		r.resp.NewReader = r.resp.NewReader || first
	}
}

// readExtent appends an extent's batches, part by part; whole tells that none is left of them.
func (r *reader) readExtent(ctx context.Context, e *extent.Extent, limit int64) (whole bool, err error) {
	for offset := r.from(); ; offset = r.end {
		b, err := r.bytes(ctx, cache.Part{
			Extent: e, Offset: offset, Position: r.at.in(e, offset), Bytes: r.budget - r.result.Size, Reader: r.req.Reader,
		})
		if b == nil || err != nil {
			return false, err
		}
		r.f.lost.noteRead(e.Bundle)
		r.single = r.single || r.f.pressed()
		more := b.More
		r.take(b, limit)
		if r.stopped || !more {
			return !r.stopped, nil
		}
	}
}

// startAll begins the GETs of what the budget lets this answer bring, side by side, and returns how much that is.
func (r *reader) startAll(exts []extent.Extent, budget int) (n int) {
	for i := range exts {
		if n >= max(budget, 1) {
			break
		}
		n += int(exts[i].Length)
		if exts[i].Kind == extent.Relative {
			r.f.cfg.Bytes.Start(&exts[i], r.class)
		}
	}
	return n
}

// bytes gives bytes of an extent; nil if they are not in memory and this answer does not wait for them.
func (r *reader) bytes(ctx context.Context, p cache.Part) (*cache.Bytes, error) {
	if r.patient && (r.others+r.result.Size == 0 || r.others+r.result.Size < r.req.MinBytes) {
		return r.f.cfg.Bytes.ReadPart(ctx, p, r.class)
	}
	b, _, err := r.f.cfg.Bytes.ResidentPart(p)
	r.waiting = b == nil && err == nil
	return b, err
}

// take appends the batches of one extent that belong into the answer, and keeps the bytes if there are any.
func (r *reader) take(b *cache.Bytes, limit int64) {
	from, to, seen, beyond := -1, 0, false, !b.More
	last := min(b.Extent.Last, limit-1) // of offsets without records
	begin := r.from()
	b.Batches(func(batch cache.Batch) bool {
		if batch.Last < begin {
			return true
		}
		if batch.Base >= limit {
			r.stopped, beyond = true, true
			return false
		}
		seen = true
		if !r.fits(to-max(from, 0)+batch.Size, from < 0) {
			r.stopped = true
			return false
		}
		if from < 0 {
			from, to = batch.Position, batch.Position
		}
		to += batch.Size
		r.end = batch.Last + 1
		return true
	})
	if !seen && beyond { // compaction took the records at the extent's end, or up to the limit
		r.synthesise(max(b.Extent.Base, r.from()), last)
	}
	r.at = place{offset: r.end, bundle: b.Extent.Bundle, position: b.Position + uint32(max(to, 0))}
	if from < 0 {
		b.Release()
		return
	}
	r.keep(b, from, to)
}

// fits tells whether bytes more may follow what the partition has; beginning says that they are one batch.
func (r *reader) fits(bytes int, beginning bool) bool {
	if r.result.Size == 0 && beginning && r.first {
		return true
	}
	return !r.single && r.result.Size+bytes <= r.budget
}

// synthesise covers offsets without records by empty batches, so that consumers pass them.
func (r *reader) synthesise(base, last int64) {
	if base <= last {
		r.made(kafkaproto.AppendEmptyBatches(nil, base, last), last)
	}
}

// marker makes the control batch that a marker stands for, the same bytes for every reader.
func marker(e *extent.Extent) []byte {
	m := e.EndMarker()
	end := kafkaproto.Abort
	if m.Commit {
		end = kafkaproto.Commit
	}
	dst := make([]byte, 0, kafkaproto.ControlBatchSize)
	return kafkaproto.AppendControlBatch(dst, e.Base, e.MaxTimestamp, m.ProducerID, m.Epoch, end, m.CoordinatorEpoch)
}

// made appends batches that are in no object, up to the offset last.
func (r *reader) made(batches []byte, last int64) {
	if !r.fits(len(batches), true) {
		r.stopped = true
		return
	}
	r.result.Records = append(r.result.Records, batches)
	r.result.Size += len(batches)
	r.end = last + 1
}

// within gives the aborted transactions that begin below end.
func within(aborted []extent.Aborted, end int64) []extent.Aborted {
	beyond := func(a extent.Aborted) bool { return a.First >= end }
	if !slices.ContainsFunc(aborted, beyond) {
		return aborted
	}
	return slices.DeleteFunc(slices.Clone(aborted), beyond) // plans are shared
}
