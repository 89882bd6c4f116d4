package etcdlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap/zaptest"

	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

// maintain runs a maintainer until the test ends.
func maintain(t *testing.T, client *clientv3.Client, replica string) *prometheus.Registry {
	t.Helper()
	return maintainWith(t, etcdlog.MaintainerConfig{Client: client, Replica: replica})
}

func maintainWith(t *testing.T, cfg etcdlog.MaintainerConfig) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewRegistry()
	cfg.Check, cfg.Registerer, cfg.Logger = 50*time.Millisecond, reg, zaptest.NewLogger(t)
	if cfg.Compact == 0 {
		cfg.Compact = 50 * time.Millisecond
	}
	if cfg.History == 0 {
		cfg.History = 50 * time.Millisecond
	}
	m, err := etcdlog.NewMaintainer(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return reg
}

func counter(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// One of two maintainers compacts, even if their key has a value without a lease.
func TestMaintainer_OneCompacts(t *testing.T) {
	client := startEtcd(t, nil)
	_, err := client.Put(t.Context(), "/freshet/v1/maintainer", "somebody")
	require.NoError(t, err)
	a, b := maintain(t, client, "a"), maintain(t, client, "b")
	const name = "freshet_etcd_compactions_total"
	for n := 0; counter(t, a, name)+counter(t, b, name) < 2; n++ {
		_, err := client.Put(t.Context(), "key", fmt.Sprint(n))
		require.NoError(t, err)
	}
	_, err = client.Get(t.Context(), "key", clientv3.WithRev(2))
	require.ErrorContains(t, err, "compacted")
	require.Zero(t, min(counter(t, a, name), counter(t, b, name)), "only the elected one does")
}

// countedStatus counts the answers about a member's size, of which each check asks for one.
type countedStatus struct {
	clientv3.Maintenance
	answers atomic.Int64
}

func (c *countedStatus) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	defer c.answers.Add(1)
	return c.Maintenance.Status(ctx, endpoint)
}

// Between the timed compactions, growth of the data in use makes one due, counted from what the last one left: a log
// that is appended to and trimmed at a steady rate stays small.
func TestMaintainer_CompactsAfterGrowth(t *testing.T) {
	client := startEtcd(t, nil)
	checks := &countedStatus{Maintenance: client.Maintenance}
	client.Maintenance = checks
	const each, growth = 16 << 10, 4 << 20
	reg := maintainWith(t, etcdlog.MaintainerConfig{Client: client, Replica: "a", Compact: time.Hour, CompactBytes: growth})
	value := strings.Repeat("x", each)
	const compactions = "freshet_etcd_compactions_total"
	written := 0
	for n := 1.0; n <= 8; n++ {
		written = 0
		for counter(t, reg, compactions) < n {
			_, err := client.Put(t.Context(), "tail", value)
			require.NoError(t, err)
			if written += each; written%(growth/4) == 0 {
				seen := checks.answers.Load() + 2 // the first may have been asked for before
				require.Eventually(t, func() bool { return checks.answers.Load() >= seen }, time.Minute, time.Millisecond)
			}
		}
	}
	// The eighth compaction is due after the growth and the writes around the checks before it. If growth counted from
	// the bytes in use before a compaction, each compaction would come later than the one before.
	require.Less(t, written, 3*growth)
}

// Free space is given back only when little is in use: a member serves nothing while it is rewritten.
func TestMaintainer_DefragmentsWhenLittleIsInUse(t *testing.T) {
	client := startEtcd(t, nil)
	value := strings.Repeat("x", 256<<10)
	for n := range 90 { // 8 MiB stay in use, 15 become history
		_, err := client.Put(t.Context(), fmt.Sprint(min(n, 30)), value)
		require.NoError(t, err)
	}
	reg := maintainWith(t, etcdlog.MaintainerConfig{Client: client, Replica: "a", DefragBytes: 1 << 20, DefragInUse: 4 << 20})
	const compactions, defrags = "freshet_etcd_compactions_total", "freshet_etcd_defragmentations_total"
	await := func(done func() bool) {
		t.Helper()
		for n := 0; !done(); n++ {
			_, err := client.Put(t.Context(), "key", fmt.Sprint(n)) // so that there is something to compact
			require.NoError(t, err)
		}
	}
	status := func() *clientv3.StatusResponse {
		t.Helper()
		status, err := client.Status(t.Context(), client.Endpoints()[0])
		require.NoError(t, err)
		return status
	}
	await(func() bool { s := status(); return s.DbSizeInUse < s.DbSize/2 })
	looked := counter(t, reg, compactions)
	await(func() bool { return counter(t, reg, compactions) >= looked+2 })
	require.Zero(t, counter(t, reg, defrags), "8 MiB would have to be rewritten")
	_, err := client.Delete(t.Context(), "1", clientv3.WithRange("9"))
	require.NoError(t, err)
	await(func() bool { return counter(t, reg, defrags) >= 1 })
	require.Less(t, status().DbSize, int64(8<<20))
}

// A log fills etcd's quota. Its owner can neither append nor point to snapshots, but keeps its tenure; the maintainer
// trims to the second newest snapshot, compacts, defragments and disarms, and the append that waited goes through. Another
// virtual cluster whose pointers cannot be read does not keep it from that, and neither does the age of the history.
func TestMaintainer_HealsNoSpace(t *testing.T) {
	client := startEtcd(t, func(c *embed.Config) { c.QuotaBackendBytes = 8 << 20 })
	_, err := client.Put(t.Context(), "/freshet/v1/broken/snapshots", "no list")
	require.NoError(t, err)
	l := openLog(t, client, "main", metalog.Config{})
	tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: "r1"})
	require.NoError(t, err)
	defer func() { require.NoError(t, tenure.Resign(context.Background())) }()
	require.NoError(t, tenure.SetSnapshots(t.Context(), []metalog.SnapshotRef{{Index: 12}, {Index: 10}}))

	payload := make([]byte, 256<<10)
	for index := uint64(1); ; index++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := client.Put(ctx, "probe", "")
		cancel()
		if err != nil {
			require.ErrorContains(t, err, "space")
			break
		}
		require.Less(t, index, uint64(100))
		if index > 20 {
			// Beyond what the log needs live: history, which only compaction gives back.
			_, err = client.Put(t.Context(), "history", string(payload))
			if err == nil {
				index--
				continue
			}
			require.ErrorContains(t, err, "space")
			break
		}
		_, err = tenure.Append(t.Context(), index, payload)
		require.NoError(t, err)
	}
	require.True(t, tenure.Valid())
	next := tenure.Bytes()/int64(len(payload)) + 1
	appended := make(chan error, 1)
	go func() {
		_, err := tenure.Append(context.Background(), uint64(next), []byte("waits"))
		appended <- err
	}()
	reg := maintainWith(t, etcdlog.MaintainerConfig{Client: client, Replica: "r1", History: time.Hour})
	select {
	case err := <-appended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("not healed")
	}
	require.GreaterOrEqual(t, counter(t, reg, "freshet_etcd_nospace_heals_total"), 1.0)
	_, _, err = l.Read(t.Context(), 10, 1)
	require.ErrorIs(t, err, metalog.ErrTrimmed)
	entries, _, err := l.Read(t.Context(), 11, 1)
	require.NoError(t, err)
	require.EqualValues(t, 11, entries[0].Index)
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestCheck_FindsSmallQuotasAndSilentMembers(t *testing.T) {
	small := startEtcd(t, func(c *embed.Config) { c.QuotaBackendBytes = 8 << 20 })
	silent, faults := etcdlog.Check(t.Context(), small)
	require.Empty(t, silent)
	require.ErrorContains(t, faults, "quota")
	silent, faults = etcdlog.Check(t.Context(), startEtcd(t, nil))
	require.Empty(t, silent)
	require.NoError(t, faults)
	down, err := etcdlog.NewClient(etcdlog.ClientConfig{Endpoints: []string{"127.0.0.1:1"}})
	require.NoError(t, err)
	defer down.Close()
	silent, faults = etcdlog.Check(t.Context(), down)
	require.Equal(t, []string{"127.0.0.1:1"}, silent)
	require.NoError(t, faults)
}

// TestFullness: the data in use decides, and the file only near the quota.
func TestFullness(t *testing.T) {
	for _, c := range []struct {
		inUse, file, quota int64
		want               float64
	}{
		{300, 300, 1000, 0.3}, {300, 800, 1000, 0.55}, {700, 800, 1000, 0.7}, {100, 1000, 1000, 0.75}, {900, 900, 0, 0}, {900, 900, -1, 0},
	} {
		st := &clientv3.StatusResponse{DbSizeInUse: c.inUse, DbSize: c.file, DbSizeQuota: c.quota}
		require.InDelta(t, c.want, etcdlog.Fullness(st), 1e-9, "%+v", c)
	}
}

// TestMaintainer_CompactsWhileCrowded: neither time nor growth makes a compaction due, and history fills the quota.
func TestMaintainer_CompactsWhileCrowded(t *testing.T) {
	const quota, each = 16 << 20, 256 << 10
	client := startEtcd(t, func(c *embed.Config) { c.QuotaBackendBytes = quota })
	reg := maintainWith(t, etcdlog.MaintainerConfig{Client: client, Replica: "a", Compact: time.Hour, CompactBytes: 1 << 40})
	const compactions = "freshet_etcd_compactions_total"
	require.Eventually(t, func() bool { // the first check of a maintainer compacts
		_, err := client.Put(t.Context(), "first", "")
		require.NoError(t, err)
		return counter(t, reg, compactions) == 1
	}, time.Minute, 10*time.Millisecond)
	value := strings.Repeat("x", each)
	for written := 0; written < quota*6/10; written += each {
		if written <= quota/2 { // each value takes more than its bytes in the file, so the last ones may crowd it
			require.EqualValues(t, 1, counter(t, reg, compactions), "%d bytes", written)
		}
		_, err := client.Put(t.Context(), "history", value)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		_, err := client.Put(t.Context(), "later", "")
		require.NoError(t, err)
		st, err := client.Status(t.Context(), client.Endpoints()[0])
		require.NoError(t, err)
		return counter(t, reg, compactions) > 1 && st.DbSizeInUse < quota/5
	}, time.Minute, 10*time.Millisecond)
}

// TestMaintainer_KeepsHistoryWhileCrowded: lists and watches read at revisions of the last 10 s, here of the last hour.
func TestMaintainer_KeepsHistoryWhileCrowded(t *testing.T) {
	const quota = 16 << 20
	client := startEtcd(t, func(c *embed.Config) { c.QuotaBackendBytes, c.BackendBatchLimit = quota, 1 })
	checks := &countedStatus{Maintenance: client.Maintenance}
	client.Maintenance = checks
	old, err := client.Put(t.Context(), "key", "old")
	require.NoError(t, err)
	for fullness(t, client, "") < etcdlog.CrowdedFrom {
		_, err := client.Put(t.Context(), "key", strings.Repeat("x", 256<<10))
		require.NoError(t, err)
	}
	reg := maintainWith(t, etcdlog.MaintainerConfig{Client: client, Replica: "a", History: time.Hour})
	seen := checks.answers.Load() + 10
	for checks.answers.Load() < seen {
		_, err := client.Put(t.Context(), "later", "")
		require.NoError(t, err)
	}
	read, err := client.Get(t.Context(), "key", clientv3.WithRev(old.Header.Revision))
	require.NoError(t, err)
	require.Equal(t, "old", string(read.Kvs[0].Value))
	require.Zero(t, counter(t, reg, "freshet_etcd_compactions_total"))
}

// shortLease grants elections of 3 s.
type shortLease struct{ clientv3.Lease }

func (l shortLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	if ttl < 60 {
		ttl = 3
	}
	return l.Lease.Grant(ctx, ttl)
}

// heldDefrag holds defragmentations until release is closed, and counts them and the checks of members.
type heldDefrag struct {
	countedStatus
	release chan struct{}
	err     error // of defragmentations, if set
	begun   atomic.Int64
}

func (d *heldDefrag) Defragment(ctx context.Context, endpoint string) (*clientv3.DefragmentResponse, error) {
	d.begun.Add(1)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-d.release:
	}
	if d.err != nil {
		return nil, d.err
	}
	return d.countedStatus.Defragment(ctx, endpoint)
}

// startHeldDefrag starts maintainers of a member, and returns once one of them defragments it, with the key of the elected one.
func startHeldDefrag(t *testing.T, held *heldDefrag, replicas ...string) (client *clientv3.Client, elected *mvccpb.KeyValue) {
	t.Helper()
	client = startEtcd(t, nil)
	held.countedStatus.Maintenance = client.Maintenance
	client.Lease, client.Maintenance = shortLease{client.Lease}, held
	value := strings.Repeat("x", 256<<10)
	for range 20 {
		_, err := client.Put(t.Context(), "history", value)
		require.NoError(t, err)
	}
	for _, replica := range replicas {
		maintainWith(t, etcdlog.MaintainerConfig{Client: client, Replica: replica, DefragBytes: 1 << 20})
	}
	awaitWriting(t, client, func() bool { return held.begun.Load() > 0 })
	return client, keyOf(t, client, "/maintainer")
}

// keyOf returns a key of maintainers, or nil if it is absent.
func keyOf(t *testing.T, client *clientv3.Client, name string) *mvccpb.KeyValue {
	t.Helper()
	got, err := client.Get(t.Context(), etcdlog.DefaultPrefix+name)
	require.NoError(t, err)
	if len(got.Kvs) == 0 {
		return nil
	}
	return got.Kvs[0]
}

// TestMaintainer_OneDefragmentationAtATime: if a defragmentation takes longer than the election's term, another maintainer is elected, and begins none.
func TestMaintainer_OneDefragmentationAtATime(t *testing.T) {
	held := &heldDefrag{release: make(chan struct{})}
	client, elected := startHeldDefrag(t, held, "a", "b")
	require.Eventually(t, func() bool {
		now := keyOf(t, client, "/maintainer")
		return now != nil && string(now.Value) != string(elected.Value)
	}, time.Minute, 10*time.Millisecond)
	checked := held.answers.Load() + 3
	awaitWriting(t, client, func() bool { return held.answers.Load() >= checked })
	require.EqualValues(t, 1, held.begun.Load(), "two members may be defragmented at once")
	require.Equal(t, elected.Value, keyOf(t, client, "/defragmentation").Value)
	close(held.release)
	require.Eventually(t, func() bool { return keyOf(t, client, "/defragmentation") == nil }, time.Minute, 10*time.Millisecond)
}

// TestMaintainer_WaitsAfterAFailedDefragmentation: etcd goes on with a defragmentation whose request has failed, so the next one waits until the claim
// of the first has ended.
func TestMaintainer_WaitsAfterAFailedDefragmentation(t *testing.T) {
	held := &heldDefrag{release: make(chan struct{}), err: errors.New("connection lost")}
	close(held.release)
	client, _ := startHeldDefrag(t, held, "a")
	checked := held.answers.Load() + 5
	awaitWriting(t, client, func() bool { return held.answers.Load() >= checked })
	require.EqualValues(t, 1, held.begun.Load())
	_, err := client.Revoke(t.Context(), clientv3.LeaseID(keyOf(t, client, "/defragmentation").Lease))
	require.NoError(t, err)
	awaitWriting(t, client, func() bool { return held.begun.Load() > 1 })
}
