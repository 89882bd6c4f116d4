package consumer

import (
	"encoding/hex"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/metadata/id"
)

func exampleMember() *member {
	m := newMember("m")
	m.instance, m.rack, m.clientID, m.clientHost, m.regex, m.assignor = "i", "r", "c", "/h", "x.*", "range"
	m.rebalanceMs, m.topics, m.epoch, m.previous, m.state = 300_000, []string{"t", "u"}, 7, 6, unrevoked
	m.assigned = epochs{{Topic: id.Topic{1}, Partition: 0}: 7, {Topic: id.Topic{1}, Partition: 5}: 3, {Topic: id.Topic{2}, Partition: 1}: 1}
	m.revoking = epochs{{Topic: id.Topic{2}, Partition: 0}: 2}
	m.target = []id.TopicPartition{{Topic: id.Topic{1}, Partition: 0}}
	m.classic = &classicMember{sessionMs: 10_000, protocols: []classic.Protocol{{Name: "range", Metadata: []byte{0, 1}}}}
	return m
}

// The bytes of version 1 stay readable for ever.
func TestMember_GoldenBytes(t *testing.T) {
	const want = "01016901720163022f68c0cf24020174017503782e2a0572616e676501a09c01010572616e67650200010e0c" +
		"010201000000000000000000000000000000020007040302000000000000000000000000000000010101" +
		"010200000000000000000000000000000001000200010100000000000000000000000000000001" + "00"
	m := exampleMember()
	b := encodeMember(m)
	require.Equal(t, want, hex.EncodeToString(b))
	got, err := readMember("m", b)
	require.NoError(t, err)
	require.Equal(t, m, got)
}

func TestGroup_HeadGoldenBytes(t *testing.T) {
	g := New("g", Config{})
	g.epoch, g.assignmentEpoch, g.assignedMs, g.digest = 300, 299, 1_000, 0x0102030405060708
	b := g.encodeHead()
	require.Equal(t, "01ac02ab02d00f0102030405060708", hex.EncodeToString(b))
	other := New("g", Config{})
	require.NoError(t, other.readHead(b))
	require.Equal(t, b, other.encodeHead())
}

func TestRestore_RefusesWhatItDidNotWrite(t *testing.T) {
	head, value := New("g", Config{}).encodeHead(), encodeMember(exampleMember())
	for n := range len(head) {
		_, err := Restore("g", Config{}, time.Time{}, head[:n], maps.All(map[string][]byte{}))
		require.ErrorIs(t, err, ErrMalformed)
	}
	for n := range len(value) {
		_, err := Restore("g", Config{}, time.Time{}, head, maps.All(map[string][]byte{"m": value[:n]}))
		require.ErrorIs(t, err, ErrMalformed)
	}
	_, err := Restore("g", Config{}, time.Time{}, head, maps.All(map[string][]byte{"m": append(value, 0)}))
	require.ErrorIs(t, err, ErrMalformed)
}

// Whatever is read is what would be written: there is one spelling of every member.
func FuzzReadMember(f *testing.F) {
	f.Add(encodeMember(exampleMember()))
	f.Add(encodeMember(newMember("m")))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readMember("m", b)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		require.Equal(t, b, encodeMember(m))
	})
}

func FuzzReadHead(f *testing.F) {
	f.Add(New("g", Config{}).encodeHead())
	f.Fuzz(func(t *testing.T, b []byte) {
		g := New("g", Config{})
		if err := g.readHead(b); err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		require.Equal(t, b, g.encodeHead())
	})
}
