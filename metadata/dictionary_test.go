package metadata

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestApply_TopicTwiceReplaysAlike applies a commit whose dictionary names a topic twice, which owners refuse to log, on a
// running replica and on a restored one.
func TestApply_TopicTwiceReplaysAlike(t *testing.T) {
	zero, one := topicID("0"), topicID("1")
	batches := []commit.Batch{{Records: 5, Bytes: 61, ProducerID: -1}}
	encoded := bytes.ReplaceAll(encodeCommit(commit.Header{Submission: id.Submission{Session: 1, N: 1}, Bytes: 1 << 20},
		section{topic: "0", partition: 2, batches: batches}, section{topic: "1", partition: 3, batches: batches}), one[:], zero[:])
	r, err := commit.Parse(encoded)
	require.NoError(t, err)
	require.ErrorIs(t, r.DistinctTopics(), commit.ErrMalformed)

	apply := func(s *machine, index uint64, c ...Command) {
		fx := Effects{}
		for _, result := range s.Apply(index, &Batch{Now: int64(index) * 1000, Commands: c}, &fx, nil) {
			require.NoError(t, result.Err)
		}
	}
	running := newMachine()
	apply(running, 1, &OpenSession{Instance: "i", Endpoints: make([]Endpoint, 1)}, &CreateTopic{ID: zero, Name: "t", Partitions: 9})
	restored := restore(t, running)
	for _, s := range []*machine{running, restored} {
		apply(s, 2, &CommitBundle{Encoded: encoded})
		for _, p := range []int32{2, 3} {
			marks, _ := s.Watermarks(id.TopicPartition{Topic: zero, Partition: p})
			require.EqualValues(t, 5, marks.HighWatermark, "partition %d", p)
		}
	}
	require.Equal(t, running.Hash(), restored.Hash())
}
