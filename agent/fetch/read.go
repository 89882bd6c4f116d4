package fetch

import (
	"context"
	"errors"
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

// readAll reads the planned partitions in order within the request's bounds. Once there is enough to answer, a
// partition whose bytes are not in memory is left for the next fetch, its read begun: cold partitions do not hold up
// hot ones, and being first next time they are waited for. It reports whether an object was gone.
func (a *attempt) readAll(ctx context.Context) (gone bool) {
	left, single := a.req.MaxBytes, false
	for n, i := range a.read {
		p, plan, result := &a.req.Partitions[i], &a.plans[n], &a.resp.Results[i]
		if result.Err != nil || len(plan.Extents) == 0 {
			continue
		}
		if a.resp.Bytes > 0 && (left <= 0 || single) {
			continue
		}
		r := reader{
			attempt: a, partition: p, plan: plan, result: result, class: class(plan),
			budget: min(left, p.MaxBytes), first: a.resp.Bytes == 0, single: single,
			patient: a.resp.Bytes == 0 || a.resp.Bytes < a.req.MinBytes,
		}
		err := r.read(ctx)
		result.Aborted = within(plan.Aborted, r.end) // also of what was read before an error
		single = r.single
		a.resp.Bytes += result.Size
		left -= result.Size
		a.f.metrics.bytes.WithLabelValues(r.class.String()).Add(float64(result.Size))
		if errors.Is(err, cache.ErrGone) {
			a.f.metrics.gone.Inc()
			a.f.cfg.Views.Invalidate(p.ID)
			gone = true
		} else if err != nil && result.Size == 0 {
			result.fail(a.f.translate(err, p))
		}
	}
	if single {
		a.f.metrics.shrunk.Inc()
	}
	return gone
}

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
	end       int64 // after the last offset taken
}

// read appends whole batches from the partition's offset on.
func (r *reader) read(ctx context.Context) error {
	exts, limit := r.plan.Extents, r.plan.End
	r.startAll(exts, limit)
	last := 0
	for i := range exts {
		e := &exts[i]
		if e.Base >= limit || r.stopped {
			break
		}
		last = i + 1
		if e.Kind == extent.Marker {
			r.made(marker(e), e.Last)
			continue
		}
		b, err := r.bytes(ctx, e)
		if err != nil {
			return err
		}
		if b == nil {
			break
		}
		r.single = r.single || r.f.pressed()
		r.take(b, limit)
	}
	if r.class == cache.CatchUp && r.result.Size > 0 {
		r.f.ahead.extend(r.req.Reader, r.partition, exts[last:], exts[last-1].Last+1, r.f.cfg.Bytes)
	}
	return nil
}

// startAll begins the reads of what the budget lets this answer bring, side by side.
func (r *reader) startAll(exts []extent.Extent, limit int64) {
	n := 0
	for i := range exts {
		if n >= max(r.budget, 1) || exts[i].Base >= limit {
			return
		}
		n += int(exts[i].Length)
		if exts[i].Kind != extent.Marker {
			r.f.cfg.Bytes.Start(&exts[i], r.class)
		}
	}
}

// bytes gives an extent's bytes; nil if they are not in memory and this answer does not wait for them.
func (r *reader) bytes(ctx context.Context, e *extent.Extent) (*cache.Bytes, error) {
	if r.patient && r.result.Size == 0 || r.resp.Bytes+r.result.Size < r.req.MinBytes {
		return r.f.cfg.Bytes.Read(ctx, e, r.class)
	}
	b, _, err := r.f.cfg.Bytes.Resident(e)
	return b, err
}

// take appends the batches of one extent that belong into the answer, and keeps the bytes if there are any.
func (r *reader) take(b *cache.Bytes, limit int64) {
	from, to, seen := -1, 0, false
	last := min(b.Extent.Last, limit-1) // of offsets without records
	b.Batches(func(batch cache.Batch) bool {
		if batch.Last < r.partition.Offset {
			return true
		}
		if batch.Base >= limit {
			r.stopped = true
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
	if !seen { // compaction took the records at the extent's end
		r.synthesise(max(b.Extent.Base, r.partition.Offset), last)
	}
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
	r.made(kafkaproto.AppendEmptyBatches(nil, base, last), last)
}

// marker makes the control batch that a marker stands for, the same bytes for every reader. Its leader epoch is -1, as
// that of all batches read here.
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
