package metadata

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// listState returns a state whose one transaction has so many groups, and whose one partition has a pending offset of so many
// producers. Group names and offset metadata are of the given length.
func listState(t testing.TB, count, length int) *machine {
	t.Helper()
	s := newMachine()
	tp := id.TopicPartition{Topic: id.Topic{1}}
	apply := func(c Command) Result {
		r := s.Apply(s.index+1, &Batch{Now: 1, Commands: []Command{c}}, nil, nil)[0]
		require.NoError(t, r.Err)
		return r
	}
	apply(&CreateTopic{ID: tp.Topic, Name: "t", Partitions: 1})
	text := func(n int) string { return fmt.Sprintf("%04d", n) + strings.Repeat("x", length-4) }
	var list TransactionRef
	for n := range count {
		name := fmt.Sprint("x", n)
		p := apply(&InitTransaction{TransactionalID: name, TimeoutMs: 1000, ProducerID: -1, ProducerEpoch: -1}).Value.(InitTransactionResult)
		ref := TransactionRef{TransactionalID: name, ProducerID: p.ProducerID, Epoch: p.Epoch, Version: ProtocolTwo}
		if n == 0 {
			list = ref
		}
		apply(&CommitOffsets{Group: "g", Transaction: &ref, Offsets: []OffsetCommit{
			{Partition: tp, Offset: 1, LeaderEpoch: -1, Metadata: text(n), ExpiresMs: -1},
		}})
		apply(&AddOffsets{TransactionRef: list, Group: text(n)})
	}
	return s
}

// sectionsOf returns the payloads of a snapshot's sections.
func sectionsOf(t testing.TB, snapshot []byte) (sections [][]byte) {
	t.Helper()
	r, err := newSectionReader(bytes.NewReader(snapshot))
	require.NoError(t, err)
	for {
		p, err := r.next()
		require.NoError(t, err)
		if p == nil {
			return sections
		}
		sections = append(sections, bytes.Clone(p))
	}
}

// A list is split at the target of a section.
func TestEncode_SplitsLists(t *testing.T) {
	for _, c := range []struct{ count, length, largest int }{
		{100, 8000, 2*sectionTarget + 9000},
		{400, 200, 2*sectionTarget + 1000},
	} {
		t.Run(fmt.Sprintf("%d items of %d bytes", c.count, c.length), func(t *testing.T) {
			s := listState(t, c.count, c.length)
			var buf bytes.Buffer
			require.NoError(t, s.Encode(&buf))
			for _, p := range sectionsOf(t, buf.Bytes()) {
				require.LessOrEqual(t, len(p), c.largest)
			}
			restored, err := decode(&buf)
			require.NoError(t, err)
			require.Equal(t, s.Hash(), restored.Hash())
			requireDerived(t, restored)
		})
	}
}

// At the bound of a section the writer and the reader agree to the byte.
func TestEncode_AtTheSectionBound(t *testing.T) {
	nightly.Only(t, "encodes three states of 64 MiB, 13 s under the race detector")
	for over, want := range []error{nil, ErrStateTooLarge} {
		s := newMachine()
		s.configs.Set(configKey(ConfigBroker, ""), map[string]string{"k": strings.Repeat("x", SectionBytes-10+over)})
		var buf bytes.Buffer
		err := s.Encode(&buf)
		_, encodable := s.Encodable()
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, encodable, want)
		if want != nil {
			require.ErrorContains(t, err, "configs record of 67108865 bytes, limit 67108864")
			continue
		}
		require.Equal(t, SectionBytes, len(sectionsOf(t, buf.Bytes())[1]))
		restored, err := decode(&buf)
		require.NoError(t, err)
		require.Equal(t, s.Hash(), restored.Hash())
	}
}

// A snapshot with a section above the bound is refused.
func TestDecode_RefusesLargerSections(t *testing.T) {
	s := newMachine()
	s.configs.Set(configKey(ConfigBroker, ""), map[string]string{"k": strings.Repeat("x", SectionBytes)})
	var buf bytes.Buffer
	_, err := s.encode(newSectionWriter(&buf))
	require.NoError(t, err)
	_, err = Decode(&buf)
	require.ErrorIs(t, err, ErrMalformedSnapshot)
	require.ErrorContains(t, err, "limit 67108864")
}

// The bytes of a split list.
func TestSnapshotOfLists_Golden(t *testing.T) {
	s := listState(t, itemsPerRecord+1, 4)
	var buf bytes.Buffer
	require.NoError(t, s.Encode(&buf))
	golden(t, "snapshot-lists.hex", buf.Bytes())
	restored, err := decode(&buf)
	require.NoError(t, err)
	require.Equal(t, s.Hash(), restored.Hash())
}

// A snapshot of a newer version is unsupported, whatever its records are; so is a kind of record that no version up to this
// one has, but that may be a defect too.
func TestDecode_OfANewerProgram(t *testing.T) {
	encode := func(version uint32) *bytes.Reader {
		s := newMachine()
		s.index, s.version, s.clusterID = 7, version, "cluster"
		var buf bytes.Buffer
		f := newSectionWriter(&buf)
		s.encodeMeta(f)
		f.buf = binary.AppendUvarint(append(f.buf, 99), 1)
		f.recordDone()
		_, err := f.end()
		require.NoError(t, err)
		return bytes.NewReader(buf.Bytes())
	}
	_, err := Decode(encode(MaxVersion + 1))
	require.ErrorIs(t, err, ErrUnsupported)
	require.NotErrorIs(t, err, ErrMalformedSnapshot)
	require.ErrorContains(t, err, "start a newer program")
	_, err = Decode(encode(MaxVersion))
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorIs(t, err, ErrMalformedSnapshot)
}

// Extents keep every timestamp, however far those of neighbours are apart.
func TestSnapshot_KeepsExtremeTimestamps(t *testing.T) {
	s := listState(t, 1, 4)
	p := &partition{gen: s.gen, high: 10, producers: newProducers()}
	times := []int64{-1, math.MaxInt64, 0, math.MaxInt64 - 1, -1}
	for n, ms := range times {
		p.extents.Append(s.gen, extent.Extent{Base: int64(n), Last: int64(n), MaxTimestamp: ms, Length: 61, Batches: 1})
	}
	e, _ := s.topics.Get(topicKey(id.Topic{1}))
	s.mutableTopic(e).partitions.Set(0, p)
	restored := restore(t, s)
	require.Equal(t, s.Hash(), restored.Hash())
	exts, _ := restored.Extents(id.TopicPartition{Topic: id.Topic{1}}, 0, 0, 0)
	for n, x := range exts {
		require.Equal(t, times[n], x.MaxTimestamp)
	}
}
