package durable_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/durable"
	"github.com/freshet-io/freshet/objstore/fault"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

// uploadParts uploads an object of two parts and gives their bytes.
func uploadParts(ctx context.Context, t *testing.T, s stack) ([]byte, *durable.Upload, error) {
	t.Helper()
	data := objstoretest.Bytes(1, objstore.MinPart+9)
	u, err := durable.Policy{}.Create(ctx, s, "k")
	if err != nil {
		return data, nil, err
	}
	for i, p := range [][]byte{data[:objstore.MinPart], data[objstore.MinPart:]} {
		if err := u.Part(ctx, i+1, int64(i)*objstore.MinPart, objstore.NewBody(p)); err != nil {
			return data, u, err
		}
	}
	return data, u, u.Complete(ctx)
}

func TestUpload_EndsWithTheObjectThere(t *testing.T) {
	cases := []struct {
		rules                       []string
		creates, parts, ends, heads int64
		left                        int // uploads left behind
	}{
		{nil, 1, 2, 1, 0, 0},
		{[]string{"create_upload nth=1 outcome-unknown-before"}, 2, 2, 1, 0, 0},
		{[]string{"create_upload nth=1 outcome-unknown-after"}, 2, 2, 1, 0, 1},
		{[]string{"create_upload nth=1 stall-after"}, 2, 2, 1, 0, 1},
		{[]string{"put_part nth=1 outcome-unknown-after"}, 1, 3, 1, 0, 0},
		{[]string{"put_part nth=2 outcome-unknown-after", "put_part nth=3 stall-after"}, 1, 4, 1, 0, 0},
		{[]string{"put_part times=3 throttle"}, 1, 5, 1, 0, 0},
		{[]string{"complete_upload nth=1 outcome-unknown-before"}, 1, 2, 2, 1, 0},
		{[]string{"complete_upload nth=1 outcome-unknown-after"}, 1, 2, 2, 1, 0},
		{[]string{"complete_upload nth=1 stall-after"}, 1, 2, 2, 1, 0},
		{[]string{"complete_upload nth=1 conflict"}, 1, 2, 2, 1, 0},
		{[]string{"complete_upload nth=1 outcome-unknown-after", "head times=2 throttle"}, 1, 2, 4, 3, 0},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			s := newStack(c.rules...)
			data, _, err := uploadParts(t.Context(), t, s)
			require.NoError(t, err, c.rules)
			require.NoError(t, durable.Verify(t.Context(), s.mem, "k", objstore.NewBody(data)))
			counts := s.Counts()
			require.Equal(t, c.creates, counts[objstore.OpCreateUpload].Requests, c.rules)
			require.Equal(t, c.parts, counts[objstore.OpPutPart].Requests, c.rules)
			require.Equal(t, c.ends, counts[objstore.OpCompleteUpload].Requests, c.rules)
			require.Equal(t, c.heads, counts[objstore.OpHead].Requests, c.rules)
			left, err := s.mem.Uploads(t.Context(), "", "", 10)
			require.NoError(t, err)
			require.Len(t, left, c.left, c.rules)
		})
	}
}

func TestUpload_FinalErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack()
		require.NoError(t, s.mem.Put(t.Context(), "k", body))
		_, u, err := uploadParts(t.Context(), t, s)
		require.ErrorIs(t, err, durable.ErrForeign)
		require.NoError(t, u.Abort(t.Context()))

		for rule, want := range map[string]error{
			"create_upload fail": fault.ErrInjected, "put_part fail": fault.ErrInjected, "complete_upload fail": fault.ErrInjected,
		} {
			s := newStack(rule)
			start := time.Now()
			_, _, err := uploadParts(t.Context(), t, s)
			require.ErrorIs(t, err, want)
			require.Equal(t, start, time.Now(), "what retries do not heal is not retried")
		}
	})
}

func TestUpload_ConflictsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack("complete_upload conflict")
		start := time.Now()
		_, _, err := uploadParts(t.Context(), t, s)
		require.ErrorContains(t, err, "conflicts")
		require.Less(t, time.Since(start), time.Minute)
	})
}

func TestUpload_AbortedByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack()
		u, err := durable.Policy{}.Create(t.Context(), s, "k")
		require.NoError(t, err)
		require.NoError(t, u.Part(t.Context(), 1, 0, body))
		left, err := s.Uploads(t.Context(), "", "", 10)
		require.NoError(t, err)
		require.NoError(t, s.AbortUpload(t.Context(), left[0]))
		require.ErrorIs(t, u.Complete(t.Context()), objstore.ErrNotFound)
		require.ErrorIs(t, u.Part(t.Context(), 1, 0, body), objstore.ErrNotFound)
		require.NoError(t, u.Abort(t.Context()))
	})
}

func TestUpload_ContextBoundsIt(t *testing.T) {
	for _, rule := range []string{"create_upload stall", "put_part throttle", "complete_upload outcome-unknown-before"} {
		synctest.Test(t, func(t *testing.T) {
			s := newStack(rule)
			ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
			defer cancel()
			start := time.Now()
			_, _, err := uploadParts(ctx, t, s)
			require.Equal(t, 45*time.Second, time.Since(start))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, objstore.ErrOutcomeUnknown)
		})
	}
}
