package writer_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/objstore"
)

// TestWriter_FullStore: while the object store is full, each batch ends with an error that its producer retries, and the log
// names the cause once. What was acknowledged stays, and writing goes on by itself when there is room.
func TestWriter_FullStore(t *testing.T) {
	for cause, sentinel := range map[string]error{
		"full": objstore.ErrFull, "read_only": objstore.ErrReadOnly, "refused": objstore.ErrRefused, "failed": errPermission,
	} {
		t.Run(cause, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				core, logged := observer.New(zap.InfoLevel)
				r := newRig(t, func(c *writer.Config) { c.Log = zap.New(core) })
				require.Zero(t, r.accepted(r.add(produce(0, 100, 7, 0))))
				logged.TakeAll()
				r.bucket.before = func(context.Context, int) error { return fmt.Errorf("put: %w", sentinel) }
				const tries = 50
				for range tries {
					require.ErrorIs(t, r.result(r.add(produce(0, 100, 7, 1))).Err, writer.ErrStore)
					time.Sleep(100 * time.Millisecond)
				}
				lines := logged.TakeAll()
				require.Len(t, lines, 1)
				require.Equal(t, zap.ErrorLevel, lines[0].Level)
				require.Equal(t, cause, lines[0].ContextMap()["cause"])
				require.True(t, r.Stuck(), "others had better write themselves")

				r.bucket.before = nil
				require.EqualValues(t, 1, r.accepted(r.add(produce(0, 100, 7, 1))))
				lines = logged.TakeAll()
				require.Len(t, lines, 1)
				require.EqualValues(t, tries, lines[0].ContextMap()["bundles_abandoned"])
				require.False(t, r.Stuck())
				r.checkObjects()
			})
		})
	}
}

// TestWriter_OutageIsLoggedAtABoundedRate: a store that refuses every other bundle is named once in ten seconds, and each
// change of the cause.
func TestWriter_OutageIsLoggedAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.ErrorLevel)
		r := newRig(t, func(c *writer.Config) { c.Log = zap.New(core) })
		refuse := objstore.ErrFull
		r.bucket.before = func(_ context.Context, k int) error {
			if k%2 == 0 {
				return nil
			}
			return refuse
		}
		for range 5 * 10 {
			r.result(r.add(plain(0, 100)))
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, logged.Len(), 6)
		require.False(t, r.Stuck())
		logged.TakeAll()
		time.Sleep(time.Minute)
		for _, refuse = range []error{objstore.ErrFull, objstore.ErrReadOnly, objstore.ErrReadOnly} {
			r.bucket.before = func(context.Context, int) error { return refuse }
			r.result(r.add(plain(0, 100)))
			time.Sleep(11 * time.Second)
		}
		require.Equal(t, 2, logged.Len())
		require.False(t, r.Stuck(), "nothing was tried for a while")
	})
}
