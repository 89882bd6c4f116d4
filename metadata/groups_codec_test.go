package metadata

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
)

// snapshotWith gives a snapshot of a state whose groups fn has tampered with.
func snapshotWith(t *testing.T, fn func(s *machine)) []byte {
	t.Helper()
	s := newMachine()
	s.Apply(1, &Batch{Now: 1, Commands: []Command{
		&CreateTopic{ID: id.Topic{1}, Name: "t", Partitions: 3},
		&UpdateGroup{Group: "g", Kind: GroupClassic, Head: []byte("h"), Members: []GroupMember{{ID: "m", Value: []byte{}}}},
		&CommitOffsets{Group: "g", Offsets: []OffsetCommit{
			{Partition: id.TopicPartition{Topic: id.Topic{1}}, Offset: 5, LeaderEpoch: -1, Metadata: "note", ExpiresMs: -1},
		}},
	}}, nil, nil)
	fn(s)
	var buf bytes.Buffer
	require.NoError(t, s.Encode(&buf))
	return buf.Bytes()
}

func TestDecode_RefusesMalformedGroups(t *testing.T) {
	topic := func(s *machine) *topicOffsets {
		g, _ := s.groups.Get("g")
		o, _ := g.topics.Get(topicKey(id.Topic{1}))
		return o
	}
	_, err := decode(bytes.NewReader(snapshotWith(t, func(*machine) {})))
	require.NoError(t, err)
	for name, tamper := range map[string]func(*machine){
		"note of no offset":    func(s *machine) { topic(s).offsets.Delete(0); topic(s).offsets.Set(1, offset{}) },
		"empty note":           func(s *machine) { topic(s).notes.Set(0, offsetNote{expires: -1}) },
		"partition too large":  func(s *machine) { topic(s).offsets.Set(MaxPartitions, offset{}) },
		"pending out of order": func(s *machine) { setPending(topic(s), 3, 2) },
		"pending twice":        func(s *machine) { setPending(topic(s), 2, 2) },
		"nothing pending":      func(s *machine) { setPending(topic(s)) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decode(bytes.NewReader(snapshotWith(t, tamper)))
			require.ErrorIs(t, err, ErrMalformedSnapshot)
		})
	}
}

// setPending gives partition 0 pending offsets of these producers, in this order.
func setPending(o *topicOffsets, producers ...int64) {
	var list []pendingOffset
	for _, p := range producers {
		list = append(list, pendingOffset{producer: p, note: offsetNote{expires: -1}})
	}
	o.addPending(0, pendingOffset{})
	o.pending.Set(0, list)
}
