package errand

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/fault"
	"github.com/freshet-io/freshet/objstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = "vc/bundles/"

// world is a Runner with its bucket and the answers.
type world struct {
	*Runner
	t       *testing.T
	stored  *mem.Bucket
	bucket  *fault.Bucket
	slow    *slow
	answers chan *api.ErrandDone
	logs    *observer.ObservedLogs
	stop    func()
	fault   atomic.Pointer[error] // that ready returns, nil for none
}

func (w *world) ready() error {
	if fault := w.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

// slow is a bucket whose deletions can wait.
type slow struct {
	objstore.Bucket
	wait    atomic.Int64 // time.Duration
	running atomic.Int64
	most    atomic.Int64
}

func (s *slow) Delete(ctx context.Context, keys []string) error {
	s.most.Store(max(s.most.Load(), s.running.Add(1)))
	defer s.running.Add(-1)
	select {
	case <-time.After(time.Duration(s.wait.Load())):
	case <-ctx.Done():
		return fmt.Errorf("delete: %w", context.Cause(ctx))
	}
	return s.Bucket.Delete(ctx, keys)
}

func (w *world) ErrandDone(done *api.ErrandDone) { w.answers <- done }

func inWorld(t *testing.T, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, stored: mem.New(), answers: make(chan *api.ErrandDone, 100)}
		w.bucket = fault.New(w.stored, 1)
		w.slow = &slow{Bucket: w.bucket}
		core, logs := observer.New(zap.InfoLevel)
		w.logs = logs
		w.Runner = New(Config{Owner: w, Ready: w.ready, Bundles: &Bundles{Bucket: w.slow, Prefix: func() string { return prefix }}, Log: zap.New(core)})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		stopped := false
		w.stop = func() {
			if !stopped {
				stopped = true
				cancel()
				require.NoError(t, <-ended)
			}
		}
		fn(w)
		w.stop()
	})
}

func name(n uint32) id.Bundle { return id.Submission{Session: 3, N: n}.Bundle() }

func (w *world) put(key string) {
	w.t.Helper()
	require.NoError(w.t, w.stored.Put(w.t.Context(), key, objstore.NewBody([]byte("x"))))
}

func (w *world) keys() (keys []string) {
	w.t.Helper()
	infos, err := w.stored.List(w.t.Context(), "", "", objstore.MaxKeys)
	require.NoError(w.t, err)
	for _, info := range infos {
		keys = append(keys, info.Key)
	}
	return keys
}

func deletion(n uint64, names ...id.Bundle) *api.Errand {
	e := &api.DeleteBundles{}
	for _, name := range names {
		e.Bundles = append(e.Bundles, uint64(name))
	}
	return &api.Errand{Id: n, Errand: &api.Errand_DeleteBundles{DeleteBundles: e}}
}

// ask hands an errand in and returns its answer.
func (w *world) ask(e *api.Errand) *api.ErrandDone {
	w.t.Helper()
	w.OnErrand(e)
	done := <-w.answers
	require.Equal(w.t, e.Id, done.Id)
	return done
}

func TestRunner_DeletesBundles(t *testing.T) {
	inWorld(t, func(w *world) {
		for n := range uint32(4) {
			w.put(bundle.Key(prefix, name(n+1)))
		}
		w.put("vc/snapshots/1")
		w.bucket.MustAdd("delete key=" + bundle.Key(prefix, name(2)) + " refuse")
		done := w.ask(deletion(7, name(3), name(1), name(2), name(9)))
		require.Empty(t, done.Error)
		failed := done.GetDeletedBundles().Failed
		require.Len(t, failed, 1)
		require.EqualValues(t, name(2), failed[0].Bundle)
		require.Equal(t, "injected fault", failed[0].Error)
		require.ElementsMatch(t, []string{bundle.Key(prefix, name(2)), bundle.Key(prefix, name(4)), "vc/snapshots/1"}, w.keys())
		require.Equal(t, 1, w.logs.Len(), "one line for the errand")
		fields := w.logs.All()[0].ContextMap()
		require.Equal(t, "3/1", fields["first"])
		require.Equal(t, "3/9", fields["last"])
		require.EqualValues(t, 3, fields["objects"])
	})
}

// Errands that are no batch of bundles delete nothing.
func TestRunner_RefusesOtherErrands(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put(bundle.Key(prefix, name(1)))
		most := make([]id.Bundle, objstore.MaxKeys)
		for i := range most {
			most[i] = name(uint32(i + 1))
		}
		for reason, e := range map[string]*api.Errand{
			"know this kind": {Id: 1}, "0 bundles": deletion(2), "1001 bundles": deletion(3, append(most[:len(most):len(most)], name(1))...),
			"3/0 is not a bundle": deletion(4, name(1), name(0)), "0/1 is not a bundle": deletion(5, name(1), 1),
		} {
			done := w.ask(e)
			require.Contains(t, done.Error, reason)
			require.Nil(t, done.Result)
		}
		require.Len(t, w.keys(), 1)
		require.Empty(t, w.ask(deletion(6, most...)).Error)
		require.Empty(t, w.keys())
	})
	_, err := Bundles{Bucket: mem.New(), Prefix: func() string { return "" }}.DeleteBundles(t.Context(), []id.Bundle{name(1)})
	require.ErrorIs(t, err, errNoPrefix)
}

func TestRunner_MarksTheBucket(t *testing.T) {
	inWorld(t, func(w *world) {
		outcome := errors.New("the store is away")
		w.cfg.MarkBucket = func(context.Context) error { return outcome }
		e := &api.Errand{Id: 1, Errand: &api.Errand_MarkBucket{MarkBucket: &api.MarkBucket{}}}
		w.OnErrand(e)
		done := <-w.answers
		require.Equal(t, "the store is away", done.Error)
		require.Nil(t, done.GetMarkedBucket())
		outcome = nil
		w.OnErrand(e)
		done = <-w.answers
		require.Empty(t, done.Error)
		require.NotNil(t, done.GetMarkedBucket())
	})
}

// An agent that has not compared its bucket refuses each kind of errand, also one that arrived before. A bucket without the objects would
// answer that all are gone.
func TestRunner_RefusesBeforeItsBucketIsCompared(t *testing.T) {
	errands := map[string]*api.Errand{
		"delete": deletion(1, name(1)),
		"list":   {Id: 1, Errand: &api.Errand_ListSession{ListSession: &api.ListSession{Session: 3}}},
		"abort":  {Id: 1, Errand: &api.Errand_AbortUploads{AbortUploads: &api.AbortUploads{Session: 3}}},
		"mark":   {Id: 1, Errand: &api.Errand_MarkBucket{MarkBucket: &api.MarkBucket{}}},
	}
	for kind, e := range errands {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.cfg.MarkBucket = func(context.Context) error { return nil }
				w.fault.Store(new(errors.New("not compared")))
				done := w.ask(e)
				require.Equal(t, "not compared", done.Error)
				require.Nil(t, done.Result)
				w.fault.Store(nil)
				require.Empty(t, w.ask(e).Error)
			})
		})
	}
}

// An agent without the jobs role writes the marker, and does nothing else.
func TestRunner_WithoutTheRole(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Bundles = nil
		w.cfg.MarkBucket = func(context.Context) error { return nil }
		require.Equal(t, errNoRole.Error(), w.ask(deletion(1, name(1))).Error)
		require.NotNil(t, w.ask(&api.Errand{Id: 2, Errand: &api.Errand_MarkBucket{MarkBucket: &api.MarkBucket{}}}).GetMarkedBucket())
	})
}

// The store's texts are cut, and are valid UTF-8: other texts would end the stream.
func TestRunner_CutsErrors(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Runner.cfg.Bundles = &Bundles{Bucket: wordy{w.stored}, Prefix: func() string { return prefix }}
		done := w.ask(deletion(1, name(1)))
		text := done.GetDeletedBundles().Failed[0].Error
		require.LessOrEqual(t, len(text), api.MaxErrandError)
		require.Equal(t, text, strings.ToValidUTF8(text, ""))
	})
}

// wordy is a bucket with long errors.
type wordy struct{ objstore.Bucket }

func (wordy) Delete(_ context.Context, keys []string) error {
	return objstore.NewDeleteError(map[string]error{keys[0]: fmt.Errorf("\xff%s", strings.Repeat("€", 10_000))})
}

func TestRunner_Bounds(t *testing.T) {
	inWorld(t, func(w *world) {
		w.slow.wait.Store(int64(time.Second))
		for n := range uint64(4) {
			w.OnErrand(deletion(n, name(1)))
			synctest.Wait()
		}
		for n := range uint64(16 + 2) {
			w.OnErrand(deletion(100+n, name(1)))
		}
		require.Equal(t, errBusy.Error(), (<-w.answers).Error)
		require.Equal(t, errBusy.Error(), (<-w.answers).Error)
		require.Empty(t, w.answers)
		for range 20 {
			require.Empty(t, (<-w.answers).Error)
		}
		require.EqualValues(t, 4, w.slow.most.Load())
	})
}

// The 30 s of an errand begin with its arrival. The owner has given a later one to another agent.
func TestRunner_LateErrandsDoNotStart(t *testing.T) {
	inWorld(t, func(w *world) {
		w.slow.wait.Store(int64(time.Hour))
		start := time.Now()
		for n := range uint64(maxRunning) {
			w.OnErrand(deletion(n, name(1)))
		}
		time.Sleep(20 * time.Second) // the bubble's time
		w.OnErrand(deletion(100, name(1)))
		time.Sleep(9 * time.Second)
		w.slow.wait.Store(int64(30 * time.Second))
		for range maxRunning {
			require.NotEmpty(t, (<-w.answers).Error)
		}
		require.Contains(t, (<-w.answers).Error, "deadline exceeded", "the first in the queue has begun")
		require.Equal(t, 50*time.Second, time.Since(start))

		w.slow.wait.Store(int64(time.Hour))
		for n := range uint64(maxRunning + 1) {
			w.OnErrand(deletion(n, name(1)))
		}
		late := 0
		for range maxRunning + 1 {
			if (<-w.answers).Error == errLate.Error() {
				late++
			}
		}
		require.Equal(t, 1, late)
		require.Equal(t, 80*time.Second, time.Since(start))
	})
}

// An errand that takes 30 s fails, and with the end of the agent each errand is answered.
func TestRunner_EndsErrands(t *testing.T) {
	inWorld(t, func(w *world) {
		w.slow.wait.Store(int64(time.Hour))
		start := time.Now()
		require.Contains(t, w.ask(deletion(1, name(1))).Error, "deadline exceeded")
		require.Equal(t, 30*time.Second, time.Since(start))
		for n := range uint64(maxRunning + 3) {
			w.OnErrand(deletion(n, name(1)))
		}
		synctest.Wait()
		w.stop()
		require.Len(t, w.answers, maxRunning+3)
		for range maxRunning + 3 {
			require.NotEmpty(t, (<-w.answers).Error)
		}
		require.Equal(t, errStopping.Error(), w.ask(deletion(99, name(1))).Error)
	})
}
