package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
)

// Bounds of the look at the end of a partition.
const (
	endPause       = 500 * time.Millisecond // without a record, before one looks
	endFetchBytes  = 1 << 20
	endRecordBytes = 256 << 20 // that records of one batch may decompress to
)

// ends are the offsets at which partitions are done. A consumer is told of records alone, and the last ones before the end
// may be gone, by compaction or because they were aborted: then one has to look what is stored there.
type ends struct {
	topic     string
	committed bool
	open      map[int32]*end // partitions that are not done
}

// end is of one partition.
type end struct {
	next  int64 // offset after the last record seen
	until int64
}

// saw notes a record and tells whether it is one to be shown.
func (e *ends) saw(partition int32, offset int64) bool {
	p := e.open[partition]
	if p == nil {
		return false
	}
	p.next = offset + 1
	if p.next >= p.until {
		delete(e.open, partition)
	}
	return offset < p.until
}

// look finds the partitions that have nothing more to show.
func (e *ends) look(ctx context.Context, client *kgo.Client) error {
	meta, err := kadm.NewClient(client).Metadata(ctx, e.topic)
	if err != nil {
		return failed("read metadata", err)
	}
	topic := meta.Topics[e.topic]
	for partition, p := range e.open {
		done, err := e.passed(ctx, client, topic.ID, topic.Partitions[partition], p)
		if errors.Is(err, kerr.OffsetOutOfRange) {
			done, err = e.trimmed(ctx, client, partition, p)
		}
		if err != nil && !kerr.IsRetriable(err) {
			return fmt.Errorf("look for the end of partition %d: %w", partition, err)
		}
		if done {
			delete(e.open, partition)
		}
	}
	return nil
}

// passed tells whether there is no record between what was seen and the end.
func (e *ends) passed(ctx context.Context, client *kgo.Client, id kadm.TopicID, at kadm.PartitionDetail, p *end) (bool, error) {
	for next := p.next; next < p.until; {
		stored, err := e.fetch(ctx, client, id, at, next)
		if err != nil {
			return false, err
		}
		after, empty := skipEmpty(stored, next, p.until)
		if !empty || after == next {
			return false, nil // a record comes, or nobody knows yet
		}
		next = after
	}
	return true, nil
}

// trimmed tells whether the log was trimmed beyond the end, else where it begins now.
func (e *ends) trimmed(ctx context.Context, client *kgo.Client, partition int32, p *end) (bool, error) {
	starts, err := kadm.NewClient(client).ListStartOffsets(ctx, e.topic)
	if err != nil {
		return false, failed("list start offsets", err)
	}
	start, ok := starts.Lookup(e.topic, partition)
	if !ok || start.Err != nil {
		return false, start.Err
	}
	p.next = max(p.next, start.Offset)
	return p.next >= p.until, nil
}

// fetch asks for what is stored from an offset on.
func (e *ends) fetch(ctx context.Context, client *kgo.Client, id kadm.TopicID, at kadm.PartitionDetail, offset int64) ([]byte, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.SessionEpoch = endFetchBytes, -1
	if e.committed {
		req.IsolationLevel = 1
	}
	t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	t.Topic, t.TopicID = e.topic, id
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = at.Partition, offset, endFetchBytes
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, client.Broker(int(at.Leader)))
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errors.New("fetch: an answer without the partition")
	}
	answer := resp.Topics[0].Partitions[0]
	return answer.RecordBatches, kerr.ErrorForCode(answer.ErrorCode)
}

// skipEmpty gives the offset after the last whole batch, and whether no record lies in [from, until).
func skipEmpty(stored []byte, from, until int64) (next int64, empty bool) {
	next = from
	for b, err := range kafkaproto.Batches(stored) {
		if err != nil {
			break // cut by the byte limit
		}
		for r, err := range kafkaproto.Records(b, endRecordBytes) {
			if err != nil || r.Offset >= from && r.Offset < until {
				return next, false
			}
		}
		next = max(next, b.LastOffset()+1)
	}
	return next, true
}
