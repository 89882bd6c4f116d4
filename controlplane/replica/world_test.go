package replica_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const prefix = "snapshots/"

// world is one virtual cluster: a log, a bucket, and the replicas that a test starts.
type world struct {
	t      *testing.T
	store  *memlog.Store
	bucket *bucket
	adjust func(*replica.Config)
	before func(*replica.Replica) // called before a replica starts, if set
	topics int
}

// bucket is a bucket in memory whose store may be down or whose clock may be off.
type bucket struct {
	*mem.Bucket
	down   atomic.Bool
	lost   atomic.Bool // GET finds nothing
	silent atomic.Bool // tells no time
	hidden atomic.Bool // answers no LIST
	lists  atomic.Int64
	before func() // called before each LIST, if set
	skew   atomic.Int64
}

var errDown = errors.New("bucket is down")

func (b *bucket) Put(ctx context.Context, key string, body objstore.Body) error {
	if b.down.Load() {
		return errDown
	}
	return b.Bucket.Put(ctx, key, body)
}

func (b *bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	switch {
	case b.down.Load():
		return nil, errDown
	case b.lost.Load():
		return nil, objstore.ErrNotFound
	}
	return b.Bucket.Get(ctx, key, offset, length)
}

func (b *bucket) List(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.Info, error) {
	b.lists.Add(1)
	if b.before != nil {
		b.before()
	}
	if b.hidden.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return b.Bucket.List(ctx, prefix, startAfter, limit)
}

func (b *bucket) Now(context.Context) (time.Time, error) {
	if b.silent.Load() {
		return time.Time{}, errDown
	}
	return time.Now().Add(time.Duration(b.skew.Load())), nil
}

// node is one running replica.
type node struct {
	*replica.Replica
	net    *memlog.Replica
	cancel context.CancelFunc
	ended  chan error
	// release ends the process's lease.
	release func()
	owned   atomic.Int64 // times that it became the owner
}

func newWorld(t *testing.T, adjust func(*replica.Config)) *world {
	t.Helper()
	return &world{t: t, store: memlog.New(), bucket: &bucket{Bucket: mem.New()}, adjust: adjust}
}

func (w *world) start(name string) *node { return w.startFaulty(name, nil) }

// startFaulty starts a replica whose way to the log has faults from the beginning.
func (w *world) startFaulty(name string, faults func(memlog.Op) memlog.Fault) *node {
	w.t.Helper()
	net := w.store.Connect(name)
	net.SetFaults(faults)
	lease, err := metalog.NewLease(net, metalog.Config{})
	require.NoError(w.t, err)
	l, err := metalog.New(net, metalog.Config{Lease: lease})
	require.NoError(w.t, err)
	n := &node{net: net, ended: make(chan error, 1), release: memlog.Start(lease)}
	cfg := replica.Config{
		Replica: name, Address: name + ":7050", Log: l, Bucket: w.bucket, SnapshotPrefix: prefix,
		OnOwner: func(*owner.Owner) func() {
			n.owned.Add(1)
			return func() {}
		},
	}
	if w.adjust != nil {
		w.adjust(&cfg)
	}
	n.Replica, err = replica.New(cfg)
	require.NoError(w.t, err)
	if w.before != nil {
		w.before(n.Replica)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() {
		err := n.Run(ctx)
		n.release()
		n.ended <- err
	}()
	return n
}

// stop ends the replica cleanly.
func (w *world) stop(nodes ...*node) {
	w.t.Helper()
	for _, n := range nodes {
		n.net.SetFaults(nil)
		n.cancel()
		require.NoError(w.t, <-n.ended)
	}
}

// waitFor waits in the bubble's time.
func (w *world) waitFor(what string, limit time.Duration, cond func() bool) time.Duration {
	w.t.Helper()
	start := time.Now()
	for !cond() {
		if time.Since(start) > limit {
			require.Failf(w.t, "timed out", "%s did not happen within %v", what, limit)
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
	}
	return time.Since(start)
}

func (w *world) waitOwner(n *node, limit time.Duration) time.Duration {
	w.t.Helper()
	return w.waitFor("ownership", limit, func() bool { return n.Owner() != nil })
}

// propose adds one topic and expects it to succeed.
func (w *world) propose(n *node) {
	w.t.Helper()
	w.topics++
	own := n.Owner()
	require.NotNil(w.t, own)
	result, _, err := own.Propose(w.t.Context(), topic(w.topics))
	require.NoError(w.t, err)
	require.NoError(w.t, result.Err)
}

func topic(n int) *metadata.CreateTopic {
	return &metadata.CreateTopic{
		ID: id.Topic{byte(n), byte(n >> 8), 1}, Name: fmt.Sprintf("topic-%05d", n), Partitions: 1,
	}
}

// fill writes about bytes of log.
func (w *world) fill(n *node, bytes int) {
	w.t.Helper()
	for written := 0; written < bytes; written += 1000 {
		_, _, err := n.Owner().Propose(w.t.Context(), &metadata.SetConfigs{
			Resource: metadata.ConfigBroker, Set: map[string]string{"fill": string(make([]byte, 1000))},
		})
		require.NoError(w.t, err)
	}
}

// waitSnapshot waits for a snapshot that the log written so far makes due.
func (w *world) waitSnapshot(n *node) {
	w.t.Helper()
	var index uint64
	_, err := n.Owner().Read(func(s *metadata.State) { index = s.Index() })
	require.NoError(w.t, err)
	w.waitFor("a snapshot", time.Minute, func() bool {
		refs := w.refs()
		return len(refs) > 0 && refs[0].Index >= index
	})
}

// now returns the owner's command time.
func (w *world) now(n *node) (ms int64) {
	w.t.Helper()
	_, err := n.Owner().Read(func(s *metadata.State) { ms = s.Now() })
	require.NoError(w.t, err)
	return ms
}

// names gives the topics that the owner shows.
func (w *world) names(n *node) []string {
	w.t.Helper()
	var all []string
	own := n.Owner()
	require.NotNil(w.t, own)
	_, err := own.Read(func(s *metadata.State) {
		for topic := range s.Topics() {
			all = append(all, topic.Name)
		}
	})
	require.NoError(w.t, err)
	return all
}

func wantNames(n int) []string {
	var all []string
	for i := range n {
		all = append(all, topic(i+1).Name)
	}
	return all
}

func (w *world) refs() []metalog.SnapshotRef {
	w.t.Helper()
	l, _, err := w.store.Open("observer", metalog.Config{})
	require.NoError(w.t, err)
	refs, err := l.Snapshots(w.t.Context())
	require.NoError(w.t, err)
	return refs
}

// smallSnapshots lets snapshots come every few KiB of log.
func smallSnapshots(c *replica.Config) {
	c.SnapshotBytes = 10_000
	c.SnapshotPoll = 100 * time.Millisecond
	c.SnapshotBackoff = 500 * time.Millisecond
	c.Owner.SoftLogBytes, c.Owner.HardLogBytes = 40_000, 80_000
}
