package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/agent/slab"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
)

// heldBucket stores nothing before it is released.
type heldBucket struct {
	objstore.Bucket
	release chan struct{}
}

func (b *heldBucket) Put(ctx context.Context, key string, body objstore.Body) error {
	select {
	case <-b.release:
		return b.Bucket.Put(ctx, key, body)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closedCommitter is the sequencer of a session that has ended.
type closedCommitter struct{}

func (closedCommitter) Commit(context.Context, []byte, time.Time) (*commit.Result, error) {
	return nil, writer.ErrSessionClosed
}

func (closedCommitter) Abandon(context.Context, id.Submission) (*commit.Result, error) {
	return nil, writer.ErrSessionClosed
}

// TestLender_BundleOnItsWay: a bundle that this agent's writer still hands over is not yet in memory, which differs from one
// that is not there.
func TestLender_BundleOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := &heldBucket{Bucket: mem.New(), release: make(chan struct{})}
		a := &Agent{}
		a.cfg.ApplyDefaults()
		pool, err := slab.NewPool(slab.Config{Budget: 64 << 20}, nil)
		require.NoError(t, err)
		a.writer, err = writer.New(writer.Config{Pool: pool, Bucket: bucket, Committer: closedCommitter{}}, prometheus.NewRegistry())
		require.NoError(t, err)
		a.cache, err = cache.New(cache.Config{Bucket: bucket, Key: cachetest.Key})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.writer.Run(ctx) }()
		a.writer.OnWelcome(&api.Welcome{Session: 1})
		p := a.writer.Add(t.Context(), []writer.Batch{writer.BatchOf(id.TopicPartition{}, cachetest.Batch([]byte("value"), 1))})
		time.Sleep(time.Second)
		lend := func(n uint32) error {
			o := &cache.Order{Ask: cache.Ask{Bundle: id.Submission{Session: 1, N: n}.Bundle(), Units: []cache.Unit{{}}}}
			_, err := lender{a}.Lend(t.Context(), o, 0)
			return err
		}
		require.ErrorIs(t, lend(1), cache.ErrPending)
		require.ErrorIs(t, lend(2), cache.ErrAbsent)
		a.writer.OnSessionClosed()
		close(bucket.release)
		<-p.Done()
		synctest.Wait()
		require.ErrorIs(t, lend(1), cache.ErrAbsent)
		cancel()
		require.NoError(t, <-ended)
		a.cache.Close()
	})
}
