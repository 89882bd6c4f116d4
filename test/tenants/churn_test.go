package tenants

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	churned  = 100
	churners = 8 // virtual clusters that change at once
	// slack is the number of goroutines of all replicas that come and go by themselves: connections of HTTP, of etcd and of the object store.
	slack = 40
)

// TestTenants_Churn makes, suspends, resumes and deletes 100 virtual clusters at random beside two stable ones, which see no error. Afterwards,
// replicas have no metric of the deleted virtual clusters, one goroutine for each Spec, and the keys in etcd that allow an undeletion. After the
// virtual clusters are purged, these goroutines end too, and etcd has no key of them. FRESHET_TENANTS_SEED is the seed.
func TestTenants_Churn(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if set := os.Getenv("FRESHET_TENANTS_SEED"); set != "" {
		var err error
		seed, err = strconv.ParseUint(set, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("FRESHET_TENANTS_SEED=%d", seed)
	p := startPlane(t)
	stable := []*quiet{p.startQuiet(t, "stable-a"), p.startQuiet(t, "stable-b")}
	harness.During(3*time.Second, func() {})
	before, _ := p.goroutines(t)
	for _, q := range stable {
		q.mark("alone")
	}

	began := time.Now()
	all := make([]*tenant, churned)
	lives, ctx := errgroup.WithContext(t.Context())
	lives.SetLimit(churners)
	for i := range all {
		lives.Go(func() (err error) {
			all[i], err = p.live(ctx, rand.New(rand.NewPCG(seed, uint64(i))), fmt.Sprintf("churn-%d", i))
			return err
		})
	}
	require.NoError(t, lives.Wait())
	t.Logf("%d virtual clusters were made and deleted in %s", churned, time.Since(began).Round(time.Millisecond))
	for _, q := range stable {
		q.mark("beside")
	}

	// Each Spec keeps one goroutine of a replica, which waits for the Spec's next change.
	p.awaitGoroutines(t, before, churned*len(p.ControlPlanes))
	p.requireNoMetrics(t, all)
	p.requireKeys(t, all)
	for _, v := range all { // an operator purges the deleted virtual clusters
		_, revision, err := p.directory.Get(t.Context(), v.id)
		require.NoError(t, err)
		removal := p.directory.Removal(v.id, v.name, revision)
		done, err := p.etcd.Txn(t.Context()).If(removal.Cmps...).Then(removal.Ops...).Commit()
		require.NoError(t, err)
		require.True(t, done.Succeeded, v.name)
	}
	p.awaitGoroutines(t, before, 0)
	for key := range p.etcdKeys(t) {
		for _, v := range all {
			require.NotContains(t, key, v.id)
			require.NotContains(t, key+"/", "/"+v.name+"/")
		}
	}
	for _, q := range stable {
		q.end()
		q.mark("afterwards")
	}
}

// live is the life of one virtual cluster. Its sessions end with its suspensions and its deletion.
func (p *plane) live(ctx context.Context, random *rand.Rand, name string) (*tenant, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	v, err := p.create(ctx, name)
	if err != nil {
		return nil, err
	}
	for again := random.IntN(4); ; again-- {
		wait := func() error { return nil }
		if random.IntN(3) > 0 {
			if wait, err = v.visit(ctx); err != nil {
				return nil, err
			}
		}
		rest(ctx, random)
		state := directory.Suspended
		if again == 0 {
			state = directory.Deleted
		}
		if err := v.set(ctx, state); err != nil {
			return nil, err
		}
		if random.IntN(2) > 0 { // else it changes again while the session ends
			if err := wait(); err != nil {
				return nil, fmt.Errorf("the session of %s in state %s: %w", name, state, err)
			}
		}
		if again == 0 {
			return v, nil
		}
		rest(ctx, random)
		if err := v.set(ctx, directory.Active); err != nil {
			return nil, err
		}
	}
}

// rest waits for up to 200 ms.
func rest(ctx context.Context, random *rand.Rand) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(random.IntN(200)) * time.Millisecond):
	}
}

// awaitGoroutines waits until the replicas have their goroutines of before and so many more at most.
func (p *plane) awaitGoroutines(t *testing.T, before, more int) {
	t.Helper()
	n, stacks := 0, ""
	defer func() {
		if t.Failed() {
			t.Logf("%d goroutines, %d at first\n%.16000s", n, before, stacks)
		}
	}()
	harness.Await(t, fmt.Sprintf("replicas have at most %d goroutines more than at first", more+slack), func() bool {
		n, stacks = p.goroutines(t)
		return n <= before+more+slack
	})
	t.Logf("%d goroutines, %d at first", n, before)
}

// requireNoMetrics requires that no series has a name or an id of virtual clusters.
func (p *plane) requireNoMetrics(t *testing.T, all []*tenant) {
	t.Helper()
	shown := ""
	for i, r := range p.ControlPlanes {
		body := ""
		harness.Await(t, fmt.Sprintf("replica %d has no metrics of the virtual clusters", i), func() bool {
			body = p.get(t, r, "/metrics", "")
			return !strings.Contains(body, `"churn-`)
		})
		for _, v := range all {
			require.NotContains(t, body, v.id)
		}
		shown += body
	}
	require.Contains(t, shown, `virtual_cluster="stable-a"`, "of its owner")
}

// requireKeys requires that deleted virtual clusters have only the keys in etcd that an undeletion needs: name, Spec, secret of the agents, and
// the log with the names of its snapshots.
func (p *plane) requireKeys(t *testing.T, all []*tenant) {
	t.Helper()
	var others []string
	log, bytes := 0, 0
	harness.Await(t, "owners of the virtual clusters have left", func() bool {
		others, log, bytes = nil, 0, 0
		ids, names := map[string]bool{}, map[string]bool{}
		for _, v := range all {
			ids[v.id], names[v.name] = true, true
		}
		for key, size := range p.etcdKeys(t) {
			first, rest, _ := strings.Cut(key, "/")
			switch {
			case ids[first] && (rest == "tail" || rest == "snapshots" || strings.HasPrefix(rest, "log/")):
				log, bytes = log+1, bytes+size
			case ids[first], (ids[rest] || names[rest]) && first != "+clusters" && first != "+specs" && first != "+peers":
				others = append(others, key)
			}
		}
		return len(others) == 0
	})
	t.Logf("etcd keeps %d keys of logs with %d bytes of %d deleted virtual clusters", log, bytes, len(all))
	for _, v := range all {
		found, err := p.etcd.Get(t.Context(), p.directory.SpecKey(v.id), clientv3.WithCountOnly())
		require.NoError(t, err)
		require.EqualValues(t, 1, found.Count, "the Spec of %s, with which it could come back", v.name)
	}
}
