package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/fetch"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/id"
)

// ListOffsets answers ListOffsets (key 2), versions 1 to 11.
//
//	2   isolation level, throttle time
//	4   leader epochs (KIP-320); the answer has none, see kafkaproto.LogEpoch and Departure
//	5   OFFSET_NOT_AVAILABLE may be answered (KIP-207); it never is
//	6   flexible
//	7   timestamp -3, the record of the largest timestamp (KIP-734)
//	8   timestamp -4, the local log start (KIP-405)
//	9   timestamp -5, the last tiered offset (KIP-1005); there is none
//	10  time-out (KIP-1075)
//	11  timestamp -6, the first offset to be tiered (KIP-1023); there is none
type ListOffsets struct {
	catalogue *view.Catalogue
	source    view.Prober
	offsets   *fetch.Offsets
	departure *Departure // nil: no request is redirected
}

// maxListWait bounds a ListOffsets request whatever its time-out, below clients' request time-out.
const maxListWait = 25 * time.Second

// listWait returns the time that a request waits for its answer.
func listWait(in *kmsg.ListOffsetsRequest) time.Duration {
	if in.Version < 10 {
		return maxListWait
	}
	return min(maxListWait, time.Duration(max(in.TimeoutMillis, 1))*time.Millisecond)
}

// NewListOffsets returns the handler. departure, if it is not nil, redirects clients while the agent drains.
func NewListOffsets(catalogue *view.Catalogue, source view.Prober, offsets *fetch.Offsets, departure *Departure) (*ListOffsets, error) {
	if catalogue == nil || source == nil || offsets == nil {
		return nil, errors.New("list offsets handler: catalogue, source and offsets are needed")
	}
	return &ListOffsets{catalogue: catalogue, source: source, offsets: offsets, departure: departure}, nil
}

// Key implements API.
func (*ListOffsets) Key() int16 { return int16(kmsg.ListOffsets) }

// Start implements API.
func (l *ListOffsets) Start(ctx context.Context, req *edge.Request) func() edge.Reply {
	in := kmsg.NewPtrListOffsetsRequest()
	if err := Decode(req, in); err != nil {
		return Malformed(req, err)
	}
	req.Release()
	return func() edge.Reply { return Answer(req, l.answer(ctx, req, in)) }
}

func (l *ListOffsets) answer(ctx context.Context, req *edge.Request, in *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	connection := ctx
	ctx, cancel := context.WithTimeout(ctx, listWait(in))
	defer cancel()
	out := kmsg.NewPtrListOffsetsResponse()
	var asked []namedPartition
	for i := range in.Topics {
		for j := range in.Topics[i].Partitions {
			asked = append(asked, namedPartition{in.Topics[i].Topic, in.Topics[i].Partitions[j].Partition})
		}
	}
	targets := resolveNames(ctx, l.catalogue, l.source, asked)
	departing := l.departure.of(connection, req)
	wants, at := []fetch.OffsetWant(nil), []int(nil)
	n := 0
	for i := range in.Topics {
		for j := range in.Topics[i].Partitions {
			p := &in.Topics[i].Partitions[j]
			ts := p.Timestamp
			if targets[n].err == nil && unsupportedTimestamp(ts, in.Version) {
				targets[n].err = kerr.UnsupportedVersion
			}
			if targets[n].err == nil && departing != nil {
				if _, redirected := departing.leader(targets[n].id, p.CurrentLeaderEpoch, false); redirected {
					targets[n].err = kerr.NotLeaderForPartition
				}
			}
			if targets[n].err == nil {
				wants, at = append(wants, fetch.OffsetWant{Partition: targets[n].id, Timestamp: ts}), append(at, n)
			}
			n++
		}
	}
	results := make([]fetch.OffsetResult, n)
	for i, r := range l.offsets.List(ctx, wants, in.IsolationLevel == 1) {
		results[at[i]] = r
	}
	n = 0
	for i := range in.Topics {
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = in.Topics[i].Topic
		for range in.Topics[i].Partitions {
			t.Partitions = append(t.Partitions, listed(asked[n].partition, targets[n].err, results[n]))
			n++
		}
		out.Topics = append(out.Topics, t)
	}
	return out
}

// listed encodes one result; err was found before.
func listed(partition int32, err *kerr.Error, r fetch.OffsetResult) kmsg.ListOffsetsResponseTopicPartition {
	p := kmsg.NewListOffsetsResponseTopicPartition()
	p.Partition, p.LeaderEpoch = partition, kafkaproto.LogEpoch
	if err == nil {
		err = r.Err
	}
	if err != nil {
		p.ErrorCode, p.Offset, p.Timestamp = err.Code, -1, -1
		return p
	}
	p.Offset, p.Timestamp = r.Offset, r.Timestamp
	return p
}

// unsupportedTimestamp tells whether a special timestamp is not the version's (ReplicaManager.fetchOffset).
func unsupportedTimestamp(ts int64, version int16) bool {
	switch ts {
	case fetch.TimestampLatest, fetch.TimestampEarliest:
		return false
	case fetch.TimestampMax:
		return version < 7
	case fetch.TimestampEarliestLocal:
		return version < 8
	case fetch.TimestampLatestTiered:
		return version < 9
	case fetch.TimestampEarliestPendingUpload:
		return version < 11
	}
	return ts < 0
}

// namedPartition is a partition as requests without topic ids name it.
type namedPartition struct {
	topic     string
	partition int32
}

// target is a partition that a name led to, or why it led nowhere.
type target struct {
	id  id.TopicPartition
	err *kerr.Error
}

// resolveNames finds partitions in the catalogue, asking the owner once for what it does not know (I4). A partition
// named twice is INVALID_REQUEST both times, as in Kafka.
func resolveNames(ctx context.Context, c *view.Catalogue, source view.Prober, asked []namedPartition) []target {
	targets := make([]target, len(asked))
	if !lookupNames(c.Load(), asked, targets) {
		return targets
	}
	ctx, cancel := context.WithTimeout(ctx, freshTimeout)
	defer cancel()
	snapshot, err := c.Fresh(ctx, source)
	if err == nil {
		lookupNames(snapshot, asked, targets)
		return targets
	}
	for i := range targets {
		if targets[i].err == kerr.UnknownTopicOrPartition {
			targets[i].err = kerr.NotLeaderForPartition // retriable: nothing is known
		}
	}
	return targets
}

func lookupNames(s *view.Snapshot, asked []namedPartition, targets []target) (missing bool) {
	times := make(map[namedPartition]int, len(asked))
	for _, a := range asked {
		times[a]++
	}
	for i, a := range asked {
		topic, ok := s.TopicByName(a.topic)
		switch {
		case times[a] > 1:
			targets[i] = target{err: kerr.InvalidRequest}
		case !ok || a.partition < 0 || a.partition >= topic.Partitions:
			targets[i] = target{err: kerr.UnknownTopicOrPartition}
			missing = true
		default:
			targets[i] = target{id: id.TopicPartition{Topic: topic.ID, Partition: a.partition}}
		}
	}
	return missing
}
