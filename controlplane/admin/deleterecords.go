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
// An offset of -1 is the high watermark. The log start is raised by one command for the whole request, however many
// partitions. The agent that the request came by hears of it before the answer, in stream order; ListOffsets asks the
// owner on every agent, so that no later answer shows an earlier log start (I4).

// noLowWatermark stands in answers with an error (DeleteRecordsResponse.INVALID_LOW_WATERMARK).
const noLowWatermark = -1

func (c *call) deleteRecords(ctx context.Context, in *kmsg.DeleteRecordsRequest) (*kmsg.DeleteRecordsResponse, error) {
	out := kmsg.NewPtrDeleteRecordsResponse()
	var trims []metadata.Trim
	var places []*kmsg.DeleteRecordsResponseTopicPartition
	_, err := c.owner.Read(func(s *metadata.State) {
		for i := range in.Topics {
			t := kmsg.NewDeleteRecordsResponseTopic()
			t.Topic = in.Topics[i].Topic
			t.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(in.Topics[i].Partitions))
			topic, fault := deletable(s, t.Topic)
			for j, p := range in.Topics[i].Partitions {
				answer := &t.Partitions[j]
				answer.Partition, answer.LowWatermark, answer.ErrorCode = p.Partition, noLowWatermark, fault.code()
				if fault == nil {
					trims = append(trims, metadata.Trim{Partition: id.TopicPartition{Topic: topic, Partition: p.Partition}, Offset: p.Offset})
					places = append(places, answer)
				}
			}
			out.Topics = append(out.Topics, t)
		}
	})
	if err != nil || len(trims) == 0 {
		return out, err
	}
	results, err := c.propose(ctx, &metadata.TrimPartitions{Trims: trims})
	if err != nil {
		return nil, err
	}
	for i, r := range results[0].Value.([]metadata.TrimResult) {
		places[i].LowWatermark, places[i].ErrorCode = r.LogStart, trimError(r.Err)
	}
	return out, nil
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
