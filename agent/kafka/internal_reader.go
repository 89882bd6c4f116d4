package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/fetch"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/internal/internaltopic"
)

// internalVersion is the version of Fetch that reads of __consumer_offsets are forwarded in: the newest that names topics.
const internalVersion = 12

// InternalReader asks the owner for records of __consumer_offsets, by forwarded Fetch requests. It implements
// fetch.Internal.
type InternalReader struct {
	to    Forwarder
	calls atomic.Uint64
}

// NewInternalReader makes a reader over a Forwarder.
func NewInternalReader(to Forwarder) *InternalReader { return &InternalReader{to: to} }

// internalConnections are connection numbers that no client has: each read has one of its own, and waits for no other.
const internalConnections = 1 << 63

// ReadInternal implements fetch.Internal.
func (r *InternalReader) ReadInternal(ctx context.Context, wants []fetch.InternalWant, bytes int) ([]fetch.InternalRead, error) {
	in := kmsg.NewPtrFetchRequest()
	in.Version, in.MaxBytes, in.SessionEpoch = internalVersion, int32(bytes), fetch.EpochFinal
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = internaltopic.Offsets.Name
	for _, w := range wants {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = w.Partition, w.Offset, int32(min(w.MaxBytes, bytes))
		topic.Partitions = append(topic.Partitions, p)
	}
	in.Topics = append(in.Topics, topic)
	body, err := r.to.Forward(ctx, client.Forward{
		Key: int16(kmsg.Fetch), Version: internalVersion, Body: in.AppendTo(nil), Connection: internalConnections | r.calls.Add(1),
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", topic.Topic, err)
	}
	out := kmsg.NewPtrFetchResponse()
	out.Version = internalVersion
	if err := out.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("read %s: %w", topic.Topic, err)
	}
	if len(out.Topics) != 1 || len(out.Topics[0].Partitions) != len(wants) {
		return nil, errors.New("read " + topic.Topic + ": an answer without all partitions")
	}
	reads := make([]fetch.InternalRead, len(wants))
	for i := range reads {
		p := &out.Topics[0].Partitions[i]
		reads[i] = fetch.InternalRead{HighWatermark: p.HighWatermark, Records: p.RecordBatches}
		if err, ok := kerr.ErrorForCode(p.ErrorCode).(*kerr.Error); ok { //nolint:errorlint // it is of this type or nil
			reads[i].Err = err
		}
	}
	return reads, nil
}
