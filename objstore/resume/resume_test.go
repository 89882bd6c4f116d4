package resume_test

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/fault"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/meter"
	"github.com/freshet-io/freshet/objstore/resume"
)

// content is of a length that no buffer divides.
var content = bytes.Repeat([]byte("0123456789"), 100_003)

func faulty(t *testing.T, rules string) *fault.Bucket {
	t.Helper()
	b := mem.New()
	require.NoError(t, b.Put(t.Context(), "k", objstore.NewBody(content)))
	f := fault.New(b, 1)
	_, err := f.Add(rules)
	require.NoError(t, err)
	return f
}

func TestReader_GoesOnWhereItBroke(t *testing.T) {
	for _, rules := range []string{
		"", "get times=5 truncate", "get nth=1 throttle", "get times=3 outcome-unknown-before", "get nth=1 stall",
		"get times=4 truncate\nget every=3 throttle\nget nth=5 stall",
	} {
		t.Run(rules, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := faulty(t, rules)
				r := resume.New(t.Context(), b, "k", 7, int64(len(content))-9)
				resumed := 0
				r.OnResume = func() { resumed++ }
				got, err := io.ReadAll(r)
				require.NoError(t, err)
				require.True(t, bytes.Equal(content[7:len(content)-2], got))
				require.Equal(t, rules != "", resumed > 0)
				require.NoError(t, r.Close())
				_, err = r.Read(make([]byte, 1))
				require.ErrorIs(t, err, io.EOF)
			})
		})
	}
}

func TestReader_GivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for rules, want := range map[string]error{
			"get not-found": objstore.ErrNotFound, "get throttle": objstore.ErrThrottled, "get fail": fault.ErrInjected,
		} {
			began := time.Now()
			r := resume.New(t.Context(), faulty(t, rules), "k", 0, int64(len(content)))
			_, err := io.ReadAll(r)
			require.ErrorIs(t, err, want)
			require.Less(t, time.Since(began), time.Minute)
		}
		r := resume.New(t.Context(), faulty(t, ""), "k", int64(len(content)), 1)
		_, err := io.ReadAll(r)
		require.ErrorIs(t, err, objstore.ErrRange)
	})
}

func TestReader_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := resume.New(ctx, faulty(t, "get throttle"), "k", 0, 10)
		_, err := io.ReadAll(r)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestReader_OpenAndSkip(t *testing.T) {
	b := meter.New(faulty(t, ""), nil)
	r := resume.New(t.Context(), b, "k", 10, 1000)
	require.False(t, r.Connected())
	require.NoError(t, r.Open())
	require.NoError(t, r.Open())
	require.True(t, r.Connected())
	_, err := io.ReadFull(r, make([]byte, 5))
	require.NoError(t, err)
	require.EqualValues(t, 15, r.At())
	require.EqualValues(t, 1, b.Counts()[objstore.OpGet].Requests)
	r.SkipTo(900)
	require.False(t, r.Connected())
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, content[900:1010], rest)
	require.EqualValues(t, 2, b.Counts()[objstore.OpGet].Requests)
	require.NoError(t, r.Close())
	require.NoError(t, r.Open())
	require.False(t, r.Connected(), "nothing is left to read")
	r = resume.New(t.Context(), faulty(t, "get nth=1 not-found"), "k", 10, 5)
	require.ErrorIs(t, r.Open(), objstore.ErrNotFound)
	rest, err = io.ReadAll(r)
	require.NoError(t, err, "it is asked again")
	require.Equal(t, content[10:15], rest)
}
