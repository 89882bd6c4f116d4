package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/errand"
	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/fault"
	"github.com/freshet-io/freshet/objstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = "vc/bundles/"

// world is an owner whose commands are applied at once, and its bucket. Time is the bubble's.
type world struct {
	t      *testing.T
	bucket *fault.Bucket
	agents *agents
	stored *mem.Bucket
	clock  *storeClock
	kept   atomic.Uint64
	wanted atomic.Int64
	refuse error         // commands
	ahead  time.Duration // of the owner's clock
	bundle uint32
	after  func() // called after each look at a frozen state

	metrics *prometheus.Registry
	logs    *observer.ObservedLogs // warnings and errors
	infos   *observer.ObservedLogs // all lines

	mu    sync.Mutex
	state *metadata.State
}

// agents work on a bucket, as an agent with the jobs role does.
type agents struct {
	bucket objstore.Bucket
	away   atomic.Bool   // none is connected
	young  atomic.Uint32 // uploads that stay
	pages  atomic.Uint32 // of one object each, in the listings of writers for which lies returns true
	lies   func(id.Session) bool
}

func (a *agents) DeleteBundles(ctx context.Context, names []id.Bundle) (failed map[id.Bundle]error, err error) {
	if a.away.Load() {
		return nil, errand.ErrNoAgent
	}
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = bundle.Key(prefix, name)
	}
	err = a.bucket.Delete(ctx, keys)
	refused := new(objstore.DeleteError)
	if !errors.As(err, &refused) {
		return nil, err
	}
	failed = map[id.Bundle]error{}
	for i, key := range keys {
		if err := refused.Failed[key]; err != nil {
			failed[names[i]] = err
		}
	}
	return failed, nil
}

func (a *agents) ListSession(ctx context.Context, session id.Session, after uint32) (*api.SessionObjects, error) {
	if a.away.Load() {
		return nil, errand.ErrNoAgent
	}
	if a.lies != nil && a.lies(session) {
		if after == a.pages.Load() {
			return &api.SessionObjects{}, nil
		}
		return &api.SessionObjects{Objects: []*api.SessionObject{{N: after + 1}}}, nil // older than the session, so it stays
	}
	startAfter := ""
	if after > 0 {
		startAfter = bundle.Key(prefix, name(session, after))
	}
	listed, err := a.bucket.List(ctx, bundle.SessionPrefix(prefix, session), startAfter, objstore.MaxKeys)
	if err != nil {
		return nil, err
	}
	page, odd := &api.SessionObjects{}, uint32(0)
	for _, object := range listed {
		b, err := bundle.ParseKey(prefix, object.Key)
		if err != nil {
			odd++
			continue
		}
		page.Odd = odd
		page.Objects = append(page.Objects, &api.SessionObject{N: b.Submission().N, Bytes: object.Size, ModifiedMs: object.Modified.UnixMilli()})
	}
	if len(page.Objects) == 0 {
		page.Odd = odd // the tests have less than a page
	}
	return page, nil
}

func (a *agents) AbortUploads(ctx context.Context, session id.Session) (*api.AbortedUploads, error) {
	if a.away.Load() {
		return nil, errand.ErrNoAgent
	}
	uploads, err := a.bucket.Uploads(ctx, bundle.SessionPrefix(prefix, session), "", objstore.MaxKeys)
	if err != nil {
		return nil, err
	}
	done := &api.AbortedUploads{Young: a.young.Load()}
	for _, upload := range uploads {
		if err := a.bucket.AbortUpload(ctx, upload); err != nil {
			return nil, err
		}
		done.Aborted++
	}
	return done, nil
}

// storeClock is a bucket whose store's clock may be off.
type storeClock struct {
	*mem.Bucket
	ahead atomic.Int64
}

func (c *storeClock) Now(context.Context) (time.Time, error) {
	return time.Now().Add(time.Duration(c.ahead.Load())), nil
}

func inWorld(t *testing.T, settings lifecycle.Settings, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		stored := mem.New()
		clock := &storeClock{Bucket: stored}
		w := &world{t: t, stored: stored, clock: clock, bucket: fault.New(clock, 1), state: metadata.New()}
		w.must(&metadata.OpenSession{Instance: "i"})
		w.metrics, w.agents = prometheus.NewRegistry(), &agents{bucket: w.bucket}
		core, logs := observer.New(zap.WarnLevel)
		all, infos := observer.New(zap.InfoLevel)
		w.logs, w.infos = logs, infos
		l, err := lifecycle.New(lifecycle.Config{
			Settings: settings, Agents: w.agents, StoreTime: w.bucket.Now, Log: zap.New(zapcore.NewTee(core, all)), Registerer: w.metrics,
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		wait := l.Start(ctx, lifecycle.Tenure{Owner: w, Kept: w.kept.Load, WantSnapshot: func() { w.wanted.Add(1) }})
		fn(w)
		cancel()
		wait()
	})
}

// Propose applies, unless commands are refused.
func (w *world) Propose(_ context.Context, c metadata.Command) (metadata.Result, uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return metadata.Result{}, 0, w.refuse
	}
	result := w.applyLocked(c)
	return result, w.state.Index(), nil
}

func (w *world) applyLocked(c metadata.Command) metadata.Result {
	b := &metadata.Batch{Now: time.Now().Add(w.ahead).UnixMilli(), Commands: []metadata.Command{c}}
	return w.state.Apply(w.state.Index()+1, b, nil, nil)[0]
}

// ReadFrozen reads after a Tick, as owners have them every few seconds.
func (w *world) ReadFrozen(fn func(*metadata.State)) (uint64, error) {
	w.must(&metadata.Tick{})
	w.mu.Lock()
	s, after := w.state.Snapshot(), w.after
	w.mu.Unlock()
	fn(s)
	if after != nil {
		after()
	}
	return s.Index(), nil
}

// Read reads the state itself.
func (w *world) Read(fn func(*metadata.State)) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn(w.state)
	return w.state.Index(), nil
}

func (w *world) must(c metadata.Command) metadata.Result {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	result := w.applyLocked(c)
	require.NoError(w.t, result.Err)
	return result
}

func (w *world) create(name string, configs map[string]string) id.TopicPartition {
	w.t.Helper()
	var topic id.Topic
	copy(topic[:], name)
	w.must(&metadata.CreateTopic{ID: topic, Name: name, Partitions: 1, Configs: configs})
	return id.TopicPartition{Topic: topic}
}

// produce puts and commits one bundle with a batch of ten records of now for each partition.
func (w *world) produce(partitions ...id.TopicPartition) id.Bundle {
	w.t.Helper()
	w.bundle++
	name := id.Submission{Session: 1, N: w.bundle}
	require.NoError(w.t, w.stored.Put(w.t.Context(), bundle.Key(prefix, name.Bundle()), objstore.NewBody(make([]byte, 1000))))
	var b commit.Builder
	b.Reset(commit.Header{Submission: name, Bytes: 1000})
	for i, tp := range partitions {
		b.Section(commit.Section{Partition: tp, Position: uint32(16 + 100*i)})
		b.Batch(commit.Batch{Records: 10, Bytes: 100, MaxTimestamp: time.Now().UnixMilli(), ProducerID: -1})
	}
	w.must(&metadata.CommitBundle{Encoded: b.AppendTo(nil)})
	return name.Bundle()
}

// keep makes the state as it is what the older snapshot has.
func (w *world) keep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept.Store(w.state.Index())
}

func (w *world) logStart(tp id.TopicPartition) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	marks, _ := w.state.Watermarks(tp)
	return marks.LogStart
}

func (w *world) objects() (keys []string) {
	w.t.Helper()
	infos, err := w.stored.List(w.t.Context(), "", "", 1000)
	require.NoError(w.t, err)
	for _, info := range infos {
		keys = append(keys, info.Key)
	}
	return keys
}

func (w *world) dead() (names []id.Bundle) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.state.DeadBundles() {
		names = append(names, name)
	}
	return names
}

func TestRetention_ByTimeAndSize(t *testing.T) {
	inWorld(t, lifecycle.Settings{RetentionCheck: time.Minute}, func(w *world) {
		byTime := w.create("time", map[string]string{"retention.ms": "600000"})
		bySize := w.create("size", map[string]string{"retention.bytes": "250", "retention.ms": "-1"})
		compacted := w.create("compacted", map[string]string{"cleanup.policy": "compact", "retention.ms": "600000"})
		for range 5 { // at 0, 3, 6, 9 and 12 minutes
			w.produce(byTime, bySize, compacted)
			time.Sleep(3 * time.Minute)
		}
		time.Sleep(time.Second) // it is 15:01
		synctest.Wait()
		require.EqualValues(t, 20, w.logStart(byTime), "those of 0 and 3 minutes are older than 10")
		require.EqualValues(t, 20, w.logStart(bySize), "three of 100 bytes are kept: two are less than 250")
		require.EqualValues(t, 0, w.logStart(compacted))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.EqualValues(t, 50, w.logStart(byTime))
		require.EqualValues(t, 20, w.logStart(bySize))
	})
}

func TestRetention_DefaultsOfTheCluster(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		tp := w.create("t", nil)
		w.produce(tp)
		time.Sleep(time.Hour)
		require.EqualValues(t, 0, w.logStart(tp))
		w.must(&metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{"log.retention.ms": "1800000"}})
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		require.EqualValues(t, 10, w.logStart(tp))
	})
}

func TestRetention_ManyPartitions(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		var all []id.TopicPartition
		for i := range 300 {
			tp := w.create(fmt.Sprintf("t%d", i), map[string]string{"retention.ms": "1000"})
			all = append(all, tp)
			w.produce(tp)
		}
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		for _, tp := range all {
			require.EqualValues(t, 10, w.logStart(tp))
		}
	})
}

func TestGarbage_WaitsForGraceAndSnapshot(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		a, b := w.create("a", nil), w.create("b", nil)
		w.produce(a)
		shared := w.produce(a, b)
		w.must(&metadata.DeleteTopic{ID: a.Topic})
		w.must(&metadata.Tick{})
		require.Len(t, w.dead(), 1)
		time.Sleep(14 * time.Minute)
		synctest.Wait()
		require.Len(t, w.objects(), 2, "the grace is not over")
		require.Zero(t, w.wanted.Load())
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		require.Len(t, w.objects(), 2, "it lived in the snapshots there are")
		require.Positive(t, w.wanted.Load())
		w.keep()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{bundle.Key(prefix, shared)}, w.objects(), "b's records are there")
		require.Empty(t, w.dead())
	})
}

// A deletion that fails, and one whose command fails, are made again.
func TestGarbage_FailuresAreRepeated(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		tp := w.create("t", nil)
		w.produce(tp)
		w.must(&metadata.DeleteTopic{ID: tp.Topic})
		w.must(&metadata.Tick{})
		w.keep()
		w.bucket.MustAdd("delete nth=1 outcome-unknown-before")
		time.Sleep(15*time.Minute + time.Second)
		synctest.Wait()
		require.Len(t, w.objects(), 1)
		require.Len(t, w.dead(), 1)
		w.mu.Lock()
		w.refuse = errors.New("no owner")
		w.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, w.objects())
		require.Len(t, w.dead(), 1, "the object went, the command did not come through")
		w.mu.Lock()
		w.refuse = nil
		w.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, w.dead())
	})
}

// An owner whose clock is a week ahead, which it cannot know as long as the store does not answer, ages the state.
// Nothing is deleted before its time for that.
func TestClockAhead_DeletesNothing(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		kept, gone := w.create("kept", map[string]string{"retention.ms": "3600000"}), w.create("gone", nil)
		w.produce(kept)
		w.produce(gone)
		w.must(&metadata.DeleteTopic{ID: gone.Topic})
		w.must(&metadata.Tick{})
		w.keep()
		w.mu.Lock()
		w.ahead = 7 * 24 * time.Hour
		w.mu.Unlock()
		time.Sleep(12 * time.Minute)
		synctest.Wait()
		require.Zero(t, w.logStart(kept))
		require.Len(t, w.objects(), 2)

		time.Sleep(54 * time.Minute)
		synctest.Wait()
		require.EqualValues(t, 10, w.logStart(kept), "their time has come by the store's clock")
		require.Len(t, w.objects(), 1)
	})
}

// Retention and deletion go by the earlier clock while the store's is off, also under an owner that other clocks confirmed.
func TestStoreClockOff_DeletesByTheEarlierClock(t *testing.T) {
	for name, off := range map[string]time.Duration{"ahead": 7 * 24 * time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, lifecycle.Settings{}, func(w *world) {
				w.clock.ahead.Store(int64(off))
				late := max(0, -off)
				kept, gone := w.create("kept", map[string]string{"retention.ms": "3600000"}), w.create("gone", nil)
				w.produce(kept)
				w.produce(gone)
				w.must(&metadata.DeleteTopic{ID: gone.Topic})
				w.must(&metadata.Tick{})
				w.keep()
				sleep(late + 12*time.Minute)
				require.Zero(t, w.logStart(kept))
				require.Len(t, w.objects(), 2)
				sleep(54 * time.Minute)
				require.EqualValues(t, 10, w.logStart(kept))
				require.Len(t, w.objects(), 1)
			})
		})
	}
}

func TestSettings_Faults(t *testing.T) {
	_, err := lifecycle.New(lifecycle.Config{Settings: lifecycle.Settings{RetentionCheck: -1, GarbageGrace: time.Minute}})
	require.ErrorContains(t, err, "positive intervals")
	require.ErrorContains(t, err, "garbage grace 1m0s")
}
