package sim

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/internal/ledger"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore"
)

// TestOwner_AppendAmbiguousAtTakeover: the owner's last append gets no answer, and another replica takes over. Whether
// the append was in or not, everybody's answer is the same afterwards.
func TestOwner_AppendAmbiguousAtTakeover(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]memlog.Fault{"it took effect": memlog.LoseAnswer, "it did not": memlog.LoseRequest} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, options{seed: 5, succession: true})
			l := c.startLoad("t", 3, 3, 20*time.Millisecond, plain...).mayFail()
			for range 3 {
				l.more(50)
				old := c.owner()
				ambiguous := make(chan struct{})
				lost := false
				old.store.SetFaults(func(op memlog.Op) memlog.Fault {
					switch {
					case lost:
						return memlog.Hang
					case op.Kind == memlog.OpAppend:
						lost = true
						close(ambiguous)
						return outcome
					default:
						return memlog.Pass
					}
				})
				select {
				case <-ambiguous:
				case <-time.After(patience):
					require.Fail(t, "no append")
				}
				c.log.ExpireLeases()
				c.succeeded(old)
			}
			l.more(50)
			l.stop(ledger.Rules{})
		})
	}
}

// TestOwner_OldOneWakesLate: the owner stops for longer than its lease, with requests to the log in its send buffers,
// and wakes when another one has gone on (I9).
func TestOwner_OldOneWakesLate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{seed: 6, succession: true})
	l := c.startLoad("t", 3, 3, 20*time.Millisecond, plain...).mayFail()
	for range 3 {
		l.more(50)
		old := c.owner()
		old.store.Stop()
		_, at := c.log.Indexes()
		c.await("commits on their way to the stopped owner", func() bool { return old.store.Held() > 0 })
		c.log.ExpireLeases()
		c.awaitOther(old)
		l.more(50)
		c.await("commits of the new owner", func() bool { _, now := c.log.Indexes(); return now > at })
		old.store.Release()
	}
	l.more(50)
	l.stop(ledger.Rules{})
}

// smallSnapshots lets a snapshot be taken, and the log be trimmed, every few commits.
func smallSnapshots(cfg *replica.Config) {
	cfg.SnapshotBytes, cfg.SnapshotPoll = 4<<10, 20*time.Millisecond
	cfg.SnapshotInterval = time.Second // garbage of a cluster at rest waits for two of them
}

// TestOwner_FollowerBehindTheTrimPointTakesOver: the only replica left did not see the log for so long that it was
// trimmed meanwhile.
func TestOwner_FollowerBehindTheTrimPointTakesOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{seed: 7, succession: true, replica: smallSnapshots})
	l := c.startLoad("t", 3, 3, 20*time.Millisecond, plain...).mayFail()
	for range 2 {
		l.more(50)
		old := c.owner()
		var follower *controlPlane
		for _, p := range c.replicas {
			if p != old {
				follower = p
			}
		}
		follower.store.CutOff()
		_, seen := c.log.Indexes()
		c.await("the log trimmed past the follower", func() bool {
			first, _ := c.log.Indexes()
			return first > seen+5
		})
		old.store.CutOff()
		c.log.ExpireLeases()
		follower.store.SetFaults(nil)
		require.Equal(t, follower, c.succeeded(old))
	}
	l.more(50)
	l.stop(ledger.Rules{})
}

// TestOwner_NewestSnapshotTorn: after the log was trimmed up to the second newest snapshot, the newest turns out to be
// unreadable, and every replica must start from the bucket.
func TestOwner_NewestSnapshotTorn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{seed: 8, succession: true, replica: smallSnapshots})
	l := c.startLoad("t", 3, 3, 20*time.Millisecond, plain...).mayFail()
	l.more(50)
	c.await("a trimmed log", func() bool { first, _ := c.log.Indexes(); return first > 1 })
	l.more(50)
	for _, p := range c.replicaList() {
		p.crash()
	}
	first, _ := c.log.Indexes()
	require.Greater(t, first, uint64(1), "the log alone is not enough")
	c.tearNewestSnapshot()
	c.log.ExpireLeases()
	for _, name := range c.opts.replicaNames {
		c.startReplica(name)
	}
	l.more(50)
	l.stop(ledger.Rules{})
}

// tearNewestSnapshot replaces the newest snapshot by its first half.
func (c *cluster) tearNewestSnapshot() {
	c.t.Helper()
	page, err := c.audit.List(c.t.Context(), snapshotPrefix, "", objstore.MaxKeys)
	require.NoError(c.t, err)
	require.GreaterOrEqual(c.t, len(page), 2)
	newest := page[len(page)-1].Key
	require.True(c.t, strings.HasPrefix(newest, snapshotPrefix))
	r, err := c.audit.Get(c.t.Context(), newest, 0, -1)
	require.NoError(c.t, err)
	data, err := io.ReadAll(r)
	require.NoError(c.t, err)
	require.NoError(c.t, r.Close())
	require.NoError(c.t, c.audit.Delete(c.t.Context(), []string{newest}))
	require.NoError(c.t, c.audit.Put(c.t.Context(), newest, objstore.NewBody(data[:len(data)/2])))
}
