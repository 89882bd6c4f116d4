package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/metadata"
)

var errBroken = errors.New("broken")

// bench runs a reconciler without virtual clusters behind it.
type bench struct {
	t      *testing.T
	s      *clusters
	mu     sync.Mutex
	starts map[string]int   // by name
	lives  map[string]int   // by name
	broken map[string]error // by name: the end of the next run, after a second
	apply  func([]directory.Change)
	ended  chan error
	stop   context.CancelFunc
}

// reconciling runs fn beside a reconciler of virtual clusters of the settings.
func reconciling(t *testing.T, names []string, broken map[string]error, fn func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, starts: map[string]int{}, lives: map[string]int{}, broken: broken, ended: make(chan error, 1)}
		ready := func(c *cluster) error {
			if stopped := c.stopped.Load(); stopped != nil {
				return *stopped
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.lives[c.spec.Name] == 0 {
				return errStarts
			}
			return nil
		}
		build := func(spec *directory.Spec) (*cluster, error) {
			own := prometheus.NewRegistry()
			c := &cluster{spec: spec, gathered: own, sessions: session.NewCluster(session.ClusterConfig{Name: spec.Name})}
			own.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "gauge", Help: "h", ConstLabels: prometheus.Labels{"virtual_cluster": spec.Name}}))
			return c, nil
		}
		b.s = newClusters(build, ready, keys.NewSet(), prometheus.NewRegistry(), zap.NewNop())
		b.s.registry.MustRegister(clusterStates{b.s})
		for _, name := range names {
			require.NoError(t, b.s.add(&directory.Spec{Name: name, State: directory.Active}))
		}
		ctx, stop := context.WithCancel(context.Background())
		b.stop = stop
		watch := func(ctx context.Context, apply func([]directory.Change)) {
			b.apply = apply
			<-ctx.Done()
		}
		go func() { b.ended <- b.s.reconcile(ctx, watch, b.run) }()
		defer stop()
		synctest.Wait()
		fn(b)
	})
}

// run is the life of one virtual cluster.
func (b *bench) run(ctx context.Context, c *cluster) error {
	name := c.spec.Name
	b.mu.Lock()
	b.starts[name]++
	b.lives[name]++
	err := b.broken[name]
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lives[name]--
	}()
	if err != nil {
		select {
		case <-time.After(time.Second):
			c.stopped.Store(&err)
			return err
		case <-ctx.Done():
			return nil
		}
	}
	<-ctx.Done()
	return nil
}

func (b *bench) change(all ...directory.Change) {
	b.apply(all)
	synctest.Wait()
}

// mend makes the next runs of a virtual cluster last.
func (b *bench) mend(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.broken, name)
}

func (b *bench) pass(d time.Duration) {
	time.Sleep(d) // sleeps: the clock is fake
	synctest.Wait()
}

func (b *bench) started(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.starts[name]
}

func (b *bench) alive(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lives[name]
}

func specOf(clusterID, name string, state directory.State, key ...string) directory.Change {
	s := &directory.Spec{ID: clusterID, Name: name, State: state, DefaultPartitions: 1}
	for _, k := range key {
		s.Keys = append(s.Keys, directory.Key{Hash: accesskey.HashOf(k), Kind: keys.Agent})
	}
	return directory.Change{ID: clusterID, Spec: s}
}

func (b *bench) list() string {
	text := ""
	for _, l := range b.s.list() {
		text += fmt.Sprintf("%s %s %s %s %s\n", l.VirtualCluster, l.ClusterID, l.Source, l.State, l.Fault)
	}
	return text
}

// gauges returns the number of virtual clusters that have metrics.
func (b *bench) gauges() (n int) {
	families, err := b.s.Gather()
	require.NoError(b.t, err)
	for _, f := range families {
		if f.GetName() == "gauge" {
			n = len(f.GetMetric())
		}
	}
	return n
}

// TestReconcile_Changes: each kind of change of a Spec in etcd.
func TestReconcile_Changes(t *testing.T) {
	reconciling(t, []string{"one"}, nil, func(b *bench) {
		require.Len(t, b.s.unready(), 1, "etcd is not read yet")
		b.change()
		require.Empty(t, b.s.unready())
		_, err := b.s.session("two")
		require.ErrorIs(t, err, session.ErrNotServed)

		b.change(specOf("id2", "two", directory.Active, "k"))
		require.Equal(t, 1, b.alive("two"))
		grant := b.s.keys.Grant("k")
		require.Equal(t, "two", grant.VirtualCluster)
		_, err = b.s.session("two")
		require.NoError(t, err)
		require.Equal(t, 2, b.gauges())

		b.change(specOf("id2", "two", directory.Active, "k", "l"))
		require.Same(t, grant, b.s.keys.Grant("k"))
		require.NotNil(t, b.s.keys.Grant("l"))
		require.Equal(t, 1, b.started("two"), "new keys need no start")
		b.change(specOf("id2", "two", directory.Active, "l"))
		require.Error(t, grant.Revoked().Err())

		limited := specOf("id2", "two", directory.Active, "l")
		limited.Spec.DefaultPartitions = 3
		b.change(limited)
		require.Equal(t, 2, b.started("two"))
		require.Equal(t, 1, b.alive("two"))

		b.change(specOf("id2", "two", directory.Suspended, "l"))
		require.Zero(t, b.alive("two"))
		_, err = b.s.session("two")
		require.NotErrorIs(t, err, session.ErrNotServed, "agents wait")
		require.EqualError(t, err, "is suspended: resume it with `freshet ctl cluster resume`, or ask the operator if it is blocked")
		require.NotNil(t, b.s.keys.Grant("l"), "agents get the reason")
		require.Equal(t, "one  settings active \ntwo id2 etcd suspended \n", b.list())
		require.Equal(t, 1, b.gauges())

		b.change(specOf("id2", "renamed", directory.Active, "l"))
		require.Equal(t, "renamed", b.s.keys.Grant("l").VirtualCluster)
		require.Nil(t, b.s.find("two"))
		require.Equal(t, 1, b.alive("renamed"))

		b.change(directory.Change{ID: "id2", Fault: directory.ErrNewer})
		require.Zero(t, b.alive("renamed"))
		require.Nil(t, b.s.keys.Grant("l"))
		require.Contains(t, b.list(), " id2 etcd  a newer program wrote")
		require.Len(t, b.s.warnings(), 1)
		require.Empty(t, b.s.unready())

		b.change(directory.Change{ID: "id2"})
		require.Equal(t, "one  settings active \n", b.list())
		b.change(directory.Change{ID: "id2"}, directory.Change{ID: "never"})
		b.change(specOf("id2", "two", directory.Active, "k"))
		require.Equal(t, 3, b.started("two"))
		require.Equal(t, 1, b.started("one"))
		require.Equal(t, 1, b.alive("one"))
	})
}

// TestReconcile_Taken: names and keys of other virtual clusters.
func TestReconcile_Taken(t *testing.T) {
	reconciling(t, []string{"one"}, nil, func(b *bench) {
		b.change(specOf("id1", "one", directory.Active), specOf("id2", "two", directory.Active, "k"), specOf("id3", "two", directory.Active, "l"),
			specOf("id4", "four", directory.Active, "k", "m"))
		require.Equal(t, 1, b.started("one"))
		require.Equal(t, 1, b.started("two"))
		require.Zero(t, b.started("four"))
		require.Nil(t, b.s.keys.Grant("l"))
		require.Nil(t, b.s.keys.Grant("m"), "none of its keys")
		require.Equal(t, "two", b.s.keys.Grant("k").VirtualCluster)
		list := b.list()
		require.Contains(t, list, "virtual cluster one with cluster id id1: the name is also in --virtual-cluster")
		require.Contains(t, list, "virtual cluster two with cluster id id3: another virtual cluster has this name or id")
		require.Contains(t, list, "virtual cluster four with cluster id id4: key with SHA-256")
		b.change(specOf("id4", "four", directory.Active, "m"))
		require.Equal(t, 1, b.alive("four"))
	})
}

// TestReconcile_Restarts: a virtual cluster that ends starts again after a growing pause, beside others.
func TestReconcile_Restarts(t *testing.T) {
	broken := map[string]error{"two": errBroken, "three": errBroken}
	reconciling(t, []string{"one", "two"}, broken, func(b *bench) {
		b.change(specOf("id3", "three", directory.Active))
		starts := []int{b.started("two")}
		for range 4 {
			b.pass(30 * time.Second)
			starts = append(starts, b.started("two"))
		}
		require.Equal(t, []int{1, 3, 4, 5, 5}, starts, "starts after 6, 17, 38 and 79 seconds")
		require.Equal(t, b.started("two"), b.started("three"))
		require.Equal(t, 1, b.started("one"))
		b.pass(10 * time.Minute)
		require.Contains(t, b.list(), "broken")

		b.mend("three")
		b.change(specOf("id3", "three", directory.Active, "key"))
		require.Equal(t, 1, b.alive("three"), "a change ends the pause")
		b.mend("two")
		b.pass(time.Minute)
		require.Equal(t, 1, b.alive("two"))
		require.NotContains(t, b.list(), "broken")
		counts := map[string]float64{}
		families, err := b.s.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "freshet_controlplane_virtual_clusters" {
				for _, m := range f.GetMetric() {
					counts[label(m)] = m.GetGauge().GetValue()
				}
			}
		}
		require.Equal(t, map[string]float64{"active": 3, "suspended": 0, "deleted": 0, "failed": 0}, counts)
	})
}

func label(m *dto.Metric) string { return m.GetLabel()[0].GetValue() }

// TestReconcile_EndsWithoutAny: the process ends if no virtual cluster of the settings is left and etcd has none.
func TestReconcile_EndsWithoutAny(t *testing.T) {
	broken := map[string]error{"one": errBroken, "two": errBroken}
	reconciling(t, []string{"one", "two"}, broken, func(b *bench) {
		b.change()
		b.pass(2 * time.Second)
		require.EqualError(t, <-b.ended, "broken\nbroken")
		require.Zero(t, b.alive("one")+b.alive("two"))
	})
	reconciling(t, []string{"one"}, broken, func(b *bench) {
		b.change(specOf("id2", "other", directory.Active))
		b.pass(time.Minute)
		require.Empty(t, b.ended)
		require.Equal(t, 1, b.alive("other"))
		b.stop()
		require.NoError(t, <-b.ended)
	})
}

// TestReconcile_RecreatedInOneList: Watch lists after a break, and the removal of the former owner of name and key comes last.
func TestReconcile_RecreatedInOneList(t *testing.T) {
	reconciling(t, []string{"one"}, nil, func(b *bench) {
		b.change(specOf("id2", "two", directory.Active, "k"))
		b.change(specOf("id3", "two", directory.Active, "k"), directory.Change{ID: "id2"})
		b.pass(10 * time.Minute)
		require.Equal(t, 1, b.alive("two"), b.list())
	})
}

// TestReconcile_MovedKeyInOneList: a key leaves a virtual cluster and comes to one that the list has earlier.
func TestReconcile_MovedKeyInOneList(t *testing.T) {
	reconciling(t, []string{"one"}, nil, func(b *bench) {
		b.change(specOf("id2", "two", directory.Active, "l"), specOf("id3", "three", directory.Active, "k", "m"))
		b.change(specOf("id2", "two", directory.Active, "l", "k"), specOf("id3", "three", directory.Active, "m"))
		b.pass(10 * time.Minute)
		require.Equal(t, 1, b.alive("two"), b.list())
		require.NotNil(t, b.s.keys.Grant("l"))
	})
}

// TestReconcile_FreedLater: name and key become free after the Spec that needs them has come.
func TestReconcile_FreedLater(t *testing.T) {
	reconciling(t, []string{"one"}, nil, func(b *bench) {
		b.change(specOf("id2", "two", directory.Active, "k"))
		b.change(specOf("id3", "two", directory.Active, "l"), specOf("id4", "four", directory.Active, "k"))
		b.change(directory.Change{ID: "id2"})
		b.pass(10 * time.Minute)
		require.Equal(t, 1, b.alive("two"), b.list())
		require.Equal(t, 1, b.alive("four"), b.list())
	})
}

// TestReconcile_TwoReplicasAgree: one replica follows the changes, another one starts later and lists them.
func TestReconcile_TwoReplicasAgree(t *testing.T) {
	var opens []string
	reconciling(t, []string{"one"}, nil, func(b *bench) {
		b.change(specOf("id9", "nine", directory.Active, "k"))
		b.change(specOf("id1", "first", directory.Active, "k"))
		opens = append(opens, b.s.keys.Grant("k").VirtualCluster)
	})
	reconciling(t, []string{"one"}, nil, func(b *bench) {
		b.change(specOf("id1", "first", directory.Active, "k"), specOf("id9", "nine", directory.Active, "k"))
		opens = append(opens, b.s.keys.Grant("k").VirtualCluster)
	})
	require.Equal(t, opens[0], opens[1], "one key opens different virtual clusters on two replicas")
}

// TestReconcile_EndsBeforeTheList: all of the settings fail before the first list of etcd.
func TestReconcile_EndsBeforeTheList(t *testing.T) {
	reconciling(t, []string{"one"}, map[string]error{"one": errBroken}, func(b *bench) {
		b.pass(2 * time.Second)
		require.Empty(t, b.ended, "etcd may have virtual clusters")
	})
}

// custom runs fn beside a reconciler with functions for ready and run.
func custom(t *testing.T, names []string, ready func(*cluster) error, run func(context.Context, *cluster) error,
	fn func(t *testing.T, s *clusters, apply func(...directory.Change), ended chan error),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		build := func(spec *directory.Spec) (*cluster, error) {
			own := prometheus.NewRegistry()
			c := &cluster{spec: spec, gathered: own, sessions: session.NewCluster(session.ClusterConfig{Name: spec.Name})}
			own.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "gauge", Help: "h", ConstLabels: prometheus.Labels{"virtual_cluster": spec.Name}}))
			return c, nil
		}
		s := newClusters(build, ready, keys.NewSet(), prometheus.NewRegistry(), zap.NewNop())
		for _, name := range names {
			require.NoError(t, s.add(&directory.Spec{Name: name, State: directory.Active}))
		}
		ctx, stop := context.WithCancel(context.Background())
		var apply func([]directory.Change)
		ended := make(chan error, 1)
		go func() {
			ended <- s.reconcile(ctx, func(ctx context.Context, a func([]directory.Change)) { apply = a; <-ctx.Done() }, run)
		}()
		defer func() {
			stop()
			time.Sleep(time.Minute) // sleeps: for runs that end slowly
		}()
		synctest.Wait()
		fn(t, s, func(all ...directory.Change) { apply(all); synctest.Wait() }, ended)
	})
}

// TestReconcile_OldFaultCounts: one failed an hour ago and was ready since. It has no owner for a moment while two fails for the first time.
func TestReconcile_OldFaultCounts(t *testing.T) {
	var ownerless, brokenTwo atomic.Bool
	var starts atomic.Int64
	ready := func(c *cluster) error {
		if stopped := c.stopped.Load(); stopped != nil {
			return *stopped
		}
		if c.spec.Name == "one" && ownerless.Load() {
			return errNoOwner
		}
		return nil
	}
	run := func(ctx context.Context, c *cluster) error {
		if c.spec.Name == "one" && starts.Add(1) == 1 {
			c.stopped.Store(&errBroken)
			return errBroken
		}
		for ctx.Err() == nil {
			time.Sleep(time.Second) // sleeps: the clock is fake
			if c.spec.Name == "two" && brokenTwo.Load() {
				c.stopped.Store(&errBroken)
				return errBroken
			}
		}
		return nil
	}
	custom(t, []string{"one", "two"}, ready, run, func(t *testing.T, s *clusters, apply func(...directory.Change), ended chan error) {
		t.Helper()
		apply()
		time.Sleep(time.Hour) // sleeps: the clock is fake
		require.Empty(t, s.unready())
		ownerless.Store(true)
		brokenTwo.Store(true)
		time.Sleep(2 * time.Second) // sleeps: the clock is fake
		synctest.Wait()
		require.Empty(t, ended, "one runs for an hour, and the process ends")
	})
}

// TestReconcile_Limits: other limits reach a virtual cluster while it runs, also if they change while it starts. Other memory restarts it.
func TestReconcile_Limits(t *testing.T) {
	starts, newest := 0, (*cluster)(nil)
	run := func(ctx context.Context, c *cluster) error {
		if c.spec.Name == "two" {
			starts, newest = starts+1, c
		}
		<-ctx.Done()
		return nil
	}
	custom(t, []string{"one"}, func(*cluster) error { return nil }, run, func(t *testing.T, s *clusters, apply func(...directory.Change), _ chan error) {
		t.Helper()
		limit := func(memory, topics int64) {
			c := specOf("id2", "two", directory.Active)
			c.Spec.Memory, c.Spec.Limits[metadata.LimitTopics] = memory, topics
			apply(c)
		}
		requireTopics := func(wantStarts int, want int64) {
			t.Helper()
			synctest.Wait()
			require.Equal(t, wantStarts, starts)
			require.Equal(t, want, newest.limited.Load().Limits[metadata.LimitTopics])
		}
		build := s.build
		s.build = func(spec *directory.Spec) (*cluster, error) {
			time.Sleep(time.Second) // sleeps: the clock is fake
			return build(spec)
		}
		limit(1, 5)
		limit(1, 6)
		time.Sleep(2 * time.Second) // sleeps: the clock is fake
		requireTopics(1, 6)
		limit(1, 7)
		requireTopics(1, 7)
		limit(2, 8)
		limit(2, 9)
		time.Sleep(2 * time.Second) // sleeps: the clock is fake
		requireTopics(2, 9)
	})
}

// TestReconcile_ChangedWhileItFails: a Spec changes while its virtual cluster, which has failed, stops.
func TestReconcile_ChangedWhileItFails(t *testing.T) {
	var starts atomic.Int64
	run := func(ctx context.Context, c *cluster) error {
		if c.spec.Name != "two" {
			<-ctx.Done()
			return nil
		}
		if starts.Add(1) > 1 {
			<-ctx.Done()
			return nil
		}
		time.Sleep(2 * time.Second) // sleeps: it fails after a second, and takes a second to hand over
		c.stopped.Store(&errBroken)
		return errBroken
	}
	custom(t, []string{"one"}, func(*cluster) error { return nil }, run, func(t *testing.T, s *clusters, apply func(...directory.Change), _ chan error) {
		t.Helper()
		apply(specOf("id2", "two", directory.Active))
		time.Sleep(1500 * time.Millisecond) // sleeps: the clock is fake
		limited := specOf("id2", "two", directory.Active)
		limited.Spec.DefaultPartitions = 3
		apply(limited)
		time.Sleep(time.Second) // sleeps: the clock is fake
		synctest.Wait()
		require.Equal(t, int64(2), starts.Load(), "the changed Spec waits for the pause of the former")
	})
}

// TestReconcile_MetricsOfAnInheritedName: a virtual cluster whose newest value is invalid stops slowly, and another one has its name.
func TestReconcile_MetricsOfAnInheritedName(t *testing.T) {
	run := func(ctx context.Context, c *cluster) error {
		<-ctx.Done()
		if c.spec.ID == "id2" {
			time.Sleep(10 * time.Second) // sleeps: it hands over
		}
		return nil
	}
	custom(t, []string{"one"}, func(*cluster) error { return nil }, run, func(t *testing.T, s *clusters, apply func(...directory.Change), _ chan error) {
		t.Helper()
		apply(specOf("id2", "two", directory.Active))
		apply(directory.Change{ID: "id2", Fault: directory.ErrNewer})
		apply(specOf("id3", "two", directory.Active))
		_, err := s.Gather()
		time.Sleep(time.Minute) // sleeps: the clock is fake
		require.NoError(t, err, "/metrics of the whole process answers 500")
	})
}
