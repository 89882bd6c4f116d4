package admin

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// DeleteRecords, key 21, versions 0-2 (KIP-107).
//
//	2  is flexible
//
// An offset of -1 is the high watermark. One command raises the log start of all partitions of the request. The agent that forwarded the
// request is notified before the answer, in stream order; ListOffsets asks the owner on every agent, so that no later answer shows an
// earlier log start (I4). A partition that the request names several times is answered once, and the last offset counts
// (KafkaApis.handleDeleteRecordsRequest).

// noLowWatermark stands in answers with an error (DeleteRecordsResponse.INVALID_LOW_WATERMARK).
const noLowWatermark = -1

func (c *call) deleteRecords(ctx context.Context, in *kmsg.DeleteRecordsRequest) (*kmsg.DeleteRecordsResponse, error) {
	d := deletion{out: kmsg.NewPtrDeleteRecordsResponse(), topics: map[string]*deletedFrom{}}
	err := c.read(func(s *metadata.State) error {
		for i := range in.Topics {
			d.add(s, &in.Topics[i])
		}
		return nil
	})
	if err != nil || len(d.trims) == 0 {
		return d.out, err
	}
	results, err := c.propose(ctx, &metadata.TrimPartitions{Trims: d.trims})
	if err != nil {
		return nil, err
	}
	for i, r := range results[0].Value.([]metadata.TrimResult) {
		p := &d.out.Topics[d.places[i].topic].Partitions[d.places[i].partition]
		p.LowWatermark, p.ErrorCode = r.LogStart, trimError(r.Err)
	}
	return d.out, nil
}

// deletion gathers the answer and the trims of one request.
type deletion struct {
	out    *kmsg.DeleteRecordsResponse
	topics map[string]*deletedFrom
	trims  []metadata.Trim
	places []deletedPlace // of the trims in the answer
}

type deletedPlace struct{ topic, partition int }

// deletedFrom is one topic of the answer.
type deletedFrom struct {
	index      int // in the answer
	id         id.Topic
	fault      *apiError
	partitions map[int32]int // index in the trims; with a fault, of no meaning
}

func (d *deletion) add(s *metadata.State, in *kmsg.DeleteRecordsRequestTopic) {
	t := d.topics[in.Topic]
	if t == nil {
		t = &deletedFrom{index: len(d.out.Topics), partitions: map[int32]int{}}
		t.id, t.fault = deletable(s, in.Topic)
		d.topics[in.Topic] = t
		answer := kmsg.NewDeleteRecordsResponseTopic()
		answer.Topic = in.Topic
		d.out.Topics = append(d.out.Topics, answer)
	}
	answer := &d.out.Topics[t.index]
	for _, p := range in.Partitions {
		at, twice := t.partitions[p.Partition]
		if twice && t.fault == nil {
			d.trims[at].Offset = p.Offset
		}
		if twice {
			continue
		}
		t.partitions[p.Partition] = len(d.trims)
		if t.fault == nil {
			d.trims = append(d.trims, metadata.Trim{Partition: id.TopicPartition{Topic: t.id, Partition: p.Partition}, Offset: p.Offset})
			d.places = append(d.places, deletedPlace{t.index, len(answer.Partitions)})
		}
		r := kmsg.NewDeleteRecordsResponseTopicPartition()
		r.Partition, r.LowWatermark, r.ErrorCode = p.Partition, noLowWatermark, t.fault.code()
		answer.Partitions = append(answer.Partitions, r)
	}
}

// deletable finds a topic whose records may be deleted: not one that is compacted only (Partition.deleteRecordsOnLeader).
func deletable(s *metadata.State, name string) (id.Topic, *apiError) {
	t, ok := shownTopic(s, name)
	switch {
	case !ok:
		return id.Topic{}, plain(kerr.UnknownTopicOrPartition)
	case internalTopics[name]:
		return id.Topic{}, plain(kerr.InvalidTopicException)
	}
	if v := topicconfig.Resolve(t.Configs, s.Configs(metadata.ConfigBroker, "")); v.Compact && !v.Delete {
		return id.Topic{}, plain(kerr.PolicyViolation)
	}
	return t.ID, nil
}

func trimError(err error) int16 {
	if errors.Is(err, metadata.ErrOffsetOutOfRange) {
		return kerr.OffsetOutOfRange.Code
	}
	return commandError(err).code()
}
