package metadata

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// TestLoad_OfRestoredState compares the counts of random states with those of their copies from snapshots, after every entry.
func TestLoad_OfRestoredState(t *testing.T) {
	t.Parallel()
	failures := map[string]int{}
	steps := 0
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 6))
		x := extremes{rng}
		s := atLimits(rng)
		s.countOther() // atLimits adds partitions without commands
		for range 30 + rng.IntN(60) {
			if rng.IntN(4) == 0 {
				x.step(s, map[commandKind]int{})
			} else {
				s.Apply(s.index+1, &Batch{Now: s.now + rng.Int64N(1000), Commands: randomCommands(rng, s)}, nil, nil)
			}
			steps++
			var buf bytes.Buffer
			require.NoError(t, s.snapshot().Encode(&buf))
			restored, err := decode(&buf)
			require.NoError(t, err)
			if differences := differentCounts(s, restored); len(differences) > 0 {
				for _, d := range differences {
					if failures[d]++; failures[d] == 1 {
						t.Errorf("seed %d: %s differs: %+v, restored %+v; counts %+v, restored %+v",
							seed, d, s.Load(), restored.Load(), s.counts, restored.counts)
					}
				}
				break // the next seed
			}
		}
	}
	t.Logf("%d entries; states that differ: %v", steps, failures)
}

// differentCounts returns the names of the derived counts that differ.
func differentCounts(s, restored *machine) (list []string) {
	l, r := s.Load(), restored.Load()
	r.Cleanup, r.CleanupBytes = l.Cleanup, l.CleanupBytes // see Load
	if l != r {
		list = append(list, "Load")
	}
	if s.counts != restored.counts {
		list = append(list, "producerCount of the state")
	}
	var topics, groups, names bool
	s.topics.Scan(func(key string, e *topicEntry) bool {
		r, ok := restored.topics.Get(key)
		topics = topics || !ok || r.counts != e.counts
		return true
	})
	s.groups.Scan(func(key string, g *groupEntry) bool {
		r, ok := restored.groups.Get(key)
		groups = groups || !ok
		g.topics.Scan(func(topic string, o *topicOffsets) bool {
			ro, ok := r.topics.Get(topic)
			groups = groups || !ok || ro.pendingCount != o.pendingCount || ro.pendingBytes != o.pendingBytes || ro.noteBytes != o.noteBytes
			return true
		})
		return true
	})
	s.transactions.byProducer.Scan(func(producer int64, x *transaction) bool {
		r, ok := restored.transactions.byProducer.Get(producer)
		names = names || !ok || r.groupBytes != x.groupBytes
		return true
	})
	if topics {
		list = append(list, "producerCount of a topic")
	}
	if groups {
		list = append(list, "counts of a group's topic")
	}
	if names {
		list = append(list, "groupBytes of a transaction")
	}
	return list
}

// TestLoad_CleanedPartitionRestored: a cleaning drops the last aborted transaction, and the tables with it.
func TestLoad_CleanedPartitionRestored(t *testing.T) {
	t.Parallel()
	topic := id.Topic{15: 1}
	tp := id.TopicPartition{Topic: topic}
	s := newMachine()
	apply := func(cmds ...Command) []Result {
		results := s.Apply(s.index+1, &Batch{Now: 1000, Commands: cmds}, nil, nil)
		for _, r := range results {
			require.NoError(t, r.Err)
		}
		return results
	}
	apply(&CreateTopic{ID: topic, Name: "t", Partitions: 1}, &OpenSession{Instance: "i"},
		&InitTransaction{TransactionalID: "x", TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1})
	ref := TransactionRef{TransactionalID: "x", Version: ProtocolOne, AsOf: 1 << 40}
	apply(&AddPartitions{TransactionRef: ref, Partitions: []id.TopicPartition{tp}}, transactional(1, topic, 0, 1), &EndTransaction{TransactionRef: ref})
	sum, _ := s.CleanupConfigs(topic)
	apply(&StartJob{Kind: job.Clean, Level: 1, Runner: 1, First: tp, Last: tp, Clean: &Cleaning{Configs: sum, Bounds: job.Bounds{To: 1}}})
	for j := range s.Jobs() {
		o := &job.Outcome{Bundles: []job.Bundle{{N: 1, Bytes: 1 << 30}}}
		o.Partitions = []job.Replacement{{ID: tp, To: 1, CleanedTo: 2, DroppedAborted: []int64{1}, Extents: []extent.Extent{{
			Last: 1, Kind: extent.Absolute, Bundle: id.Submission{Session: j.ID, N: 1}.Bundle(), Length: 61, Batches: 1,
		}}}}
		require.Equal(t, JobResult{Replaced: 1}, apply(&CompleteJob{Job: j.ID, Last: true, Outcome: job.AppendOutcome(nil, o)})[0].Value)
		break
	}
	var buf bytes.Buffer
	require.NoError(t, s.snapshot().Encode(&buf))
	restored, err := decode(&buf)
	require.NoError(t, err)
	require.Equal(t, s.Hash(), restored.Hash())
	require.Equal(t, s.Load(), restored.Load())
	require.Equal(t, s.counts, restored.counts)
}
