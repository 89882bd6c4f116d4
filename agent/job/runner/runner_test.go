package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// owner remembers what it was told.
type owner struct {
	mu       sync.Mutex
	progress []int64
	parts    []*job.Outcome
	last     int // parts that ended a job
	aborted  []string
	corrupt  []id.Bundle
	fail     func(call int) error // of CompleteJob
	calls    int
}

func (o *owner) JobProgress(_ id.Session, bytes int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.progress = append(o.progress, bytes)
}

func (o *owner) CompleteJob(_ context.Context, _ id.Session, outcome []byte, last bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls++
	if o.fail != nil {
		if err := o.fail(o.calls); err != nil {
			return err
		}
	}
	part, err := job.ParseOutcome(outcome)
	if err != nil {
		return err
	}
	o.parts = append(o.parts, part)
	if last {
		o.last++
	}
	return nil
}

func (o *owner) AbortJob(_ context.Context, n id.Session, reason string, unreadable job.Unreadable) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.aborted = append(o.aborted, fmt.Sprintf("%d %s", n, reason))
	o.corrupt = append(o.corrupt, unreadable.Bundles...)
	return nil
}

// start runs a runner until the end of the test or stop.
func start(t *testing.T, o *owner, work Work) (r *Runner, stop func()) {
	t.Helper()
	r, err := New(Config{Owner: o, Work: map[job.Kind]Work{job.Compact: work}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	return r, sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

func compact(n id.Session) *job.Plan { return &job.Plan{ID: n, Kind: job.Compact, Level: 1} }

// outcome has partitions of a few extents each in bundle 1, and a bundle 2 that nothing refers to.
func outcome(n id.Session, partitions, extents int) job.Outcome {
	o := job.Outcome{Bundles: []job.Bundle{{N: 1, Bytes: 1 << 20}, {N: 2, Bytes: 99}}}
	for p := range partitions {
		r := job.Replacement{ID: id.TopicPartition{Topic: id.Topic{1}, Partition: int32(p)}, To: int64(extents - 1)}
		for i := range extents {
			r.Extents = append(r.Extents, extent.Extent{
				Base: int64(i), Last: int64(i), Kind: extent.Absolute, Length: 61, Batches: 1,
				Bundle: id.Submission{Session: n, N: 1}.Bundle(),
			})
		}
		o.Partitions = append(o.Partitions, r)
	}
	return o
}

func TestRunner_HandsInByPartsUntilAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{fail: func(call int) error {
			if call%2 == 1 {
				return fmt.Errorf("try %d: %w", call, client.ErrUnavailable)
			}
			return nil
		}}
		want := outcome(7, 600, 3)
		r, stop := start(t, o, func(_ context.Context, _ *job.Plan, progress func(int64)) (job.Outcome, error) {
			progress(100)
			time.Sleep(10 * time.Second)
			progress(200)
			return want, nil
		})
		r.OnJob(compact(7))
		r.OnJob(compact(7)) // the same again: a part of the conversation was repeated
		time.Sleep(time.Minute)
		stop()
		require.Len(t, o.parts, 3)
		require.Equal(t, 1, o.last)
		var got []job.Replacement
		for i, part := range o.parts {
			got = append(got, part.Partitions...)
			require.LessOrEqual(t, len(part.Partitions), partReplacements)
			require.Equal(t, i == 2, slices.Contains(part.Bundles, job.Bundle{N: 2, Bytes: 99}), "the last part names what is left")
		}
		require.Equal(t, want.Partitions, got)
		require.Subset(t, o.progress, []int64{0, 100})
		require.GreaterOrEqual(t, len(o.progress), 4, "every few seconds")
		require.Empty(t, o.aborted)
	})
}

// The owner gives the next job once it has the last part of an outcome, before the runner has the answer.
func TestRunner_TakesTheNextWhileHandingIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *Runner
		o := &owner{}
		o.fail = func(call int) error {
			if call == 1 {
				r.OnJob(compact(8))
			}
			return nil
		}
		var stop func()
		r, stop = start(t, o, func(_ context.Context, p *job.Plan, _ func(int64)) (job.Outcome, error) {
			return outcome(p.ID, 1, 1), nil
		})
		r.OnJob(compact(7))
		synctest.Wait()
		stop()
		require.Empty(t, o.aborted)
		require.Equal(t, 2, o.last)
	})
}

type corrupt struct{ bundles []id.Bundle }

func (c corrupt) Error() string                    { return "checksum" }
func (c corrupt) UnreadableInputs() job.Unreadable { return job.Unreadable{Bundles: c.bundles} }
func (c corrupt) Unwrap() error                    { return nil }

func TestRunner_GivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		work Work
		fail error
		want string
	}{
		"failed": {work: func(context.Context, *job.Plan, func(int64)) (job.Outcome, error) {
			return job.Outcome{}, errors.New("no store")
		}, want: "7 no store"},
		"corrupt": {work: func(context.Context, *job.Plan, func(int64)) (job.Outcome, error) {
			return job.Outcome{}, fmt.Errorf("merge: %w", corrupt{[]id.Bundle{5}})
		}, want: "7 merge: checksum"},
		"refused": {
			work: func(context.Context, *job.Plan, func(int64)) (job.Outcome, error) { return outcome(7, 1, 1), nil },
			fail: client.ErrInvalid, want: "7 hand in a part of 1 partitions: " + client.ErrInvalid.Error(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &owner{fail: func(int) error { return c.fail }}
				r, stop := start(t, o, c.work)
				r.OnJob(compact(7))
				synctest.Wait()
				stop()
				require.Equal(t, []string{c.want}, o.aborted)
				require.Equal(t, name == "corrupt", len(o.corrupt) == 1)
			})
		})
	}
}

func TestRunner_CancelledStoppedAndBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{}
		var causes []error
		r, stop := start(t, o, func(ctx context.Context, _ *job.Plan, _ func(int64)) (job.Outcome, error) {
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			return job.Outcome{}, ctx.Err()
		})
		r.OnJob(compact(7))
		synctest.Wait()
		r.OnJob(compact(8))
		r.OnJob(&job.Plan{ID: 9, Kind: job.Clean})
		synctest.Wait()
		require.ElementsMatch(t, []string{"8 " + errBusy.Error(), "9 " + errBusy.Error()}, o.aborted)
		r.OnCancelJob(7)
		r.OnCancelJob(77)
		synctest.Wait()
		require.Len(t, o.aborted, 2, "the owner knows already")
		r.OnJob(&job.Plan{ID: 9, Kind: job.Clean})
		synctest.Wait()
		require.Equal(t, "9 "+errUnknown.Error(), o.aborted[2])
		r.OnJob(compact(10))
		synctest.Wait()
		stop()
		require.Equal(t, []error{errCancelled, errStopping}, causes)
		require.Equal(t, "10 "+errStopping.Error(), o.aborted[3])
		r.OnJob(compact(11)) // too late
		require.Len(t, o.aborted, 4)
	})
}
