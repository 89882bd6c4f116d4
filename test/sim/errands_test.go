package sim

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/objstore"
)

// sealed is a bucket in which bundles can be neither listed nor deleted, as a control plane has it.
type sealed struct {
	objstore.Bucket
	refused *atomic.Int64 // requests for bundles
}

var errSealed = errors.New("the control plane touches bundles")

func (s sealed) List(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.Info, error) {
	if strings.HasPrefix(prefix, bundlePrefix) {
		s.refused.Add(1)
		return nil, errSealed
	}
	return s.Bucket.List(ctx, prefix, startAfter, limit)
}

func (s sealed) Uploads(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.UploadInfo, error) {
	if strings.HasPrefix(prefix, bundlePrefix) {
		s.refused.Add(1)
		return nil, errSealed
	}
	return s.Bucket.Uploads(ctx, prefix, startAfter, limit)
}

func (s sealed) Delete(ctx context.Context, keys []string) error {
	for _, key := range keys {
		if strings.HasPrefix(key, bundlePrefix) {
			s.refused.Add(1)
			return errSealed
		}
	}
	return s.Bucket.Delete(ctx, keys)
}

// Agents delete the objects of a deleted topic: the control planes cannot.
func TestErrands_AgentsDeleteBundles(t *testing.T) {
	t.Parallel()
	clock, refused := &driven{}, new(atomic.Int64)
	c := newLivingClusterBehind(t, clock, func(b objstore.Bucket) objstore.Bucket { return sealed{b, refused} })
	c.createTopic("t", 1)
	client := c.pinned(c.agents[0])
	defer client.Close()
	for n := range 5 {
		produceLines(t, client, "t", n, n+1)
	}
	require.NotEmpty(t, c.bundles())
	c.propose(&metadata.DeleteTopic{ID: c.topicID("t")})
	c.await("the bundles to be dead", func() bool { return c.dead() == len(c.bundles()) })
	clock.advance(20 * time.Minute)
	c.await("an empty bucket", func() bool { return len(c.bundles()) == 0 })
	require.Zero(t, refused.Load())
	deleted := 0.0
	for _, a := range c.agents {
		deleted += a.metric("freshet_agent_deleted_bundles_total")
	}
	require.GreaterOrEqual(t, deleted, 5.0)
	c.await("no dead bundles", func() bool { return c.dead() == 0 })
}

// A control plane whose clock is wrong has agents delete the objects of bundles that have just died. The agents refuse.
func TestErrands_AgentsKeepYoungBundles(t *testing.T) {
	t.Parallel()
	clock := &driven{}
	c := newLivingClusterWith(t, clock, options{agent: func(cfg *agent.Config) { cfg.DeleteMinAge = 0 }}, func(b objstore.Bucket) objstore.Bucket { return b })
	c.createTopic("t", 1)
	client := c.pinned(c.agents[0])
	defer client.Close()
	for n := range 5 {
		produceLines(t, client, "t", n, n+1)
	}
	stored := c.bundles()
	require.NotEmpty(t, stored)
	c.propose(&metadata.DeleteTopic{ID: c.topicID("t")})
	c.await("the bundles to be dead", func() bool { return c.dead() == len(stored) })
	clock.advance(20 * time.Minute)
	c.await("refusals", func() bool {
		refused := 0.0
		for _, a := range c.agents {
			refused += a.metric("freshet_agent_undeleted_bundles_total")
		}
		return refused >= float64(len(stored))
	})
	require.Equal(t, stored, c.bundles())
	require.Equal(t, len(stored), c.dead())
}

// dead returns the number of dead bundles.
func (c *cluster) dead() (n int) {
	c.t.Helper()
	c.state(func(s *metadata.State) {
		for range s.DeadBundles() {
			n++
		}
	})
	return n
}
