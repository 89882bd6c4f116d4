package probe_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/probe"
)

// reading answers gets with the errors given, one after the other, and then asks the bucket. errHang hangs.
type reading struct {
	objstore.Bucket
	errs   []error
	got    int
	refuse bool // puts, too
}

var errHang = errors.New("hangs")

func (r *reading) Put(ctx context.Context, key string, body objstore.Body) error {
	if r.refuse {
		return objstore.ErrRefused
	}
	return r.Bucket.Put(ctx, key, body)
}

func (r *reading) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	r.got++
	if len(r.errs) > 0 {
		err := r.errs[0]
		r.errs = r.errs[1:]
		if errors.Is(err, errHang) {
			<-ctx.Done()
			err = ctx.Err()
		}
		return nil, err
	}
	return r.Bucket.Get(ctx, key, offset, length)
}

func TestReach_GetsOnce(t *testing.T) {
	bucket := &reading{Bucket: mem.New()}
	require.NoError(t, probe.Reach(t.Context(), bucket, quiet), "a bucket without the probe's object")
	require.NoError(t, probe.CreateOnly(t.Context(), bucket, quiet))
	require.NoError(t, probe.Reach(t.Context(), bucket, quiet))
	require.Equal(t, 2, bucket.got)
}

// secretive answers reads of missing objects with ErrRefused, as S3 does without the right to list. With blind, it refuses all reads.
type secretive struct {
	*scripted
	blind bool
}

func (s *secretive) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	object, err := s.scripted.Get(ctx, key, offset, length)
	if s.blind || errors.Is(err, objstore.ErrNotFound) {
		return nil, objstore.ErrRefused
	}
	return object, err
}

// Reach suffices for a process that can only read: records that were stored before are served.
func TestReach_WorksWithoutWrites(t *testing.T) {
	for _, err := range []error{objstore.ErrRefused, objstore.ErrFull, objstore.ErrReadOnly, objstore.ErrThrottled, objstore.ErrConflict} {
		bucket := &scripted{Bucket: mem.New(), errs: []error{err}}
		require.NoError(t, probe.Reach(t.Context(), bucket, quiet), err)
		require.Equal(t, 1, bucket.put)
	}
}

// TestReach_WhoMayNotList: an absence that is not told is no refusal, but what may not be read or created is.
func TestReach_WhoMayNotList(t *testing.T) {
	may := &secretive{scripted: &scripted{Bucket: mem.New()}}
	require.NoError(t, probe.Reach(t.Context(), may, quiet))
	require.Equal(t, 2, may.put, "one creates the object, one shows that the store replaces none")
	require.NoError(t, probe.Reach(t.Context(), may, quiet))
	require.Equal(t, 3, may.put, "it is there now")

	for name, bucket := range map[string]*secretive{
		"may not read":  {scripted: &scripted{Bucket: mem.New()}, blind: true},
		"may not write": {scripted: &scripted{Bucket: mem.New(), errs: []error{objstore.ErrRefused}}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var fault *probe.Fault
			require.Error(t, probe.Reach(ctx, bucket, func(f *probe.Fault, _ time.Duration) {
				fault = f
				cancel()
			}))
			require.True(t, fault.Refused())
		})
	}
}

func TestWatch_SaysWhatIsWrongByItsKind(t *testing.T) {
	for _, c := range []struct {
		err     error
		kind    string
		refused bool
		waits   bool // the first lines are no warning: the store may be starting
	}{
		{fmt.Errorf("get k: %w: InvalidAccessKeyId", objstore.ErrRefused), "object store refuses access", true, false},
		{fmt.Errorf("get k: %w", objstore.ErrNoBucket), "there is no such bucket in the object store", true, false},
		{fmt.Errorf("%w: %w", objstore.ErrOutcomeUnknown, objstore.ErrNoCredentials), "no credentials for the object store", true, false},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, "object store cannot be reached", false, true},
		{&net.DNSError{Err: "no such host", Name: "s3"}, "object store cannot be reached", false, true},
		{&tls.CertificateVerificationError{Err: errors.New("unknown authority")}, "object store cannot be reached", false, false},
		{errHang, "object store does not answer", false, true},
		{objstore.ErrThrottled, "object store throttles requests", false, false},
		{errors.New("status 500"), "object store returns an unexpected error", false, false},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logged := observer.New(zap.InfoLevel)
				w := probe.NewWatch(probe.Reach, "", zap.New(core))
				require.ErrorContains(t, w.Ready(), "has not answered yet")
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				began := time.Now()
				go func() {
					ended <- w.Run(ctx, &reading{refuse: true, Bucket: mem.New(), errs: slices.Repeat([]error{c.err}, 7)})
				}()

				<-w.Told()
				require.LessOrEqual(t, time.Since(began), 3*time.Second, "a store that hangs is reported soon")
				synctest.Wait()
				require.ErrorContains(t, w.Ready(), c.kind)
				require.Equal(t, c.refused, w.Refused() != nil)

				<-w.Works()
				synctest.Wait()
				require.NoError(t, w.Ready())
				require.NoError(t, w.Refused())
				lines := logged.TakeAll()
				require.Len(t, lines, 8, "one for each attempt")
				require.Equal(t, "object store works now", lines[7].Message)
				if c.waits {
					require.Equal(t, "waiting for the object store", lines[0].Message)
					require.Equal(t, zap.InfoLevel, lines[0].Level)
				} else {
					require.Equal(t, c.kind, lines[0].Message)
				}
				require.Equal(t, c.kind, lines[6].Message)
				require.Equal(t, zap.WarnLevel, lines[6].Level)
				require.NotEmpty(t, lines[6].ContextMap()["check"])
				cancel()
				require.NoError(t, <-ended)
			})
		})
	}
}

// Warning asks for a GET if the last one is five seconds old, and names a store that has stopped to answer, with address and time.
func TestWatch_WarnsOfAStoreThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.InfoLevel)
		w := probe.NewWatch(probe.Reach, "10.0.0.1:9000", zap.New(core))
		bucket := &reading{Bucket: mem.New()}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx, bucket) }()
		<-w.Works()
		after := func(d time.Duration) error {
			t.Helper()
			time.Sleep(d) // sleeps: the clock is fake
			synctest.Wait()
			fault := w.Warning()
			synctest.Wait()
			if fault == nil {
				return nil
			}
			return fault
		}
		require.NoError(t, after(3*time.Second))
		require.Equal(t, 1, bucket.got, "the start's alone")
		require.NoError(t, after(time.Hour))
		require.Equal(t, 2, bucket.got, "no request without a call of Warning")

		bucket.errs = slices.Repeat([]error{errHang}, 4)
		require.NoError(t, after(5*time.Second))
		require.EqualError(t, after(3*time.Second), "object store at 10.0.0.1:9000 does not answer, 3 s")
		require.EqualError(t, after(time.Second), "object store at 10.0.0.1:9000 does not answer, 4 s")
		require.NoError(t, w.Ready(), "the process stays ready")
		require.NoError(t, w.Refused())
		require.Equal(t, 1, logged.FilterMessage("object store does not answer").Len())
		bucket.errs = []error{objstore.ErrRefused}
		require.EqualError(t, after(3*time.Second), "object store at 10.0.0.1:9000 does not answer, 7 s")
		require.EqualError(t, after(time.Second), "object store at 10.0.0.1:9000 does not answer, 8 s")
		require.EqualError(t, after(time.Second), "object store at 10.0.0.1:9000 refuses access, 9 s: "+objstore.ErrRefused.Error())
		require.NoError(t, after(time.Second))
		require.Len(t, logged.TakeAll(), 2, "the start and the end of the outage")
		cancel()
		require.NoError(t, <-ended)
	})
}

// Check waits for the end of a GET if the last one ended a second ago or earlier, and names a store without an answer when the caller's time is over.
func TestWatch_Check(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := probe.NewWatch(probe.Reach, "10.0.0.1:9000", zap.NewNop())
		check := func() string {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if fault := w.Check(ctx); fault != nil {
				return fault.Error()
			}
			return ""
		}
		require.Equal(t, "object store at 10.0.0.1:9000 does not answer, 0 s", check(), "Run has not begun")
		bucket := &reading{Bucket: mem.New(), errs: []error{objstore.ErrRefused}, refuse: true}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx, bucket) }()
		synctest.Wait()
		require.Contains(t, check(), "object store at 10.0.0.1:9000 refuses access, 0 s")
		<-w.Works()
		time.Sleep(time.Second) // sleeps: the clock is fake
		before := bucket.got
		require.Empty(t, check())
		require.Equal(t, before+1, bucket.got)

		time.Sleep(time.Hour) // sleeps: the clock is fake
		bucket.errs = slices.Repeat([]error{errHang}, 3)
		require.Equal(t, "object store at 10.0.0.1:9000 does not answer, 2 s", check(), "the GET takes three seconds")
		require.Equal(t, "object store at 10.0.0.1:9000 does not answer, 3 s", check(), "it has ended")
		require.Equal(t, "object store at 10.0.0.1:9000 does not answer, 3 s", check(), "the outcome of less than a second ago")
		time.Sleep(1500 * time.Millisecond) // sleeps: the clock is fake
		require.Equal(t, "object store at 10.0.0.1:9000 does not answer, 6 s", check(), "the next one has begun")
		time.Sleep(time.Minute) // sleeps: the clock is fake
		require.Empty(t, check(), "an earlier fault does not count")
		cancel()
		require.NoError(t, <-ended)
	})
}

// A fault began with the first failed request of another part of the process, unless a check has succeeded since.
func TestWatch_NoteFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := probe.NewWatch(probe.Reach, "10.0.0.1:9000", zap.NewNop())
		bucket := &reading{Bucket: mem.New()}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx, bucket) }()
		<-w.Works()
		time.Sleep(time.Hour) // sleeps: the clock is fake
		before := bucket.got
		w.NoteFailure(time.Now().Add(-3 * time.Second))
		synctest.Wait()
		require.Equal(t, before+1, bucket.got, "a check follows")
		require.Nil(t, w.Check(ctx), "which succeeded")

		time.Sleep(time.Hour) // sleeps: the clock is fake
		bucket.errs = slices.Repeat([]error{errHang}, 9)
		w.NoteFailure(time.Now().Add(-3 * time.Second))
		short, stop := context.WithTimeout(ctx, time.Second)
		require.EqualError(t, w.Check(short), "object store at 10.0.0.1:9000 does not answer, 4 s", "while the check waits")
		stop()
		time.Sleep(10 * time.Second) // sleeps: the clock is fake
		w.NoteFailure(time.Now())
		fault := w.Check(ctx)
		require.EqualError(t, fault, "object store at 10.0.0.1:9000 does not answer, 17 s")
		require.Equal(t, 17*time.Second, time.Since(fault.Since))
		cancel()
		require.NoError(t, <-ended)
	})
}

// Check reuses a GET that ended within the last second: each GET costs money, and an operator may ask for the status in a loop.
func TestWatch_CheckReusesARecentGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := &reading{Bucket: mem.New()}
		w := probe.NewWatch(probe.Reach, "10.0.0.1:9000", zap.NewNop())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx, bucket) }()
		<-w.Works()
		for range 10 {
			before := bucket.got
			for range 100 {
				require.Nil(t, w.Check(ctx))
			}
			require.LessOrEqual(t, bucket.got, before+1)
			time.Sleep(time.Second) // sleeps: the clock is fake
		}
		require.Equal(t, 10, bucket.got, "one a second, with the start's")
		bucket.errs = []error{objstore.ErrRefused}
		for range 100 {
			require.ErrorContains(t, w.Check(ctx), "refuses access")
		}
		require.Equal(t, 11, bucket.got)
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestWatch_SaysNothingOfAStoreThatWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.DebugLevel)
		w := probe.NewWatch(probe.CreateOnly, "", zap.New(core))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx, mem.New()) }()
		<-w.Told()
		synctest.Wait()
		require.NoError(t, w.Ready())
		require.Empty(t, logged.All())
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestWatch_EndsAtAStoreThatReplaces(t *testing.T) {
	w := probe.NewWatch(probe.CreateOnly, "", zap.NewNop())
	require.ErrorIs(t, w.Run(t.Context(), &scripted{Bucket: mem.New(), replace: true}), probe.ErrReplaces)
	require.Error(t, w.Ready())
}
