package metadata

import (
	"bytes"
	"encoding/hex"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/bytetable"
	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// everyCommand has one command of each kind, with every field set.
func everyCommand() *Batch {
	tp := id.TopicPartition{Topic: topicID("t"), Partition: 3}
	var b commit.Builder
	b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: 1}, Bytes: 200})
	b.Section(commit.Section{Partition: tp, Position: 9})
	b.Batch(commit.Batch{Records: 2, Bytes: 100, MaxTimestamp: 5, ProducerID: 1})
	return &Batch{Now: 1_700_000_000_000, Commands: []Command{
		&Bootstrap{ClusterID: "cluster"},
		&RaiseVersion{Version: 1},
		&CreateTopic{ID: topicID("t"), Name: "t", Partitions: 4, ReplicationFactor: 2, Configs: map[string]string{"b": "2", "a": "1", "c": ""}},
		&CreatePartitions{ID: topicID("t"), Count: 5},
		&SetReplicationFactor{ID: topicID("t"), Factor: 4},
		&SetConfigs{Resource: ConfigTopic, Topic: topicID("t"), Set: map[string]string{"z": "1", "y": "2"}, Delete: []string{"b", "a"}},
		&SetConfigs{Resource: ConfigBroker, Name: "1", Set: map[string]string{"k": "v"}},
		&OpenSession{Instance: "i", Zone: "z", Endpoints: []Endpoint{{"", "h", 9092}, {"ext", "g", -1}}, Version: "v"},
		&CommitBundle{Encoded: b.AppendTo(nil)},
		&AbandonSubmission{Submission: id.Submission{Session: 1, N: 2}},
		&AllocateProducerIDs{Count: 1000},
		&TrimPartitions{Trims: []Trim{{tp, -1}, {tp, 1}}},
		&Tick{},
		&DrainSession{Session: 1},
		&CloseSession{Session: 1},
		&CheckHash{Index: 7, Hash: 0x0102030405060708},
		&DeleteTopic{ID: topicID("t")},
	}}
}

var update = bytetable.Update

// golden compares bytes with a file of testdata: logs and buckets hold such bytes.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(filepath.Join("testdata", name), append(hex.AppendEncode(nil, got), '\n'), 0o644))
		return
	}
	want, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err, "bytes now: %x", got)
	require.Equal(t, string(bytes.TrimSpace(want)), hex.EncodeToString(got))
}

func TestBatch_GoldenAndRoundTrip(t *testing.T) {
	b := everyCommand()
	p := AppendBatch(nil, b)
	l := bytetable.New(t)
	l.Bytes("codec.go", "Batch", p)
	l.Golden("testdata/batch.golden")
	got, err := ParseBatch(p)
	require.NoError(t, err)
	require.Equal(t, b, got)
	for i := range p {
		_, err := ParseBatch(p[:i])
		require.ErrorIs(t, err, ErrMalformedCommand, "cut at %d", i)
	}
}

// The table of sectionWriter describes how records are framed.
func TestSections_Golden(t *testing.T) {
	var buf bytes.Buffer
	w := newSectionWriter(&buf)
	for range 2 {
		w.buf = append(w.buf, "records"...)
		w.flush()
	}
	hash, err := w.end()
	require.NoError(t, err)
	l := bytetable.New(t)
	p := buf.Bytes()
	require.Equal(t, hash, xxhash.Sum64(p[:len(p)-8]))
	l.Values = map[string]uint64{
		"xxhash64 of everything before": hash,
		"CRC-32C of the payload":        uint64(crc32.Checksum([]byte("records"), castagnoli)),
	}
	l.Bytes("snapshot_frame.go", "Snapshot", p)
	l.Golden("testdata/sections.golden")
}

func TestParseBatch_RefusesTheUnknown(t *testing.T) {
	_, err := ParseBatch([]byte{generation.Number + 1})
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorIs(t, err, generation.ErrOther)
	_, err = ParseBatch([]byte{generation.Number, 0, 1, 200, 0})
	require.ErrorIs(t, err, ErrUnsupported)
	_, err = ParseBatch(AppendBatch(nil, &Batch{Commands: []Command{&RaiseVersion{Version: MaxVersion + 1}}}))
	require.ErrorIs(t, err, ErrUnsupported)
	_, err = ParseBatch([]byte{generation.Number, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, byte(kindTick), 0})
	require.ErrorIs(t, err, ErrMalformedCommand)
}

// goldenState is a state with something in every table.
func goldenState(t testing.TB) *machine {
	t.Helper()
	s := newMachine()
	b := everyCommand()
	b.Commands = b.Commands[:len(b.Commands)-1]
	for i, r := range s.Apply(3, b, nil, nil) {
		require.NoError(t, r.Err, "command %d", i)
	}
	s.Apply(4, &Batch{Now: b.Now + resultRetentionMs - 1, Commands: []Command{
		&OpenSession{Instance: "j", Zone: "z", Endpoints: []Endpoint{{"", "h", 1}}},
		commitOf(2, 1, 0, section{"t", 0, []commit.Batch{{Records: 5, Bytes: 61, ProducerID: -1}, {Records: 1, Bytes: 61, ProducerID: 5}}}),
		commitOf(2, 2, 0, section{"t", 0, []commit.Batch{{Records: 5, Bytes: 61, ProducerID: 5, BaseSequence: 1}}}, section{"t", 1, []commit.Batch{{Records: 1, Bytes: 99, ProducerID: -1}}}),
		commitOf(2, 3, 0, section{"x", 0, []commit.Batch{{Records: 1, Bytes: 61, ProducerID: -1}}}),
		&CreateTopic{ID: topicID("u"), Name: "u", Partitions: 1},
	}}, nil, nil)
	s.Apply(5, &Batch{Now: b.Now + resultRetentionMs, Commands: []Command{
		&Tick{},
		&TrimPartitions{Trims: []Trim{{id.TopicPartition{Topic: topicID("t")}, 6}}},
	}}, nil, nil)
	return s
}

type section struct {
	topic     string
	partition int32
	batches   []commit.Batch
}

func commitOf(session id.Session, n, acked uint32, sections ...section) *CommitBundle {
	return &CommitBundle{Encoded: encodeCommit(commit.Header{
		Submission: id.Submission{Session: session, N: n}, Acked: acked, Bytes: 1 << 20,
	}, sections...)}
}

func encodeCommit(h commit.Header, sections ...section) []byte {
	var b commit.Builder
	b.Reset(h)
	position := uint32(0)
	for _, s := range sections {
		b.Section(commit.Section{Partition: id.TopicPartition{Topic: topicID(s.topic), Partition: s.partition}, Position: position})
		for _, a := range s.batches {
			b.Batch(a)
			position += uint32(a.Bytes)
		}
	}
	return b.AppendTo(nil)
}

func TestSnapshot_GoldenAndRoundTrip(t *testing.T) {
	s := goldenState(t)
	require.Positive(t, s.ended.Len())
	require.Positive(t, s.dead.Len())
	require.Positive(t, s.cleanup.items.Len())
	var buf bytes.Buffer
	require.NoError(t, s.snapshot().Encode(&buf))
	golden(t, "snapshot.hex", buf.Bytes())
	p := bytes.Clone(buf.Bytes())
	got, err := decode(&buf)
	require.NoError(t, err)
	require.Equal(t, s.Hash(), got.Hash())
	require.Equal(t, s.Index(), got.Index())

	for i := range p {
		_, err := decode(bytes.NewReader(p[:i]))
		require.ErrorIs(t, err, ErrMalformedSnapshot, "cut at %d", i)
		damaged := bytes.Clone(p)
		damaged[i] ^= 4
		_, err = decode(bytes.NewReader(damaged))
		require.Error(t, err, "byte %d", i)
	}
}

func FuzzParseBatch(f *testing.F) {
	all := everyCommand()
	f.Add(AppendBatch(nil, all))
	for _, c := range all.Commands {
		f.Add(AppendBatch(nil, &Batch{Now: 5, Commands: []Command{c}}))
	}
	transactions := everyTransactionCommand()
	f.Add(AppendBatch(nil, transactions))
	for _, c := range transactions.Commands {
		f.Add(AppendBatch(nil, &Batch{Now: 5, Commands: []Command{c}}))
	}
	for _, c := range everyLifecycleCommand() {
		f.Add(AppendBatch(nil, &Batch{Now: 5, Commands: []Command{c}}))
	}
	bases := []*machine{goldenState(f), transactionalState(f), lifecycleState(f)}
	f.Fuzz(func(t *testing.T, p []byte) {
		b, err := ParseBatch(p)
		if err != nil {
			return
		}
		encoded := AppendBatch(nil, b)
		again, err := ParseBatch(encoded)
		require.NoError(t, err)
		require.Equal(t, b, again)
		// Whatever parses can be applied, gives the same twice, and leaves a state that a snapshot holds.
		for _, base := range bases {
			s, replica := restore(t, base), restore(t, base)
			require.Equal(t, s.Apply(s.index+1, b, nil, nil), replica.Apply(replica.index+1, again, nil, nil))
			require.Equal(t, s.Hash(), replica.Hash())
			require.Equal(t, s.Hash(), restore(t, s).Hash())
			requireDerived(t, s)
		}
	})
}

// FuzzDecode feeds sections with right checksums and any content, so that the records themselves are reached.
func FuzzDecode(f *testing.F) {
	s := goldenState(f)
	f.Add(payload(s))
	f.Add(payload(transactionalState(f)))
	f.Add(payload(lifecycleState(f)))
	f.Add(payload(newMachine()))
	f.Fuzz(func(t *testing.T, p []byte) {
		var buf bytes.Buffer
		w := newSectionWriter(&buf)
		w.buf = append(w.buf, p...)
		_, err := w.end()
		require.NoError(t, err)
		s, err := decode(&buf)
		if err != nil {
			return
		}
		restored := restore(t, s)
		require.Equal(t, s.Hash(), restored.Hash())
		requireDerived(t, s)
		b := &Batch{Now: s.Now() + 2*ProducerIDExpirationMs, Commands: []Command{&Tick{}}}
		s.Apply(s.index+1, b, nil, nil)
		restored.Apply(restored.index+1, b, nil, nil)
		require.Equal(t, s.Hash(), restored.Hash())
		requireDerived(t, s)
	})
}

// payload gives the records of a state without their framing.
func payload(s *machine) []byte {
	var buf bytes.Buffer
	if err := s.Encode(&buf); err != nil {
		panic(err)
	}
	r, err := newSectionReader(&buf)
	if err != nil {
		panic(err)
	}
	var all []byte
	for {
		p, err := r.next()
		if err != nil {
			panic(err)
		}
		if p == nil {
			return all
		}
		all = append(all, p...)
	}
}

func FuzzDecodeRaw(f *testing.F) {
	var buf bytes.Buffer
	if err := goldenState(f).Encode(&buf); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, p []byte) {
		if s, err := decode(bytes.NewReader(p)); err == nil {
			require.Equal(t, s.Hash(), restore(t, s).Hash())
		}
	})
}
