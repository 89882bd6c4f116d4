package probe_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/probe"
)

// scripted answers puts with the errors given, one after the other, the last for ever, and asks the bucket where that is nil.
type scripted struct {
	objstore.Bucket
	errs    []error
	put     int
	replace bool // as a store that ignores the condition
}

func (s *scripted) Put(ctx context.Context, key string, body objstore.Body) error {
	s.put++
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		if err != nil {
			return err
		}
	}
	if s.replace {
		if err := s.Delete(ctx, []string{key}); err != nil {
			return err
		}
	}
	return s.Bucket.Put(ctx, key, body)
}

func quiet(*probe.Fault, time.Duration) {}

func TestCreateOnly_TellsStoresApart(t *testing.T) {
	good := &scripted{Bucket: mem.New()}
	require.NoError(t, probe.CreateOnly(t.Context(), good, quiet))
	require.Equal(t, 2, good.put)
	require.NoError(t, probe.CreateOnly(t.Context(), good, quiet))
	require.Equal(t, 3, good.put, "a bucket that was probed before costs one put")

	bad := &scripted{Bucket: mem.New(), replace: true}
	require.ErrorIs(t, probe.CreateOnly(t.Context(), bad, quiet), probe.ErrReplaces)
	require.ErrorIs(t, probe.Reach(t.Context(), bad, quiet), probe.ErrReplaces, "the object is there")
	empty := &scripted{Bucket: mem.New(), replace: true}
	require.ErrorIs(t, probe.Reach(t.Context(), empty, quiet), probe.ErrReplaces)
}

func TestCreateOnly_WaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("connection refused")
		bucket := &scripted{Bucket: mem.New(), errs: []error{
			down, objstore.ErrThrottled, objstore.ErrConflict, nil, objstore.ErrOutcomeUnknown, down,
		}}
		var told []error
		require.NoError(t, probe.CreateOnly(t.Context(), bucket, func(f *probe.Fault, _ time.Duration) { told = append(told, f) }))
		require.Len(t, told, 5, "each failure is told")
		require.ErrorIs(t, told[0], down)

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		gone := &scripted{Bucket: mem.New(), errs: make([]error, 1000)}
		for i := range gone.errs {
			gone.errs[i] = down
		}
		require.Error(t, probe.CreateOnly(ctx, gone, quiet), "it ends with its context")
		require.Greater(t, gone.put, 100, "pauses are bounded")
	})
}
