package fetch

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// sequencer is the real state machine, whose effects are handed to the owner in memory.
type sequencer struct {
	env     *env
	state   *metadata.State
	index   uint64
	session id.Session
	n       uint32
}

func newSequencer(t *testing.T, e *env) *sequencer {
	t.Helper()
	s := &sequencer{env: e, state: metadata.New()}
	s.apply(t, &metadata.CreateTopic{ID: topicA, Name: "a", Partitions: 8})
	opened := s.apply(t, &metadata.OpenSession{Instance: "i"}).Value.(metadata.OpenSessionResult)
	s.session = opened.Session
	return s
}

func (s *sequencer) apply(t *testing.T, c metadata.Command) metadata.Result {
	t.Helper()
	s.index++
	var fx metadata.Effects
	results := s.state.Apply(s.index, &metadata.Batch{Now: int64(s.index), Commands: []metadata.Command{c}}, &fx, nil)
	require.NoError(t, results[0].Err)
	for _, p := range fx.Partitions {
		s.env.owner.Write(p.Partition, p.LastStable, p.Aborted, p.Extents...)
	}
	return results[0]
}

// idempotent makes a batch of a producer.
func idempotent(value string, producer int64, sequence int32, records int) []byte {
	timestamps := make([]int64, records)
	raw := cachetest.Batch([]byte(value), timestamps...)
	binary.BigEndian.PutUint64(raw[43:], uint64(producer))
	binary.BigEndian.PutUint16(raw[51:], 0)
	binary.BigEndian.PutUint32(raw[53:], uint32(sequence))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// submit stores the batches as one section of a bundle and commits it.
func (s *sequencer) submit(t *testing.T, raws ...[]byte) *commit.Result {
	t.Helper()
	s.n++
	sub := id.Submission{Session: s.session, N: s.n}
	bundle := cachetest.NewBundle(sub.Bundle())
	var b commit.Builder
	b.Reset(commit.Header{Submission: sub, Bytes: 1 << 20})
	for i, raw := range raws {
		p := bundle.Add(raw)
		if i == 0 {
			b.Section(commit.Section{Partition: tp(0), Position: p.Position})
		}
		batch := kafkaproto.RecordBatch(raw)
		b.Batch(commit.Batch{
			Records: batch.LastOffsetDelta() + 1, Bytes: int32(len(raw)), MaxTimestamp: batch.MaxTimestamp(),
			ProducerID: batch.ProducerID(), ProducerEpoch: batch.ProducerEpoch(), BaseSequence: batch.BaseSequence(),
			Transactional: batch.Transactional(), TransactionVersion: metadata.ProtocolTwo,
		})
	}
	bundle.Store(t, s.env.bucket)
	return s.apply(t, &metadata.CommitBundle{Encoded: b.AppendTo(nil)}).Value.(*commit.Result)
}

// resubmit commits one batch of an earlier submission again.
func (s *sequencer) resubmit(t *testing.T, n, position uint32, raw []byte) {
	t.Helper()
	var b commit.Builder
	b.Reset(commit.Header{Submission: id.Submission{Session: s.session, N: n}, Bytes: 1 << 20, Resubmit: true})
	b.Section(commit.Section{Partition: tp(0), Position: position})
	batch := kafkaproto.RecordBatch(raw)
	b.Batch(commit.Batch{
		Records: batch.LastOffsetDelta() + 1, Bytes: int32(len(raw)), MaxTimestamp: batch.MaxTimestamp(),
		ProducerID: batch.ProducerID(), ProducerEpoch: batch.ProducerEpoch(), BaseSequence: batch.BaseSequence(),
	})
	result := s.apply(t, &metadata.CommitBundle{Encoded: b.AppendTo(nil)}).Value.(*commit.Result)
	require.Equal(t, commit.Accepted, result.Sections[0].Spans[0].Outcome)
}

// A bundle whose middle batches are a duplicate and a gap: exact bytes and offsets are read, by a reader that had a
// window and by one that looks up, and also when the gap was closed by a resubmission later.
func TestFetcher_DuplicateAndGapInTheMiddle(t *testing.T) {
	bubble(t, Config{}, func(e *env) {
		t := e.t
		s := newSequencer(t, e)
		warm := e.fetch(t, request(part(0, 0)))
		require.Zero(t, warm.Bytes)

		first := idempotent("first", 7, 0, 2)
		s.submit(t, first)
		plain, ahead, last := cachetest.Batch([]byte("plain"), 1, 2, 3), idempotent("ahead", 7, 5, 1), cachetest.Batch([]byte("last"), 4)
		result := s.submit(t, plain, first, ahead, last)
		var outcomes []commit.Outcome
		for _, span := range result.Sections[0].Spans {
			outcomes = append(outcomes, span.Outcome)
		}
		require.Equal(t, []commit.Outcome{commit.Accepted, commit.Duplicate, commit.Gap, commit.Accepted}, outcomes)
		synctest.Wait()

		want := bytes.Join([][]byte{
			cachetest.Patched(first, 0), cachetest.Patched(plain, 2), cachetest.Patched(last, 5),
		}, nil)
		require.Equal(t, want, e.readAll(t, 0))
		e.views.OnDisconnect()
		require.Equal(t, want, e.readAll(t, 0), "by look-up")
		require.Equal(t, cachetest.Patched(last, 5), e.readAll(t, 5))

		// The gap closes, and the batch that was ahead is committed from where it lies in the earlier bundle.
		missing := idempotent("missing", 7, 2, 3)
		s.submit(t, missing)
		s.resubmit(t, 2, uint32(24+len(plain)+len(first)), ahead)
		want = bytes.Join([][]byte{want, cachetest.Patched(missing, 6), cachetest.Patched(ahead, 9)}, nil)
		require.Equal(t, want, e.readAll(t, 0))
	})
}

// readAll reads partition 0 from an offset to its end.
func (e *env) readAll(t *testing.T, offset int64) []byte {
	t.Helper()
	var out []byte
	for {
		pass(time.Millisecond) // of the bubble: later than what was confirmed so far
		req := request(part(0, offset))
		req.MaxWait = 0
		resp := e.fetch(t, req)
		require.NoError(t, errOf(resp, 0))
		if offset >= resp.Results[0].Marks.HighWatermark {
			return out
		}
		got := records(&resp.Results[0])
		out = append(out, got...)
		for b, err := range kafkaproto.Batches(got) {
			require.NoError(t, err)
			offset = b.LastOffset() + 1
		}
	}
}
