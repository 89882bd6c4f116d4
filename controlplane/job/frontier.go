package job

import (
	"slices"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// frontiers are, per partition, the offset below which everything is final: a round need not look there.
type frontiers struct {
	topics map[id.Topic]*topicFrontier
	round  uint64
}

type topicFrontier struct {
	final []int64 // by partition
	round uint64  // the last one that saw the topic
}

func newFrontiers() *frontiers { return &frontiers{topics: map[id.Topic]*topicFrontier{}} }

// of gives a topic's offsets, to be raised.
func (f *frontiers) of(t *metadata.Topic) []int64 {
	e := f.topics[t.ID]
	if e == nil {
		e = &topicFrontier{}
		f.topics[t.ID] = e
	}
	e.round = f.round
	if n := int(t.Partitions) - len(e.final); n > 0 {
		e.final = append(e.final, make([]int64, n)...)
	}
	return e.final
}

// next ends a round: topics that it did not see are forgotten.
func (f *frontiers) next() {
	for t, e := range f.topics {
		if e.round != f.round {
			delete(f.topics, t)
		}
	}
	f.round++
}

// topicsInOrder gives the topics in the order of their ids, which is that of partitions.
func topicsInOrder(s *metadata.State) []*metadata.Topic {
	topics := slices.Collect(s.Topics())
	slices.SortFunc(topics, func(a, b *metadata.Topic) int {
		return id.TopicPartition{Topic: a.ID}.Compare(id.TopicPartition{Topic: b.ID})
	})
	return topics
}
