package scrub_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/agent/job/scrub"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/fault"
	"github.com/freshet-io/freshet/objstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func key(b id.Bundle) string { return bundle.Key("vc/", b) }

func name(n uint32) id.Bundle { return id.Submission{Session: 1, N: n}.Bundle() }

// sealed is a bundle of one batch.
func sealed(t *testing.T, n uint32, payload int) []byte {
	t.Helper()
	batch := make([]byte, 61+payload)
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	batch[16] = 2
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], objstore.Castagnoli))
	var e bundle.Encoder
	e.Reset(name(n).Submission())
	e.Section(id.TopicPartition{})
	require.NoError(t, e.Batch(batch))
	body, _ := e.Finish()
	return bytes.Join(body.Buffers, nil)
}

// found is an answer.
type found struct {
	name    id.Bundle
	finding bundle.Finding
}

// start runs a scrubber over a bucket.
func start(t *testing.T, b objstore.Bucket) (s *scrub.Scrubber, answers chan found, stop func()) {
	t.Helper()
	answers = make(chan found, 16)
	s = scrub.New(b, key, func(b id.Bundle, f bundle.Finding) { answers <- found{b, f} })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return s, answers, func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

func TestScrubber_SaysWhatItFinds(t *testing.T) {
	store := mem.New()
	whole := sealed(t, 1, 100)
	flipped := bytes.Clone(whole)
	flipped[100] ^= 1
	for n, data := range map[uint32][]byte{1: whole, 2: sealed(t, 2, 100)[:150], 3: whole, 4: flipped} {
		require.NoError(t, store.Put(t.Context(), key(name(n)), objstore.NewBody(data)))
	}
	s, answers, stop := start(t, store)
	defer stop()
	for n, want := range map[uint32]bundle.Verdict{
		1: bundle.Intact, 2: bundle.Missing, 3: bundle.Broken, 4: bundle.Broken, 5: bundle.Missing,
	} {
		s.OnCheckBundle(name(n), uint32(len(whole)))
		got := <-answers
		require.Equal(t, name(n), got.name)
		require.Equal(t, want, got.finding.Verdict, "bundle %d: %s", n, got.finding.What)
		require.Equal(t, want == bundle.Intact, got.finding.What == "")
		if want == bundle.Intact {
			require.EqualValues(t, len(whole), got.finding.Read)
		}
	}
}

// A request that fails or hangs is made again: a large bundle takes hundreds, and the scrubber goes nowhere without it.
func TestScrubber_RequestsAreMadeAgain(t *testing.T) {
	for _, rule := range []string{"get nth=2 stall", "get nth=2 stall-after", "get nth=2 throttle"} {
		synctest.Test(t, func(t *testing.T) {
			b := fault.New(mem.New(), 1)
			data := sealed(t, 1, 9<<20)
			require.NoError(t, b.Put(t.Context(), key(name(1)), objstore.NewBody(data)))
			hits := b.MustAdd(rule)
			s, answers, stop := start(t, b)
			defer stop()
			s.OnCheckBundle(name(1), uint32(len(data)))
			time.Sleep(time.Minute)
			synctest.Wait()
			require.EqualValues(t, 1, hits.Hits())
			require.Len(t, answers, 1, rule)
			got := <-answers
			require.Equal(t, bundle.Intact, got.finding.Verdict, got.finding.What)

			b.MustAdd("get fail")
			s.OnCheckBundle(name(1), uint32(len(data)))
			require.Equal(t, bundle.Unreadable, (<-answers).finding.Verdict, "a store that does not answer is no damage")
		})
	}
}

// A bundle larger than what is read at once takes the time of its bytes, one more waits, and what comes besides is answered
// at once. What is under way when the agent stops is answered by nobody.
func TestScrubber_OneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		data := sealed(t, 1, 48<<20)
		require.NoError(t, store.Put(t.Context(), key(name(1)), objstore.NewBody(data)))
		s, answers, stop := start(t, store)
		began := time.Now()
		s.OnCheckBundle(name(1), uint32(len(data)))
		synctest.Wait()
		s.OnCheckBundle(name(2), 100)
		s.OnCheckBundle(name(3), 100)
		got := <-answers
		require.Equal(t, name(3), got.name)
		require.Equal(t, bundle.Unreadable, got.finding.Verdict)
		got = <-answers
		require.Equal(t, name(1), got.name)
		require.Equal(t, bundle.Intact, got.finding.Verdict, got.finding.What)
		require.InDelta(t, 0.6, time.Since(began).Seconds(), 0.15, "32 MiB at once, then 32 MiB a second")
		require.Equal(t, name(2), (<-answers).name)
		s.OnCheckBundle(name(1), uint32(len(data)))
		synctest.Wait()
		stop()
		require.Empty(t, answers)
	})
}
