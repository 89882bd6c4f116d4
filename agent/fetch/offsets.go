package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/recode"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// Timestamps with a meaning of their own (ListOffsetsRequest).
const (
	TimestampLatest                int64 = -1 // the high watermark, or the last stable offset
	TimestampEarliest              int64 = -2 // the log start
	TimestampMax                   int64 = -3 // the record with the largest timestamp (KIP-734)
	TimestampEarliestLocal         int64 = -4 // the log start: nothing is tiered (KIP-405)
	TimestampLatestTiered          int64 = -5 // none (KIP-1005)
	TimestampEarliestPendingUpload int64 = -6 // none (KIP-1023)
)

// Lookuper asks the owner: client.Session implements it.
type Lookuper interface {
	Lookup(ctx context.Context, partitions []*api.PartitionLookup) (*api.LookupAnswer, error)
}

// OffsetsConfig is what Offsets are made of. Zero values mean the defaults.
type OffsetsConfig struct {
	Source Lookuper
	Bytes  Bytes
	// Internal answers for internal topics. Nil: they are refused.
	Internal Internal
	// Fetcher shares its table of lost extents. Nil means a table of its own.
	Fetcher *Fetcher
	// AskTimeout bounds a look-up. Default 5 s.
	AskTimeout time.Duration
	Log        *zap.Logger
}

// ApplyDefaults fills in what is zero.
func (c *OffsetsConfig) ApplyDefaults() {
	c.AskTimeout = cmp.Or(c.AskTimeout, 5*time.Second)
	c.Log = cmp.Or(c.Log, zap.NewNop())
}

// Validate returns an error if a required field is not set.
func (c *OffsetsConfig) Validate() error {
	if c.Source == nil || c.Bytes == nil {
		return errors.New("source and bytes are needed")
	}
	return nil
}

// Offsets finds offsets by timestamps. Every answer rests on a look-up of its own, so that none is older than its
// request (I4).
type Offsets struct {
	cfg    OffsetsConfig
	opener *recode.Recoder
	lost   *lost
}

// maxOpened bounds the uncompressed records, bytes, of one batch that is opened to find a timestamp. They are looked
// through and not held.
const maxOpened = 1 << 30

// NewOffsets checks the configuration.
func NewOffsets(cfg OffsetsConfig) (*Offsets, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("offsets: %w", err)
	}
	o := &Offsets{cfg: cfg, opener: recode.New(recode.Config{MaxRecordBytes: maxOpened})}
	if cfg.Fetcher != nil {
		o.lost = cfg.Fetcher.lost
	} else {
		o.lost = newLost(func(id.TopicPartition) {}, cfg.Log) // there are no windows
	}
	return o, nil
}

// OffsetWant asks for the first offset at or after a timestamp, or for a special one.
type OffsetWant struct {
	Partition id.TopicPartition
	Timestamp int64
}

// OffsetResult answers it. Offset and Timestamp are -1 if there is no such record; the special offsets but
// TimestampMax have no timestamp.
type OffsetResult struct {
	Err       *kerr.Error
	Offset    int64
	Timestamp int64
}

var noOffset = OffsetResult{Offset: -1, Timestamp: -1}

// Bounds of one List.
const (
	// maxSearches bounds the partitions of a request whose batches are read at once.
	maxSearches = 8
	// maxSteps bounds the look-ups of one partition's search. More than one are needed only where an object moved, or a
	// log start or a batch's claimed largest timestamp leads astray: one for each such extent.
	maxSteps = 4096
)

// List finds the offsets, in the order asked. Errors are per partition.
func (o *Offsets) List(ctx context.Context, wants []OffsetWant, readCommitted bool) []OffsetResult {
	results := make([]OffsetResult, len(wants))
	if wants, at := o.listInternal(ctx, wants, results); len(wants) < len(results) {
		for k, r := range o.List(ctx, wants, readCommitted) {
			results[at[k]] = r
		}
		return results
	}
	if len(wants) == 0 {
		return results
	}
	questions := make([]*api.PartitionLookup, len(wants))
	for i := range wants {
		questions[i] = wants[i].question()
	}
	answers, err := o.ask(ctx, questions)
	if err != nil {
		for i := range results {
			results[i] = OffsetResult{Err: kerr.NotLeaderForPartition, Offset: -1, Timestamp: -1}
		}
		return results
	}
	var searches errgroup.Group
	searches.SetLimit(maxSearches)
	for i := range wants {
		a := answers[i]
		if a.GetUnknown() {
			results[i] = OffsetResult{Err: kerr.UnknownTopicOrPartition, Offset: -1, Timestamp: -1}
			continue
		}
		if special, ok := wants[i].special(a, readCommitted); ok {
			results[i] = special
			continue
		}
		searches.Go(func() error {
			find := o.search
			if wants[i].Timestamp == TimestampMax {
				find = o.searchLargest
			}
			results[i] = find(ctx, &wants[i], a, readCommitted)
			return nil
		})
	}
	_ = searches.Wait() // results carry the errors
	return results
}

func (w *OffsetWant) question() *api.PartitionLookup {
	q := &api.PartitionLookup{Topic: w.Partition.Topic[:], Partition: w.Partition.Partition, MaxExtents: 1, MaxBytes: 1}
	if w.Timestamp >= 0 || w.Timestamp == TimestampMax {
		q.Want = &api.PartitionLookup_Timestamp{Timestamp: w.Timestamp}
	} else {
		q.Want = &api.PartitionLookup_ExtentsFrom{ExtentsFrom: 1<<63 - 1} // none: the marks are enough
	}
	return q
}

// special answers from the marks.
func (w *OffsetWant) special(a *api.PartitionAnswer, readCommitted bool) (OffsetResult, bool) {
	switch {
	case w.Timestamp == TimestampLatest:
		return OffsetResult{Offset: lastFetchable(a, readCommitted), Timestamp: -1}, true
	case w.Timestamp == TimestampEarliest || w.Timestamp == TimestampEarliestLocal:
		return OffsetResult{Offset: a.GetLogStart(), Timestamp: -1}, true
	case w.Timestamp < 0 && w.Timestamp != TimestampMax:
		return noOffset, true
	}
	return OffsetResult{}, false
}

func lastFetchable(a *api.PartitionAnswer, readCommitted bool) int64 {
	if readCommitted {
		return a.GetLastStable()
	}
	return a.GetHighWatermark()
}

func (o *Offsets) ask(ctx context.Context, questions []*api.PartitionLookup) ([]*api.PartitionAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, o.cfg.AskTimeout)
	defer cancel()
	answer, err := o.cfg.Source.Lookup(ctx, questions)
	if err != nil {
		return nil, fmt.Errorf("look up offsets: %w", err)
	}
	if len(answer.GetPartitions()) != len(questions) {
		return nil, fmt.Errorf("look-up of %d partitions answered for %d", len(questions), len(answer.GetPartitions()))
	}
	return answer.GetPartitions(), nil
}

// search finds the record in the extent that the look-up gave. Where it is not in there, the search goes on behind, with
// the next extent that claims such a record.
func (o *Offsets) search(ctx context.Context, w *OffsetWant, a *api.PartitionAnswer, readCommitted bool) OffsetResult {
	lost, next, planned := 0, int64(0), uint64(0)
	for range maxSteps {
		exts, err := view.ParseExtents(a.GetExtents())
		if err != nil {
			return o.failed(w, err)
		}
		if len(exts) == 0 {
			return noOffset
		}
		var gone bool
		for i := range exts {
			found, ok, err := o.searchExtent(ctx, &exts[i], w.Timestamp, a.GetLogStart())
			if missing := (*cache.GoneError)(nil); errors.As(err, &missing) {
				if o.noteMissing(w, missing, planned, exts[i].Base) {
					return o.failed(w, errLost)
				}
				gone = true
				break
			}
			switch {
			case err != nil:
				return o.failed(w, err)
			case ok && found.Offset >= lastFetchable(a, readCommitted):
				return noOffset
			case ok:
				return found
			}
			next = exts[i].Last + 1
		}
		if gone {
			if lost++; lost == maxGone {
				return o.failed(w, cache.ErrGone)
			}
		}
		if next >= a.GetHighWatermark() {
			return noOffset
		}
		question := w.question()
		question.From = next
		planned = o.lost.planning()
		answers, err := o.ask(ctx, []*api.PartitionLookup{question})
		if err != nil || answers[0].GetUnknown() {
			return OffsetResult{Err: kerr.NotLeaderForPartition, Offset: -1, Timestamp: -1}
		}
		a = answers[0]
	}
	return o.failed(w, errSteps)
}

// errLost ends a search that needs a lost extent. The table of lost extents logs the loss, so failed does not.
var errLost = errors.New("object of an extent is gone")

// noteMissing notes a 404 for an extent of a look-up, and reports whether the extent is lost. planned is the number of the
// newest look-up after the search's first 404, or 0 before that.
func (o *Offsets) noteMissing(w *OffsetWant, e *cache.GoneError, planned uint64, offset int64) bool {
	return o.lost.noteMissing(lostKey{partition: w.Partition, bundle: e.Bundle}, planned, e, offset)
}

// errSteps ends a search of too many steps.
var errSteps = errors.New("search takes too many look-ups")

func (o *Offsets) failed(w *OffsetWant, err error) OffsetResult {
	r := OffsetResult{Err: kerr.KafkaStorageError, Offset: -1, Timestamp: -1}
	switch corrupt := (*cache.CorruptError)(nil); {
	case errors.As(err, &corrupt), errors.Is(err, kafkaproto.ErrCorrupt):
		r.Err = kerr.CorruptMessage
	case errors.Is(err, context.DeadlineExceeded):
		r.Err = kerr.RequestTimedOut
	}
	if errors.Is(err, errLost) {
		return r
	}
	o.cfg.Log.Warn("offset search failed", zapPartition(w.Partition), zap.Int64("timestamp", w.Timestamp), zap.Error(err))
	return r
}

// searchExtent reads an extent and finds the first record of at least a timestamp and an offset.
func (o *Offsets) searchExtent(ctx context.Context, e *extent.Extent, least, logStart int64) (OffsetResult, bool, error) {
	if e.MaxTimestamp < least || e.MaxTimestamp < 0 {
		return OffsetResult{}, false, nil
	}
	if e.Kind == extent.Marker { // its control record counts like any other, as in FileRecords.searchForTimestamp
		return OffsetResult{Offset: e.Base, Timestamp: e.MaxTimestamp}, e.Base >= logStart, nil
	}
	if o.lost.isLost(e.Bundle) {
		return OffsetResult{}, false, errLost
	}
	var found OffsetResult
	var ok bool
	err := o.batches(ctx, e, least, func(b *cache.Bytes, batch cache.Batch) (more bool, err error) {
		if batch.MaxTimestamp < least || batch.Last < logStart {
			return true, nil
		}
		found, ok, err = o.searchBatch(ctx, b.Copy(batch), least, logStart)
		return !ok, err
	})
	return found, ok, err
}

// batches calls yield with the batches of an extent, part by part, but for some that have no timestamp of at least least,
// until it returns false or an error.
func (o *Offsets) batches(ctx context.Context, e *extent.Extent, least int64, yield func(*cache.Bytes, cache.Batch) (bool, error)) error {
	position, err := o.cfg.Bytes.SeekTime(ctx, e, least, cache.CatchUp)
	if err != nil {
		return fmt.Errorf("find time in extent: %w", err)
	}
	p, more := cache.Part{Extent: e, Offset: e.Base, Position: position, Bytes: searchPart}, true
	for more && uint64(p.Position) < uint64(e.Position)+uint64(e.Length) {
		b, err := o.cfg.Bytes.ReadPart(ctx, p, cache.CatchUp)
		if err != nil {
			return fmt.Errorf("read extent: %w", err)
		}
		o.lost.noteRead(e.Bundle)
		b.Batches(func(batch cache.Batch) bool {
			more, err = yield(b, batch)
			return more && err == nil
		})
		p.Position = b.Position + uint32(b.Size())
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// searchPart is how much of a long extent is looked through at a time.
const searchPart = 1 << 20

// searchBatch finds the first record of at least this timestamp and offset.
func (o *Offsets) searchBatch(ctx context.Context, b kafkaproto.RecordBatch, least, logStart int64) (OffsetResult, bool, error) {
	at, ok, err := o.opener.Find(ctx, b, least, logStart)
	if err != nil {
		return OffsetResult{}, false, fmt.Errorf("open batch at offset %d: %w", b.BaseOffset(), err)
	}
	return OffsetResult{Offset: at.Offset, Timestamp: at.Timestamp}, ok, nil
}
