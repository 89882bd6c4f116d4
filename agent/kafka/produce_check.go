package kafka

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/kafkaproto"
)

// topicIDVersion is the first Produce version that names topics by id.
const topicIDVersion = 13

// topicRules are the parsed configs of the topics of one catalogue snapshot, as far as they were asked for.
type topicRules struct{ of atomic.Pointer[snapshotRules] }

type snapshotRules struct {
	snapshot *view.Snapshot
	rules    sync.Map // *view.Topic -> *topicconfig.Values
}

// get gives a topic's rules. They are parsed once per snapshot; snapshots change with topics, configs and members
// only.
func (c *topicRules) get(s *view.Snapshot, t *view.Topic) *topicconfig.Values {
	known := c.of.Load()
	if known == nil || known.snapshot != s {
		known = &snapshotRules{snapshot: s}
		c.of.Store(known)
	}
	if v, ok := known.rules.Load(t); ok {
		return v.(*topicconfig.Values)
	}
	v := topicconfig.Resolve(t.Configs, s.BrokerConfigs)
	known.rules.Store(t, &v)
	return &v
}

// finder gives the topic that a part of a request is for, with its rules, or the error to answer.
type finder func(t *kmsg.ProduceRequestTopic, partition int32) (*view.Topic, *topicconfig.Values, error)

// finder looks topics up in the catalogue as it is, and, once something is missing there, in one that is as new as the
// request: only that can tell that a topic or partition does not exist (I4).
func (r *produceRequest) finder(ctx context.Context) finder {
	cfg := &r.api.cfg
	s := cfg.Catalogue.Load()
	asked := false
	var stale error // why s is not fresh though it was asked
	return func(t *kmsg.ProduceRequestTopic, partition int32) (*view.Topic, *topicconfig.Values, error) {
		topic, err := r.lookUp(s, t, partition)
		if err != nil && partition >= 0 {
			if !asked {
				asked = true
				s, stale = r.fresh(ctx, s)
				topic, err = r.lookUp(s, t, partition)
			}
			if err != nil && stale != nil {
				err = kerr.NotLeaderForPartition // not known to be absent
			}
		}
		if err != nil {
			return topic, nil, err
		}
		return topic, r.api.topics.get(s, topic), nil
	}
}

func (r *produceRequest) fresh(ctx context.Context, s *view.Snapshot) (*view.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, produceFreshTimeout)
	defer cancel()
	fresh, err := r.api.cfg.Catalogue.Fresh(ctx, r.api.cfg.Prober)
	if err != nil {
		r.api.cfg.Log.Debug("produce to an unknown topic is not answered as such", zap.Error(err))
		return s, err
	}
	return fresh, nil
}

// lookUp finds a topic by what the request's version names it with. The topic is given even if it lacks the
// partition.
func (r *produceRequest) lookUp(s *view.Snapshot, t *kmsg.ProduceRequestTopic, partition int32) (*view.Topic, error) {
	var topic *view.Topic
	var ok bool
	if r.in.Version >= topicIDVersion {
		if topic, ok = s.TopicByID(t.TopicID); !ok {
			return nil, kerr.UnknownTopicID
		}
	} else if topic, ok = s.TopicByName(t.Topic); !ok {
		return nil, kerr.UnknownTopicOrPartition
	}
	if topic.Internal { // as ReplicaManager.appendRecords, which lets Kafka's own tools through
		return topic, kerr.InvalidTopicException
	}
	if partition < 0 || partition >= topic.Partitions {
		return topic, kerr.UnknownTopicOrPartition
	}
	return topic, nil
}

// validate checks a batch by its topic's configs, without opening it.
func (r *produceRequest) validate(rules *topicconfig.Values, in *kmsg.ProduceRequestTopicPartition) (kafkaproto.RecordBatch, error) {
	return kafkaproto.Validate(in.Records, kafkaproto.Limits{
		ProduceVersion: r.in.Version,
		MaxBytes:       rules.MaxMessageBytes,
		LogAppendTime:  rules.TimestampType == topicconfig.LogAppendTime,
		BeforeMaxMs:    rules.TimestampBeforeMax,
		AfterMaxMs:     rules.TimestampAfterMax,
		NowMs:          r.now,
	})
}
