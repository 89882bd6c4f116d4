package metadata

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// What is derived (counts, load, names, deletions) is the same in a state restored from a snapshot, over deletions, undeletions, purges,
// transactions, resting producers and time.
func TestDeletions_DerivedState(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s, now := newMachine(), int64(1_000_000)
		applied(t, s, now, &OpenSession{Instance: "i"}, &AllocateProducerIDs{Count: 100}, &LimitProducers{Active: 40})
		for i := range 4 {
			applied(t, s, now, &InitTransaction{TransactionalID: fmt.Sprint("x", i), TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1})
		}
		n := uint32(1)
		topic := func() id.Topic { return topicID(fmt.Sprint("t", rng.IntN(6))) }
		for step := range 600 {
			var c Command
			switch rng.IntN(12) {
			case 0, 1:
				c = &CreateTopic{ID: topic(), Name: fmt.Sprint("n", rng.IntN(3)), Partitions: int32(1 + rng.IntN(3))}
			case 2:
				c = &DeleteTopic{ID: topic(), KeepMs: int64(rng.IntN(3)) * 1000}
			case 3:
				c = &UndeleteTopic{ID: topic(), Name: []string{"", "n0", "n9"}[rng.IntN(3)]}
			case 4:
				if rng.IntN(4) == 0 {
					p := &PurgeTopics{}
					for d := range s.DeletedTopics() {
						p.Topics = append(p.Topics, PurgedTopic{ID: d.ID, Index: d.Index})
					}
					c = p
				} else {
					c = &CreatePartitions{ID: topic(), Count: int32(1 + rng.IntN(4))}
				}
			case 5:
				now += int64(rng.IntN(3)) * 13 * 3600 * 1000
				c = &Tick{}
			case 6:
				x, _ := s.Transaction(fmt.Sprint("x", rng.IntN(4)))
				ref := TransactionRef{TransactionalID: x.TransactionalID, ProducerID: x.ProducerID, Epoch: x.Epoch, Version: ProtocolTwo}
				c = &EndTransaction{TransactionRef: ref, Commit: rng.IntN(2) == 0}
			default:
				b := commit.Batch{Records: 2, Bytes: 100, MaxTimestamp: -1, ProducerID: int64(rng.IntN(60)), BaseSequence: int32(rng.IntN(3)) * 2}
				if rng.IntN(3) == 0 {
					if x, ok := s.Transaction(fmt.Sprint("x", rng.IntN(4))); ok {
						b.ProducerID, b.ProducerEpoch, b.Transactional, b.TransactionVersion = x.ProducerID, x.Epoch, true, 2
					}
				}
				c = commitOf(1, n, 0, section{fmt.Sprint("t", rng.IntN(6)), int32(rng.IntN(3)), []commit.Batch{b}})
				n++
			}
			s.Apply(s.index+1, &Batch{Now: now, Commands: []Command{c}}, nil, nil)
			if step%3 != 0 {
				continue
			}
			r := restore(t, s)
			require.Equal(t, contentOf(s), contentOf(r), "seed %d step %d %T", seed, step, c)
			require.Equal(t, s.counts, r.counts)
			require.Equal(t, s.names.Keys(), r.names.Keys())
			require.Equal(t, s.deletedNames.Keys(), r.deletedNames.Keys())
			require.Equal(t, s.deletedNames.Values(), r.deletedNames.Values())
			require.Equal(t, s.deletions.Keys(), r.deletions.Keys())
			require.Equal(t, s.deletions.Values(), r.deletions.Values())
			require.Equal(t, s.bounds, r.bounds)
			if rng.IntN(4) == 0 {
				s = r
			}
		}
	}
}
