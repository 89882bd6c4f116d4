package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
			c := &cluster{spec: spec, gathered: prometheus.NewRegistry(), sessions: session.NewCluster(session.ClusterConfig{Name: spec.Name})}
			c.gathered.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "gauge", Help: "h", ConstLabels: prometheus.Labels{"virtual_cluster": spec.Name}}))
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
		require.ErrorIs(t, err, session.ErrNotServed)
		require.EqualError(t, err, "is suspended: is not served for this key")
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
		require.Contains(t, list, "virtual cluster one with cluster id id1: --virtual-cluster names it too")
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
