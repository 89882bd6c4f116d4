package metadata

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/internal/hostile"
)

// epochsState is a small state: topics with epochs, and deleted ones.
func epochsState(t testing.TB) *machine {
	t.Helper()
	s := newMachine()
	for i, c := range []Command{
		&CreateTopic{ID: topicID("o"), Name: "o", Partitions: 2},
		&DeleteTopic{ID: topicID("o"), KeepMs: 1000},
		&CreateTopic{ID: topicID("t"), Name: "t", Partitions: 7},
		openInZone(0),
		openInZone(1),
		&CreateTopic{ID: topicID("u"), Name: "u", Partitions: 1},
		&CreateTopic{ID: topicID("d"), Name: "d", Partitions: 3},
		&DeleteTopic{ID: topicID("d"), KeepMs: 1000},
		openInZone(2),
	} {
		r := s.Apply(s.index+1, &Batch{Now: int64(i), Commands: []Command{c}}, nil, nil)
		require.NoError(t, r[0].Err, "command %d", i)
	}
	return s
}

// seal makes a snapshot of records.
func seal(payload []byte) []byte {
	var buf bytes.Buffer
	w := newSectionWriter(&buf)
	w.buf = append(w.buf, payload...)
	_, _ = w.end()
	return buf.Bytes()
}

func TestSnapshotOfEpochs_GoldenAndRoundTrip(t *testing.T) {
	s := epochsState(t)
	var buf bytes.Buffer
	require.NoError(t, s.snapshot().Encode(&buf))
	golden(t, "snapshot-epochs.hex", buf.Bytes())
	got := restore(t, s)
	require.Equal(t, s.Hash(), got.Hash())
	require.Equal(t, s.audiences, got.audiences)
	next := &Batch{Commands: []Command{openInZone(3), &UndeleteTopic{ID: topicID("o")}, &UndeleteTopic{ID: topicID("d")}}}
	require.Equal(t, s.Apply(s.index+1, next, nil, nil), got.Apply(got.index+1, next, nil, nil))
	require.Equal(t, s.Hash(), got.Hash())
	back, _ := s.Topic(topicID("o"))
	require.Equal(t, assign.Uniform(2, int32(s.MembershipVersion())), back.LeaderEpochs)
}

// TestSnapshotOfEpochs_IsFrozen: what a snapshot shows does not change with the state.
func TestSnapshotOfEpochs_IsFrozen(t *testing.T) {
	s := epochsState(t)
	frozen := s.snapshot()
	hash := frozen.Hash()
	s.Apply(s.index+1, &Batch{Commands: []Command{
		openInZone(3), &CreatePartitions{ID: topicID("t"), Count: 20}, &CloseSession{Session: 1}, &UndeleteTopic{ID: topicID("d")},
	}}, nil, nil)
	require.Equal(t, hash, frozen.Hash())
}

func TestSnapshotOfEpochs_Refused(t *testing.T) {
	s := epochsState(t)
	record := func(fields ...byte) []byte { return append([]byte{byte(recordEpochs)}, fields...) }
	var f sectionWriter
	topic, _ := s.Topic(topicID("t"))
	encodeEpochs(&f, topic.LeaderEpochs)
	good := payload(s)
	require.Equal(t, 1, bytes.Count(good, f.buf))
	for name, bad := range map[string][]byte{
		"missing":            {},
		"twice":              append(bytes.Clone(f.buf), f.buf...),
		"of too few":         record(1, 6, 1),
		"of too many":        record(1, 8, 1),
		"of none":            record(2, 0, 1, 7, 2),
		"of very many":       record(1, 0xff, 0xff, 0xff, 0xff, 0x0f, 1),
		"two runs of one":    record(2, 3, 1, 4, 1),
		"above the newest":   record(1, 7, 4),
		"beyond all epochs":  record(1, 7, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"runs that are not":  record(200, 7, 1),
		"cut within a field": record(1, 7),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decode(bytes.NewReader(seal(bytes.Replace(good, f.buf, bad, 1))))
			require.ErrorIs(t, err, ErrMalformedSnapshot)
		})
	}
	_, err := decode(bytes.NewReader(seal(good)))
	require.NoError(t, err)
	hostile.Claims(t, good, 1<<20, func(p []byte) { _, _ = decode(bytes.NewReader(seal(p))) })
}

// TestLeaderEpoch_Saturates: the version counts in 64 bits, clients in 31.
func TestLeaderEpoch_Saturates(t *testing.T) {
	s := epochsState(t)
	s.membership = math.MaxInt32 - 1
	for i := range 3 {
		s.Apply(s.index+1, &Batch{Commands: []Command{openInZone(10 + i)}}, nil, nil)
	}
	require.EqualValues(t, math.MaxInt32, s.leaderEpoch())
	restored := restore(t, s)
	require.Equal(t, s.Hash(), restored.Hash())
}
