package fetch

import (
	"context"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/kafkaproto"
)

// maxInternalBytes bounds the records of internal topics in one answer.
const maxInternalBytes = 1 << 20

// Internal reads __consumer_offsets, which the owner answers. kafka.InternalReader implements it.
type Internal interface {
	// ReadInternal returns what there is of each partition, in order, without waiting for more. Of a request without
	// bytes it returns the high watermarks. The error says that the owner could not be asked.
	ReadInternal(ctx context.Context, wants []InternalWant, bytes int) ([]InternalRead, error)
}

// InternalWant asks for a partition of __consumer_offsets from an offset on.
type InternalWant struct {
	Partition int32
	Offset    int64
	MaxBytes  int
}

// InternalRead answers it.
type InternalRead struct {
	Err           *kerr.Error
	HighWatermark int64
	Records       []byte // whole batches
}

// internal returns the indexes of the partitions of internal topics that are to be read.
func (r *Request) internal() (at []int) {
	for i := range r.Partitions {
		if p := &r.Partitions[i]; p.Refused == nil && internaltopic.Has(p.ID.Topic) {
			at = append(at, i)
		}
	}
	return at
}

// withInternal answers a fetch that has partitions of internal topics. Their records are asked for first. If there are
// none, they are asked for again when the fetch has waited.
func (a *attempt) withInternal(ctx context.Context, at []int) {
	deadline := a.deadline
	results, done := a.readInternal(ctx, at)
	if done || len(a.wants) == 0 {
		a.deadline = time.Time{}
	}
	for !a.round(ctx) {
	}
	if !done && a.resp.Bytes == 0 && !a.failed() {
		a.waitUntil(ctx, deadline)
		results, _ = a.readInternal(ctx, at)
		for k, i := range at { // the reader passes offsets that have no records
			if r := &results[k]; r.Err == nil && r.Size == 0 && a.req.Partitions[i].Offset < r.Marks.HighWatermark {
				empty := kafkaproto.AppendEmptyBatches(nil, r.Marks.HighWatermark-1, r.Marks.HighWatermark-1)
				r.Records, r.Size = net.Buffers{empty}, len(empty)
			}
		}
	}
	for k, i := range at {
		a.resp.Results[i] = results[k]
		a.resp.Bytes += results[k].Size
		a.resp.hold(&a.f.unsent, results[k].Size)
	}
}

// waitUntil waits for a deadline, unless the client goes or the agent drains.
func (a *attempt) waitUntil(ctx context.Context, deadline time.Time) {
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-a.drain:
	}
}

// readInternal reads the partitions once. done reports whether there are records or errors to answer.
func (a *attempt) readInternal(ctx context.Context, at []int) (results []Result, done bool) {
	results = make([]Result, len(at))
	bytes := min(a.req.MaxBytes, maxInternalBytes)
	wants, of := make([]InternalWant, 0, len(at)), make([]int, 0, len(at))
	for k, i := range at {
		p := &a.req.Partitions[i]
		if p.ID.Topic == internaltopic.Offsets.ID {
			wants, of = append(wants, InternalWant{p.ID.Partition, p.Offset, max(p.MaxBytes, 1)}), append(of, k)
			continue
		}
		results[k] = Result{Confirmed: true} // empty: it ends at 0
		if p.Offset != 0 {
			results[k].fail(kerr.OffsetOutOfRange)
		}
	}
	for k, r := range a.f.askInternal(ctx, wants, max(bytes, 1)) {
		result := &results[of[k]]
		if r.Err != nil {
			result.fail(r.Err)
			continue
		}
		*result = Result{Marks: view.Watermarks{HighWatermark: r.HighWatermark, LastStable: r.HighWatermark}, Confirmed: true}
		if len(r.Records) > 0 {
			result.Records, result.Size = net.Buffers{r.Records}, len(r.Records)
		}
	}
	for k := range results {
		done = done || results[k].Err != nil || results[k].Size > 0
	}
	return results, done
}

func (f *Fetcher) askInternal(ctx context.Context, wants []InternalWant, bytes int) []InternalRead {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.ReadTimeout)
	defer cancel()
	return askInternal(ctx, f.cfg.Internal, wants, bytes)
}

// askInternal gives every partition a retriable error if the owner cannot be asked.
func askInternal(ctx context.Context, from Internal, wants []InternalWant, bytes int) []InternalRead {
	if len(wants) == 0 {
		return nil
	}
	if from != nil {
		if reads, err := from.ReadInternal(ctx, wants, bytes); err == nil && len(reads) == len(wants) {
			return reads
		}
	}
	failed := make([]InternalRead, len(wants))
	for i := range failed {
		failed[i].Err = kerr.NotLeaderForPartition
	}
	return failed
}

// listInternal answers the wants of partitions of internal topics, and returns the others with their indexes. Records of
// internal topics are not found by time.
func (o *Offsets) listInternal(ctx context.Context, wants []OffsetWant, results []OffsetResult) (rest []OffsetWant, at []int) {
	var asked []InternalWant
	var of []int
	for i, w := range wants {
		switch {
		case !internaltopic.Has(w.Partition.Topic):
			rest, at = append(rest, w), append(at, i)
		case w.Timestamp == TimestampEarliest, w.Timestamp == TimestampEarliestLocal,
			w.Timestamp == TimestampLatest && w.Partition.Topic == internaltopic.Transactions.ID:
			results[i] = OffsetResult{Offset: 0, Timestamp: -1}
		case w.Timestamp == TimestampLatest:
			asked, of = append(asked, InternalWant{Partition: w.Partition.Partition}), append(of, i)
		default:
			results[i] = noOffset
		}
	}
	for k, r := range askInternal(ctx, o.cfg.Internal, asked, 0) {
		results[of[k]] = OffsetResult{Err: r.Err, Offset: r.HighWatermark, Timestamp: -1}
		if r.Err != nil {
			results[of[k]].Offset = -1
		}
	}
	return rest, at
}
