package metadata

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/freshet-io/freshet/metadata/id"
)

// manyOffsets gives a state committed offsets, so many groups of so many, and a function that makes the next commit.
func manyOffsets(s *machine, groups, offsets int) func() Command {
	topics := make([]*Topic, 0, 16)
	for t := range s.Topics() {
		if topics = append(topics, t); len(topics) == cap(topics) {
			break
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	commit := func(group, count int) *CommitOffsets {
		c := &CommitOffsets{Group: fmt.Sprint("group-", group)}
		t := topics[group%len(topics)]
		from := rng.IntN(max(1, int(t.Partitions)-count))
		for i := range count {
			c.Offsets = append(c.Offsets, OffsetCommit{
				Partition: id.TopicPartition{Topic: t.ID, Partition: int32((from + i) % int(t.Partitions))}, Offset: rng.Int64(),
				LeaderEpoch: 1, ExpiresMs: -1,
			})
		}
		return c
	}
	for g := range groups {
		s.Apply(s.Index()+1, &Batch{Now: s.Now(), Commands: []Command{commit(g, offsets)}}, nil, nil)
	}
	return func() Command { return commit(rng.IntN(groups), 20) }
}

// BenchmarkCommitOffsets commits twenty offsets of a group at a time, to a state that has a million.
func BenchmarkCommitOffsets(b *testing.B) {
	s := newMachine()
	s.Apply(1, &Batch{Now: 1, Commands: []Command{&CreateTopic{ID: id.Topic{1}, Name: "t", Partitions: 200}}}, nil, nil)
	next := manyOffsets(s, 10_000, 100)
	b.ReportAllocs()
	for b.Loop() {
		s.Apply(s.Index()+1, &Batch{Now: 2, Commands: []Command{next()}}, nil, nil)
	}
}
