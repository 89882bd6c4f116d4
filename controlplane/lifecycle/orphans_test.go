package lifecycle_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

func name(session id.Session, n uint32) id.Bundle {
	return id.Submission{Session: session, N: n}.Bundle()
}

// put puts an object that no commit knows.
func (w *world) put(key string) string {
	w.t.Helper()
	require.NoError(w.t, w.stored.Put(w.t.Context(), key, objstore.NewBody(make([]byte, 100))))
	return key
}

func (w *world) orphan(session id.Session, n uint32) string {
	w.t.Helper()
	return w.put(bundle.Key(prefix, name(session, n)))
}

func (w *world) metric(name string) float64 {
	w.t.Helper()
	families, err := w.metrics.Gather()
	require.NoError(w.t, err)
	for _, f := range families {
		if f.GetName() == "freshet_lifecycle_"+name {
			return f.Metric[0].GetCounter().GetValue() + f.Metric[0].GetGauge().GetValue()
		}
	}
	w.t.Fatalf("no metric %q", name)
	return 0
}

// unswept counts the ended writers that the state still knows.
func (w *world) unswept() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range w.state.EndedWriters() {
		n++
	}
	return n
}

func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Every object of a closed session without a commit goes, and no other one. Live bundles, dead bundles in their grace, objects of other
// sessions and odd keys stay.
func TestOrphans_AreAllFoundAndNothingElse(t *testing.T) {
	inWorld(t, lifecycle.Settings{GarbageGrace: 48 * time.Hour}, func(w *world) {
		w.must(&metadata.OpenSession{Instance: "other"})
		a, b := w.create("a", nil), w.create("b", nil)
		live, dead := bundle.Key(prefix, w.produce(a)), bundle.Key(prefix, w.produce(b))
		w.must(&metadata.DeleteTopic{ID: b.Topic})
		w.must(&metadata.AbandonSubmission{Submission: id.Submission{Session: 1, N: 3}})
		w.orphan(1, 3) // given up after its PUT
		w.orphan(1, 4) // killed between PUT and commit
		w.orphan(1, 7)
		kept := []string{live, dead, w.orphan(2, 1), w.put(bundle.SessionPrefix(prefix, 1) + "readme"), w.put("vc/snapshots/1")}
		upload, err := w.stored.Create(t.Context(), bundle.Key(prefix, name(1, 9)))
		require.NoError(t, err)
		require.NoError(t, upload.Part(t.Context(), 1, 0, objstore.NewBody(make([]byte, 10))))
		sleep(48 * time.Hour)
		require.Len(t, w.objects(), 8, "the session is open")

		w.must(&metadata.CloseSession{Session: 1})
		sleep(23 * time.Hour)
		require.Len(t, w.objects(), 8)
		require.EqualValues(t, 1, w.metric("unswept_writers"))
		w.orphan(1, 8) // its agent was paused before the PUT, and wakes
		sleep(2 * time.Hour)
		require.ElementsMatch(t, kept, w.objects())
		require.ErrorIs(t, upload.Complete(t.Context()), objstore.ErrNotFound)
		require.EqualValues(t, 4, w.metric("orphans_deleted_total"))
		require.EqualValues(t, 400, w.metric("orphan_bytes_deleted_total"))
		require.EqualValues(t, 1, w.metric("uploads_aborted_total"))
		require.EqualValues(t, 1, w.metric("orphans_left_total"), "the one that is no bundle")
		require.Zero(t, w.unswept())
	})
}

// The objects of an aborted job are orphans, however many there are. Those of a completed job are not.
func TestOrphans_OfJobs(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		started := w.must(&metadata.StartJob{Kind: job.Compact, Level: 1, Runner: 1})
		w.orphan(started.Value.(id.Session), 1)
		w.must(&metadata.CloseSession{Session: 1}) // and with it its jobs
		require.Equal(t, 2, w.unswept())
		sleep(25 * time.Hour)
		require.Empty(t, w.objects())
		require.Zero(t, w.unswept())
	})
}

// However many jobs end, the table of those to be swept is no longer than the time until the sweep makes it.
func TestOrphans_SweepsKeepUp(t *testing.T) {
	inWorld(t, lifecycle.Settings{OrphanAge: 15 * time.Minute}, func(w *world) {
		for range 3 * 3600 { // three a second
			n := w.must(&metadata.StartJob{Kind: job.Compact, Level: 1, Runner: 1}).Value.(id.Session)
			w.must(&metadata.AbortJob{Job: n})
			time.Sleep(time.Second / 3)
		}
		require.Less(t, w.unswept(), 2*15*60*3)
		sleep(time.Hour)
		require.Zero(t, w.unswept())
	})
}

// A crash or a failure at any step only repeats the sweep.
func TestOrphans_FailuresAreRepeated(t *testing.T) {
	for _, rule := range []string{
		"list nth=1 fail", "delete nth=1 outcome-unknown-before", "delete nth=1 outcome-unknown-after", "list_uploads nth=1 fail",
	} {
		t.Run(rule, func(t *testing.T) {
			inWorld(t, lifecycle.Settings{}, func(w *world) {
				w.orphan(1, 1)
				w.must(&metadata.CloseSession{Session: 1})
				w.bucket.MustAdd(rule)
				sleep(24*time.Hour + time.Second)
				require.EqualValues(t, 1, w.metric("failures_total"))
				w.mu.Lock()
				w.refuse = errors.New("no owner")
				w.mu.Unlock()
				sleep(time.Hour)
				require.Empty(t, w.objects())
				require.Equal(t, 1, w.unswept(), "nothing was noted")
				w.orphan(1, 2)
				w.mu.Lock()
				w.refuse = nil
				w.mu.Unlock()
				sleep(time.Minute)
				require.Empty(t, w.objects())
				require.Zero(t, w.unswept())
			})
		})
	}
}

// One object that cannot be deleted, for example under a legal hold, must not keep the orphans of all later sessions and jobs, nor
// the table of them in the state growing.
func TestOrphans_OneStubbornObjectHoldsUpNoOther(t *testing.T) {
	inWorld(t, lifecycle.Settings{OrphanAge: time.Hour}, func(w *world) {
		stubborn := w.orphan(1, 1)
		w.bucket.MustAdd("delete key=" + bundle.Key(prefix, name(1, 1)) + " fail")
		w.must(&metadata.OpenSession{Instance: "other"})
		w.must(&metadata.CloseSession{Session: 1})
		for range 50 {
			n := w.must(&metadata.StartJob{Kind: job.Compact, Level: 1, Runner: 2}).Value.(id.Session)
			w.orphan(n, 1)
			w.must(&metadata.AbortJob{Job: n})
		}
		sleep(7 * 24 * time.Hour)
		require.Equal(t, []string{stubborn}, w.objects(), "only the one that cannot be deleted is left after a week")
		require.LessOrEqual(t, w.unswept(), 1)
	})
}

// Objects that cannot be deleted hold up none of the others of their session, and no other session, though several sessions in a row
// have such an object.
func TestOrphans_RefusedObjectsHoldUpNoOther(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		w.must(&metadata.CloseSession{Session: 1})
		var refused []string
		const sessions = 8
		for n := id.Session(2); n < 2+sessions; n++ {
			w.must(&metadata.OpenSession{Instance: string(rune('a' + n))})
			for i := range uint32(2) {
				w.must(&metadata.AbandonSubmission{Submission: id.Submission{Session: n, N: i + 1}})
			}
			for i := range uint32(4) { // settled below 3
				w.orphan(n, i+1)
			}
			w.must(&metadata.CloseSession{Session: n})
			if n < 1+sessions {
				refused = append(refused, bundle.Key(prefix, name(n, 2)))
				w.bucket.MustAdd("delete key=" + bundle.Key(prefix, name(n, 2)) + " refuse")
			}
		}
		sleep(24*time.Hour + 30*time.Second) // one round, at two LISTs a second
		require.ElementsMatch(t, refused, w.objects())
		require.Equal(t, sessions-1, w.unswept())
		require.Zero(t, w.metric("failures_total"))
		require.EqualValues(t, 4*sessions-(sessions-1), w.metric("orphans_deleted_total"))
		require.Len(t, w.refusals(), sessions-1)
		require.Equal(t, name(2, 2).String(), w.refusals()[0].ContextMap()["bundle"])
		sleep(time.Hour)
		require.Len(t, w.refusals(), sessions-1, "one line an hour for each session")
		w.bucket.Clear()
		sleep(2 * time.Hour)
		require.Empty(t, w.objects())
		require.Zero(t, w.unswept())
	})
}

// Writers whose orphans the store refuses to delete come back every hour. However many they are, they do not take the rounds of others.
func TestOrphans_RefusedWritersHoldUpNoOther(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		w.bucket.MustAdd("delete key~/00abcdef refuse")
		start := func() id.Session {
			n := w.must(&metadata.StartJob{Kind: job.Compact, Level: 1, Runner: 1}).Value.(id.Session)
			w.must(&metadata.AbortJob{Job: n})
			return n
		}
		const refused = 4000 // a round takes 100, in 150 s at two LISTs a second
		for range refused {
			w.orphan(start(), 0xabcdef)
		}
		behind := w.orphan(start(), 1)
		sleep(30 * time.Hour)
		_, err := w.stored.Head(t.Context(), behind)
		require.ErrorIs(t, err, objstore.ErrNotFound)
		require.Equal(t, refused, w.unswept())
	})
}

func TestSettings_OrphanAge(t *testing.T) {
	s := lifecycle.Settings{OrphanAge: 10*time.Minute - 1}
	s.ApplyDefaults()
	require.ErrorContains(t, s.Validate(), "orphan age 9m59.999999999s: at least 10m0s")
	s.OrphanAge++
	require.NoError(t, s.Validate())
}

// In off mode nothing is listed, and ended sessions are forgotten all the same: their table is bounded.
func TestOrphans_Off(t *testing.T) {
	inWorld(t, lifecycle.Settings{OrphanSweep: lifecycle.SweepOff}, func(w *world) {
		w.orphan(1, 1)
		w.must(&metadata.CloseSession{Session: 1})
		sleep(23 * time.Hour)
		require.Equal(t, 1, w.unswept())
		sleep(2 * time.Hour)
		require.Zero(t, w.unswept())
		require.Len(t, w.objects(), 1)
	})
}

// A state that is older than the bucket: its sessions have put far more than it knows of, or it gives ids to sessions that
// others had before. Nothing of that is an orphan.
func TestOrphans_BucketNewerThanTheState(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		w.orphan(2, 1) // of an earlier life of the cluster
		sleep(time.Hour)
		w.must(&metadata.OpenSession{Instance: "second"})
		var c commit.Builder
		c.Reset(commit.Header{Submission: id.Submission{Session: 1, N: 1}})
		w.must(&metadata.CommitBundle{Encoded: c.AppendTo(nil)})
		for n := range uint32(1100) {
			w.orphan(1, n+1) // their commits are not in this state, but for one
		}
		w.orphan(3, 1) // of a session that this state has not opened
		w.must(&metadata.CloseSession{Session: 1})
		w.must(&metadata.CloseSession{Session: 2})
		sleep(48 * time.Hour)
		infos, err := w.stored.List(t.Context(), "", "", 1000)
		require.NoError(t, err)
		more, err := w.stored.List(t.Context(), "", infos[len(infos)-1].Key, 1000)
		require.NoError(t, err)
		require.Equal(t, 1102, len(infos)+len(more))
		require.Zero(t, w.metric("orphans_deleted_total"))
		require.Positive(t, w.metric("orphans_left_total"))
	})
}

// An agent whose commits were refused for minutes has abandoned its last thousand bundles. That says nothing against the
// state: they go, with as many that were put and not committed as an owner holds.
func TestOrphans_OfManyAbandonedBundles(t *testing.T) {
	const abandoned, most = 1100, 1024
	for uncommitted, left := range map[uint32]int{most: 0, most + 1: most + 1} {
		t.Run(fmt.Sprint(uncommitted, " uncommitted"), func(t *testing.T) {
			inWorld(t, lifecycle.Settings{}, func(w *world) {
				for n := range uint32(abandoned) {
					w.must(&metadata.AbandonSubmission{Submission: id.Submission{Session: 1, N: n + 1}})
					w.orphan(1, n+1)
				}
				for n := range uncommitted {
					w.orphan(1, abandoned+n+1)
				}
				w.must(&metadata.CloseSession{Session: 1})
				sleep(72 * time.Hour)
				require.EqualValues(t, abandoned+int(uncommitted)-left, w.metric("orphans_deleted_total"))
				require.Zero(t, w.unswept())
			})
		})
	}
}

// Without an agent nothing is swept and nothing fails, and the metric shows how long. The next round with an agent sweeps.
func TestOrphans_WaitForAnAgent(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		w.agents.away.Store(true)
		w.orphan(1, 1)
		w.must(&metadata.CloseSession{Session: 1})
		sleep(23 * time.Hour)
		require.Zero(t, w.metric("waiting_sweeps_seconds"))
		sleep(2*time.Hour + time.Second)
		require.InDelta(t, 3600, w.metric("waiting_sweeps_seconds"), 1)
		require.Zero(t, w.metric("failures_total"))
		require.Equal(t, 1, w.unswept())
		require.Len(t, w.objects(), 1)
		w.agents.away.Store(false)
		sleep(time.Minute)
		require.Empty(t, w.objects())
		require.Zero(t, w.unswept())
		require.Zero(t, w.metric("waiting_sweeps_seconds"))
	})
}

// A listing with more pages than its session or job can have objects fails the sweep, which is repeated after a pause. It holds up no other
// writer.
func TestOrphans_BoundsPages(t *testing.T) {
	const spare, perPage, uncommitted, ofJob = 100, 100, 1024, 1 << 16
	for name, c := range map[string]struct {
		job   bool
		bound uint32
	}{"session": {false, spare + (1+uncommitted)/perPage}, "job": {true, spare + ofJob/perPage}} {
		for _, over := range []uint32{0, 1} {
			t.Run(fmt.Sprint(name, ", over by ", over), func(t *testing.T) {
				inWorld(t, lifecycle.Settings{}, func(w *world) {
					listed := id.Session(1)
					if c.job {
						listed = w.must(&metadata.StartJob{Kind: job.Compact, Level: 1, Runner: 1}).Value.(id.Session)
					}
					w.agents.lies = func(n id.Session) bool { return n == listed }
					w.agents.pages.Store(c.bound - 1 + over) // without the last one, which is empty
					w.must(&metadata.CloseSession{Session: 1})
					runner := w.must(&metadata.OpenSession{Instance: "other"}).Value.(metadata.OpenSessionResult).Session
					other := w.must(&metadata.StartJob{Kind: job.Compact, Level: 1, Runner: runner}).Value.(id.Session)
					w.must(&metadata.AbortJob{Job: other})
					behind := w.orphan(other, 1)
					sleep(24*time.Hour + 10*time.Minute)
					_, err := w.stored.Head(t.Context(), behind)
					require.ErrorIs(t, err, objstore.ErrNotFound)
					require.EqualValues(t, over, w.unswept())
					require.Equal(t, over > 0, w.metric("failures_total") > 0)
					w.agents.pages.Store(1)
					sleep(time.Hour + time.Minute)
					require.Zero(t, w.unswept())
				})
			})
		}
	}
}

// Uploads that are too young are swept later, with their session.
func TestOrphans_YoungUploads(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		w.agents.young.Store(1)
		w.must(&metadata.CloseSession{Session: 1})
		sleep(24*time.Hour + time.Second)
		require.EqualValues(t, 1, w.metric("failures_total"))
		require.Equal(t, 1, w.unswept())
		w.agents.young.Store(0)
		sleep(time.Hour)
		require.Zero(t, w.unswept())
	})
}

// A clock that is a week ahead sweeps nothing before its time.
func TestOrphans_ClockAhead(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		w.must(&metadata.CloseSession{Session: 1})
		w.mu.Lock()
		w.ahead = 7 * 24 * time.Hour
		w.mu.Unlock()
		sleep(23 * time.Hour)
		require.Equal(t, 1, w.unswept())
	})
}

func TestDeletedTopics_ArePurgedAfterTheirTime(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		a, b := w.create("a", nil), w.create("b", nil)
		w.produce(a)
		w.produce(b)
		w.keep()
		for _, tp := range []id.TopicPartition{a, b} {
			w.must(&metadata.DeleteTopic{ID: tp.Topic, KeepMs: (24 * time.Hour).Milliseconds()})
		}
		w.mu.Lock()
		w.ahead = 7 * 24 * time.Hour // as its deletion ages by the store's clock alone
		w.mu.Unlock()
		sleep(23 * time.Hour)
		require.EqualValues(t, 2, w.metric("deleted_topics"))
		require.EqualValues(t, 200, w.metric("deleted_topic_bytes"))
		require.Empty(t, w.dead())
		w.must(&metadata.UndeleteTopic{ID: b.Topic})
		sleep(2 * time.Hour)
		require.EqualValues(t, 1, w.metric("purged_topics_total"))
		sleep(time.Minute)
		require.Zero(t, w.metric("deleted_topics"))
		w.keep()
		sleep(8 * 24 * time.Hour)
		require.Len(t, w.objects(), 1, "b's")
	})
}
