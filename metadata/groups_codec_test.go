package metadata

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
)

// Golden bytes of the commands of groups and offsets. They stay for ever.
func TestGroupCommands_Golden(t *testing.T) {
	one := id.TopicPartition{Topic: id.Topic{1}, Partition: 2}
	other := id.TopicPartition{Topic: id.Topic{1}, Partition: 3}
	for _, c := range []struct {
		command Command
		bytes   string
	}{
		{&UpdateGroup{Group: "g", Kind: GroupClassic, Head: []byte("h"), Members: []GroupMember{}}, "1e0701670101016800"},
		{&UpdateGroup{
			Group: "g", Kind: GroupConsumer, Reset: true,
			Members: []GroupMember{{ID: "a", Value: []byte("v")}, {ID: "b"}},
		}, "1e0d016702020201610101760162 00"},
		{&DeleteGroup{Group: "g"}, "1f020167"},
		{&CommitOffsets{Group: "g", Offsets: []OffsetCommit{
			{Partition: one, Offset: 9, LeaderEpoch: -1, ExpiresMs: -1},
			{Partition: other, Offset: -1, LeaderEpoch: 4, Metadata: "m", ExpiresMs: 5},
		}}, "201e0167000201 01000000000000000000000000000000 0412 0e0601 08 016d 0a"},
		{&DeleteOffsets{Group: "g", Partitions: []id.TopicPartition{one}}, "2115 016700 01 01000000000000000000000000000000 04"},
		{
			&DeleteOffsets{Group: "g", Partitions: []id.TopicPartition{one}, CommittedBefore: []int64{3}},
			"2116 016701 01 01000000000000000000000000000000 04 06",
		},
	} {
		requireCommandBytes(t, c.command, c.bytes)
	}
}

// requireCommandBytes compares a command in the log with hex digits, spaces between them aside, and reads it back.
func requireCommandBytes(t *testing.T, c Command, digits string) {
	t.Helper()
	want, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
	require.NoError(t, err)
	got := AppendBatch(nil, &Batch{Commands: []Command{c}})
	require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(got[3:]), "%#v", c)
	parsed, err := ParseBatch(got)
	require.NoError(t, err)
	require.Equal(t, got, AppendBatch(nil, parsed))
}

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
