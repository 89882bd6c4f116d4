package lifecycle_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// CheckBundle implements lifecycle.Checker as an agent does.
func (w *world) CheckBundle(ctx context.Context, name id.Bundle, bytes uint32) (bundle.Finding, bool) {
	if w.absent.Load() {
		return bundle.Finding{}, false
	}
	unlimited := func(context.Context, int) error { return nil }
	return bundle.CheckStored(ctx, w.agents, bundle.Key(prefix, name), name, int64(bytes), unlimited), true
}

// damaged gives what the scrubber has found.
func (w *world) damaged() (what []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.lifecycle.Damaged(w.state) {
		what = append(what, d.Key+": "+d.What)
	}
	return what
}

// sealed is a bundle of one batch.
func sealed(t *testing.T, name id.Submission, tp id.TopicPartition) []byte {
	t.Helper()
	batch := make([]byte, 100)
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	batch[16] = 2
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], objstore.Castagnoli))
	var e bundle.Encoder
	e.Reset(name)
	e.Section(tp)
	require.NoError(t, e.Batch(batch))
	body, _ := e.Finish()
	return bytes.Join(body.Buffers, nil)
}

// seal puts and commits such a bundle, with what damage makes of its bytes.
func (w *world) seal(tp id.TopicPartition, damage func([]byte) []byte) id.Bundle {
	w.t.Helper()
	w.bundle++
	name := id.Submission{Session: 1, N: w.bundle}
	data := sealed(w.t, name, tp)
	size := uint32(len(data))
	if data = damage(data); data != nil {
		require.NoError(w.t, w.stored.Put(w.t.Context(), bundle.Key(prefix, name.Bundle()), objstore.NewBody(data)))
	}
	var b commit.Builder
	b.Reset(commit.Header{Submission: name, Bytes: size})
	b.Section(commit.Section{Partition: tp, Position: bundle.HeaderSize})
	b.Batch(commit.Batch{Records: 1, Bytes: 100, MaxTimestamp: time.Now().UnixMilli(), ProducerID: -1})
	w.must(&metadata.CommitBundle{Encoded: b.AppendTo(nil)})
	return name.Bundle()
}

func whole(p []byte) []byte { return p }

// The scrubber finds what is missing, of another size, broken inside, or another bundle, names it and deletes nothing. What
// no records are in any more is forgotten, and what is repaired is fine again.
func TestScrub_FindsDamage(t *testing.T) {
	inWorld(t, lifecycle.Settings{ScrubInterval: time.Second, ScrubBytes: 1 << 20, RetentionCheck: time.Hour}, func(w *world) {
		gets := w.bucket.MustAdd("get fail")
		tp, gone := w.create("t", nil), w.create("gone", nil)
		w.seal(tp, whole)
		absent := w.seal(tp, func([]byte) []byte { return nil })
		short := w.seal(tp, func(p []byte) []byte { return p[:len(p)-1] })
		flipped := w.seal(tp, func(p []byte) []byte { p[80] ^= 1; return p })
		swapped := w.seal(tp, func([]byte) []byte { return sealed(t, id.Submission{Session: 1, N: 99}, tp) })
		w.seal(gone, func([]byte) []byte { return nil })
		objects := w.objects()
		sleep(5 * time.Minute)
		require.Len(t, w.damaged(), 5)
		require.EqualValues(t, 5, w.metric("damaged_bundles"))
		require.Greater(t, w.metric("scrub_cycles_total"), 5.0)
		require.Equal(t, objects, w.objects(), "nothing is deleted")
		require.Zero(t, gets.Hits(), "the control plane reads no records")
		found := w.damaged()
		for i, want := range []string{
			bundle.Key(prefix, absent) + ": missing", bundle.Key(prefix, short) + ": ",
			bundle.Key(prefix, flipped) + ": malformed", bundle.Key(prefix, swapped) + ": it is bundle 1/99",
		} {
			require.Contains(t, found[i], want)
		}

		w.must(&metadata.DeleteTopic{ID: gone.Topic})
		w.must(&metadata.Tick{})
		w.put0(absent, tp)
		sleep(3 * time.Minute)
		require.Len(t, w.damaged(), 3)
		require.EqualValues(t, 3, w.metric("damaged_bundles"))
	})
}

// put0 puts a bundle where it was missing.
func (w *world) put0(name id.Bundle, tp id.TopicPartition) {
	w.t.Helper()
	require.NoError(w.t, w.stored.Put(w.t.Context(), bundle.Key(prefix, name), objstore.NewBody(sealed(w.t, name.Submission(), tp))))
}

// Its rate is the one set, and the next owner goes on where this one was.
func TestScrub_RateAndResumption(t *testing.T) {
	inWorld(t, lifecycle.Settings{ScrubInterval: time.Second, ScrubBytes: -1, RetentionCheck: 24 * time.Hour}, func(w *world) {
		tp := w.create("t", nil)
		for range 2500 {
			w.produce(tp)
		}
		sleep(1500 * time.Second)
		require.InDelta(t, 1500, w.metric("scrubbed_bundles_total"), 3)
		w.mu.Lock()
		defer w.mu.Unlock()
		require.InDelta(t, 1000, float64(w.state.Scrubbed().Submission().N), 3)
	})
}

// Few bundles are looked up over and over without a word in the log.
func TestScrub_FewBundlesLeaveTheLogAlone(t *testing.T) {
	inWorld(t, lifecycle.Settings{ScrubInterval: time.Second, ScrubBytes: -1, RetentionCheck: 24 * time.Hour, GarbageCheck: 24 * time.Hour}, func(w *world) {
		w.produce(w.create("t", nil))
		w.mu.Lock()
		before := w.state.Index()
		w.mu.Unlock()
		sleep(10 * time.Minute)
		require.Greater(t, w.metric("scrub_cycles_total"), 5.0)
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Equal(t, before, w.state.Index())
	})
}

// A store that does not answer is no damage.
func TestScrub_StoreAway(t *testing.T) {
	inWorld(t, lifecycle.Settings{ScrubInterval: time.Second, ScrubBytes: 1 << 20}, func(w *world) {
		w.seal(w.create("t", nil), whole)
		w.bucket.MustAdd("head fail")
		w.agents.MustAdd("get fail")
		sleep(10 * time.Minute)
		require.Empty(t, w.damaged())
		require.Positive(t, w.metric("failures_total"))
	})
}

// Without agents that check bundles none is read, which is no failure; once there are some they are asked. What is read in a
// burst is paused for before.
func TestScrub_AgentsReadAtTheSetRate(t *testing.T) {
	inWorld(t, lifecycle.Settings{ScrubInterval: -1, ScrubBytes: 100, RetentionCheck: time.Hour}, func(w *world) {
		tp := w.create("t", nil)
		for range 50 {
			w.seal(tp, whole)
		}
		w.absent.Store(true)
		sleep(10 * time.Minute)
		require.Zero(t, w.metric("scrubbed_bytes_total"))
		require.Zero(t, w.metric("failures_total"))
		w.absent.Store(false)
		sleep(10 * time.Minute)
		read := w.metric("scrubbed_bytes_total")
		require.LessOrEqual(t, read, 600*100.)
		require.Greater(t, read, 600*100*0.5, "but for a minute between two walks")
	})
}

// While agents of several versions run, one may be asked for a bundle of a version that it does not know. That is counted
// and no damage, and holds up nobody.
func TestScrub_LaterVersionIsNoDamage(t *testing.T) {
	inWorld(t, lifecycle.Settings{ScrubInterval: -1, ScrubBytes: 1 << 20, RetentionCheck: time.Hour}, func(w *world) {
		tp := w.create("t", nil)
		w.seal(tp, func(p []byte) []byte {
			p[8] = 3
			binary.BigEndian.PutUint32(p[20:], crc32.Checksum(p[:20], objstore.Castagnoli))
			return p
		})
		broken := w.seal(tp, func(p []byte) []byte { p[80] ^= 1; return p })
		sleep(10 * time.Minute)
		require.Len(t, w.damaged(), 1)
		require.Contains(t, w.damaged()[0], bundle.Key(prefix, broken))
		require.EqualValues(t, 1, w.metric("damaged_bundles"))
		require.Greater(t, w.metric("scrub_unknown_versions_total"), 5.0, "with each walk")
		require.Zero(t, w.metric("failures_total"))
	})
}

// A bundle that dies in the pause before it is read costs no GET; what lives is read when its time has come.
func TestScrub_DeadBundlesAreNotRead(t *testing.T) {
	inWorld(t, lifecycle.Settings{ScrubInterval: -1, ScrubBytes: 1, RetentionCheck: time.Hour}, func(w *world) {
		tp, stays := w.create("t", nil), w.create("stays", nil)
		w.seal(tp, whole)
		sleep(10 * time.Second) // each is worth some minutes
		w.must(&metadata.DeleteTopic{ID: tp.Topic})
		w.must(&metadata.Tick{})
		sleep(10 * time.Minute)
		require.Zero(t, w.metric("scrubbed_bytes_total"))
		w.seal(stays, whole)
		sleep(10 * time.Minute)
		require.Positive(t, w.metric("scrubbed_bytes_total"))
	})
}

// One object that the store does not give, whatever the reason, holds up neither of the walks: what follows it is looked at.
func TestScrub_GoesOnBehindWhatCannotBeRead(t *testing.T) {
	settings := lifecycle.Settings{ScrubInterval: time.Second, ScrubBytes: 1 << 20, RetentionCheck: time.Hour}
	inWorld(t, settings, func(w *world) {
		tp := w.create("t", nil)
		locked := w.seal(tp, whole)
		key := bundle.Key(prefix, locked)
		w.bucket.MustAdd("head key=" + key + " fail")
		w.agents.MustAdd("get key=" + key + " fail")
		absent := w.seal(tp, func([]byte) []byte { return nil })
		flipped := w.seal(tp, func(p []byte) []byte { p[80] ^= 1; return p })
		sleep(30 * time.Minute)
		require.Len(t, w.damaged(), 2)
		require.Contains(t, w.damaged()[0], bundle.Key(prefix, absent))
		require.Contains(t, w.damaged()[1], bundle.Key(prefix, flipped))
		require.Greater(t, w.metric("scrub_cycles_total"), 2.)
		require.Positive(t, w.metric("failures_total"))
	})
}
