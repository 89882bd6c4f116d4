// Package offsetslog answers reads of __consumer_offsets. The topic has no records of its own: they are made from the
// committed offsets in the state, one for each key, in Kafka's schemas (OffsetCommitKey, OffsetCommitValue).
//
// # Offsets
//
// A compacted log keeps the last record of each key at its offset, and so does this one. The offset of a record comes
// from the entry of the metadata log that committed it:
//
//	offset = index of the entry << 23 | slot
//
// The records of one entry in one partition take its last slots, in the order of command, topic id and partition. When a
// later commit replaces one, those before it move up. So a reader that stopped between them can get a record twice, and
// misses none. A later commit has a higher offset, whichever owner or replica answers.
//
// The high watermark is the first offset of the entry after the newest. While a transaction with offsets is open, it is
// that of the transaction's first commit: the offsets appear there when the transaction ends. Neither ever goes back.
//
// Removed offsets leave no tombstone. Group metadata is not shown.
package offsetslog

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/internal/forwarded"
	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
)

// slotBits is the width of a slot: an entry of the log has fewer than 2^20 commands and a few bytes for each offset.
const slotBits = 23

// Bounds of one answer, and of all.
const (
	// maxRecords bounds the records of one answer, but for those of one entry, which are never split.
	maxRecords = 16_384
	// maxBytes bounds the record bytes of one answer, but for those of one entry.
	maxBytes = 1 << 20
	// maxName is the longest name that Kafka's schemas can hold, bytes. Longer groups are left out.
	maxName = math.MaxInt16
	// restFactor bounds the share of time that goes into reading the state: one read at a time, and after each a rest
	// of so many times as long.
	restFactor = 9
)

// Owner is what the log needs of the owner of the virtual cluster (package owner).
type Owner interface {
	// ReadFrozen is for a fn that takes long: commits go on meanwhile.
	ReadFrozen(fn func(*metadata.State)) (index uint64, err error)
}

// Log answers forwarded Fetch requests for __consumer_offsets under one owner. It is safe for concurrent use.
type Log struct {
	owner Owner
	turn  *semaphore.Weighted // of reading the state; guards next
	next  time.Time           // when the next read may begin
}

// New returns the log under one owner.
func New(o Owner) *Log { return &Log{owner: o, turn: semaphore.NewWeighted(1)} }

var handlers = forwarded.Handlers[*Log]{int16(kmsg.Fetch): forwarded.On((*Log).fetch)}

// Keys returns the API keys answered here.
func (*Log) Keys() []int16 { return handlers.Keys() }

// Handle answers a forwarded request with the response's body. Errors are those of forwarded.Handlers.
func (l *Log) Handle(ctx context.Context, f *api.Forward) ([]byte, error) {
	return handlers.Handle(ctx, l, f)
}

// fetch answers without waiting for records. A request without max bytes asks for the high watermarks alone.
func (l *Log) fetch(ctx context.Context, in *kmsg.FetchRequest) (*kmsg.FetchResponse, error) {
	out := kmsg.NewPtrFetchResponse()
	r := reading{budget: min(int(in.MaxBytes), maxBytes)}
	for i := range in.Topics {
		t := kmsg.NewFetchResponseTopic()
		t.Topic = in.Topics[i].Topic
		t.Partitions = make([]kmsg.FetchResponseTopicPartition, len(in.Topics[i].Partitions))
		for j := range t.Partitions {
			p := &in.Topics[i].Partitions[j]
			t.Partitions[j] = kmsg.NewFetchResponseTopicPartition()
			t.Partitions[j].Partition, t.Partitions[j].LogStartOffset = p.Partition, 0
			if t.Topic != internaltopic.Offsets.Name || p.Partition < 0 || p.Partition >= internaltopic.Partitions {
				t.Partitions[j].ErrorCode = kerr.UnknownTopicOrPartition.Code
				continue
			}
			r.add(p, &t.Partitions[j])
		}
		out.Topics = append(out.Topics, t)
	}
	if err := l.read(ctx, &r); err != nil {
		return nil, err
	}
	return out, nil
}

// read fills a reading from the state, in its turn.
func (l *Log) read(ctx context.Context, r *reading) error {
	if err := l.turn.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("wait for another read: %w", err)
	}
	defer l.turn.Release(1)
	if rest := time.Until(l.next); rest > 0 {
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return fmt.Errorf("wait after another read: %w", context.Cause(ctx))
		}
	}
	began := time.Now()
	_, err := l.owner.ReadFrozen(r.fill)
	l.next = time.Now().Add(restFactor * time.Since(began))
	return err
}

// reading is one request: the partitions that it reads.
type reading struct {
	budget int // bytes
	asked  [internaltopic.Partitions]*asked
	order  []*asked
}

// asked is one partition.
type asked struct {
	from  int64
	limit int // bytes
	out   *kmsg.FetchResponseTopicPartition
	end   int64 // high watermark
	most  int   // records, but for those of one entry
	max   int   // candidates kept: most, or a large entry and those before it
	found []candidate
	cut   uint64 // entries above were left out; 0: none
}

// candidate is an offset that may be in the answer.
type candidate struct {
	group string
	metadata.LoggedOffset
}

func (r *reading) add(p *kmsg.FetchRequestTopicPartition, out *kmsg.FetchResponseTopicPartition) {
	if r.asked[p.Partition] != nil {
		out.ErrorCode = kerr.InvalidRequest.Code // named twice
		return
	}
	a := &asked{from: p.FetchOffset, limit: min(int(p.PartitionMaxBytes), r.budget), out: out}
	r.asked[p.Partition] = a
	r.order = append(r.order, a)
}

// fill reads the state and encodes the answer.
func (r *reading) fill(s *metadata.State) {
	for _, a := range r.order {
		a.end, a.most = first(s.Index()+1), max(maxRecords/len(r.order), 1)
		a.max = a.most
	}
	for g := range s.Groups() {
		a := r.asked[internaltopic.PartitionOf(g.Name)]
		if a == nil || len(g.Name) > maxName {
			continue
		}
		s.LoggedOffsets(g.Name, func(o *metadata.LoggedOffset) bool {
			a.note(g.Name, o)
			return true
		})
	}
	left := r.budget
	for _, a := range r.order {
		a.answer(&left)
	}
}

// first returns the first offset of an entry.
func first(index uint64) int64 { return int64(index << slotBits) }

// note keeps an offset if it may be in the answer.
func (a *asked) note(group string, o *metadata.LoggedOffset) {
	if o.Pending {
		a.end = min(a.end, first(o.Index))
		return
	}
	if a.limit <= 0 || first(o.Index+1) <= a.from || a.cut > 0 && o.Index > a.cut {
		return
	}
	a.found = append(a.found, candidate{group, *o})
	if len(a.found) >= 2*a.max {
		a.shrink()
	}
}

// shrink leaves the lowest entries, until they have as many offsets as one answer may.
func (a *asked) shrink() {
	a.sort()
	last := a.found[a.max-1].Index
	n := a.max
	for n < len(a.found) && a.found[n].Index == last {
		n++
	}
	if n < len(a.found) {
		a.cut = last
		clear(a.found[n:])
		a.found = a.found[:n]
	}
	a.max = max(a.max, n) // a large entry stays whole
}

func (a *asked) sort() {
	slices.SortFunc(a.found, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(x.Index, y.Index), cmp.Compare(x.Position, y.Position),
			slices.Compare(x.Partition.Topic[:], y.Partition.Topic[:]), cmp.Compare(x.Partition.Partition, y.Partition.Partition),
			cmp.Compare(x.group, y.group))
	})
}

// answer encodes the partition's answer and takes its bytes off what is left.
func (a *asked) answer(left *int) {
	a.out.HighWatermark, a.out.LastStableOffset = a.end, a.end
	if a.from < 0 || a.from > a.end {
		a.out.ErrorCode = kerr.OffsetOutOfRange.Code
		a.out.HighWatermark, a.out.LastStableOffset, a.out.LogStartOffset = -1, -1, -1
		return
	}
	a.sort()
	limit := min(a.limit, *left)
	for rest := a.found; len(rest) > 0 && first(rest[0].Index) < a.end && len(a.out.RecordBatches) < limit; {
		if taken := len(a.found) - len(rest); taken >= a.most {
			break
		}
		n := 1
		for n < len(rest) && rest[n].Index == rest[0].Index {
			n++
		}
		a.out.RecordBatches = a.entry(a.out.RecordBatches, rest[:n])
		rest = rest[n:]
	}
	*left -= len(a.out.RecordBatches)
}

// entry appends the records of one entry of the log, those below the wanted offset left out, as one batch.
func (a *asked) entry(dst []byte, all []candidate) []byte {
	offset := first(all[0].Index+1) - int64(len(all))
	records := make([]kafkaproto.KeyedRecord, 0, len(all))
	for i := range all {
		if at := offset + int64(i); at >= a.from {
			records = append(records, all[i].record(at))
		}
	}
	if len(records) == 0 {
		return dst
	}
	return kafkaproto.AppendRecords(dst, records)
}

// record encodes as GroupCoordinatorRecordHelpers.newOffsetCommitRecord does.
func (c *candidate) record(offset int64) kafkaproto.KeyedRecord {
	key := kmsg.OffsetCommitKey{Version: 1, Group: c.group, Topic: c.Topic, Partition: c.Partition.Partition}
	value := kmsg.OffsetCommitValue{
		Version: 3, Offset: c.Offset.Offset, LeaderEpoch: c.LeaderEpoch, Metadata: c.Metadata, CommitTimestamp: c.CommittedMs,
	}
	if c.ExpiresMs >= 0 {
		value.Version, value.ExpireTimestamp = 1, c.ExpiresMs
	}
	return kafkaproto.KeyedRecord{
		Offset: offset, Timestamp: c.CommittedMs, Key: key.AppendTo(nil), Value: value.AppendTo(nil),
	}
}
