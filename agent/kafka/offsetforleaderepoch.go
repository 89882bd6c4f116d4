package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/fetch"
	"github.com/freshet-io/freshet/agent/view"
)

// OffsetForLeaderEpoch answers OffsetForLeaderEpoch (key 23), versions 2 to 4.
//
//	2  current leader epoch in the request, throttle time; not looked at: any agent serves any partition
//	3  replica id
//	4  flexible
//
// Logs are never truncated, so every epoch ends at the high watermark as of now (I4). A client's position lies below, so the client
// reads on (SubscriptionState.maybeCompleteValidation). Batches have no epoch (kafkaproto.LogEpoch), so consumers ask only about
// epochs from elsewhere, such as an offset that a tool committed. For an epoch newer than its own, Kafka answers none, and clients reset
// their position.
type OffsetForLeaderEpoch struct {
	catalogue *view.Catalogue
	source    view.Prober
	offsets   *fetch.Offsets
}

// NewOffsetForLeaderEpoch makes the handler.
func NewOffsetForLeaderEpoch(catalogue *view.Catalogue, source view.Prober, offsets *fetch.Offsets) (*OffsetForLeaderEpoch, error) {
	if catalogue == nil || source == nil || offsets == nil {
		return nil, errors.New("offset for leader epoch handler: catalogue, source and offsets are needed")
	}
	return &OffsetForLeaderEpoch{catalogue: catalogue, source: source, offsets: offsets}, nil
}

// Key implements API.
func (*OffsetForLeaderEpoch) Key() int16 { return int16(kmsg.OffsetForLeaderEpoch) }

// Start implements API.
func (o *OffsetForLeaderEpoch) Start(ctx context.Context, req *edge.Request) func() edge.Reply {
	in := kmsg.NewPtrOffsetForLeaderEpochRequest()
	if err := Decode(req, in); err != nil {
		return Malformed(req, err)
	}
	req.Release()
	return func() edge.Reply { return Answer(req, o.answer(ctx, in)) }
}

func (o *OffsetForLeaderEpoch) answer(ctx context.Context, in *kmsg.OffsetForLeaderEpochRequest) *kmsg.OffsetForLeaderEpochResponse {
	ctx, cancel := context.WithTimeout(ctx, maxListWait)
	defer cancel()
	out := kmsg.NewPtrOffsetForLeaderEpochResponse()
	var asked []namedPartition
	var epochs []int32
	for i := range in.Topics {
		for j := range in.Topics[i].Partitions {
			p := &in.Topics[i].Partitions[j]
			asked, epochs = append(asked, namedPartition{in.Topics[i].Topic, p.Partition}), append(epochs, p.LeaderEpoch)
		}
	}
	answers := o.ends(ctx, asked, epochs)
	for i := range in.Topics {
		t := kmsg.NewOffsetForLeaderEpochResponseTopic()
		t.Topic = in.Topics[i].Topic
		n := len(in.Topics[i].Partitions)
		t.Partitions, answers = answers[:n:n], answers[n:]
		out.Topics = append(out.Topics, t)
	}
	return out
}

// ends answers each partition with the epoch asked about and its high watermark.
func (o *OffsetForLeaderEpoch) ends(ctx context.Context, asked []namedPartition, epochs []int32) []kmsg.OffsetForLeaderEpochResponseTopicPartition {
	targets := resolveNames(ctx, o.catalogue, o.source, asked)
	wants, at := []fetch.OffsetWant(nil), []int(nil)
	for i := range targets {
		if targets[i].err == nil {
			wants, at = append(wants, fetch.OffsetWant{Partition: targets[i].id, Timestamp: fetch.TimestampLatest}), append(at, i)
		}
	}
	answers := make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, len(asked))
	for i := range answers {
		answers[i] = kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		answers[i].Partition, answers[i].LeaderEpoch, answers[i].EndOffset = asked[i].partition, -1, -1
		if targets[i].err != nil {
			answers[i].ErrorCode = targets[i].err.Code
		}
	}
	for k, r := range o.offsets.List(ctx, wants, false) {
		a := &answers[at[k]]
		if r.Err != nil {
			a.ErrorCode = r.Err.Code
			continue
		}
		a.LeaderEpoch, a.EndOffset = epochs[at[k]], r.Offset
	}
	return answers
}
