package etcdlog_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

// Sizes of the tests: a member is crowded by its file alone from 85 % of the quota on, and inUse is more than the maintainer rewrites otherwise.
const (
	smallQuota = 64 << 20
	inUse      = 8 << 20
	valueBytes = 256 << 10
)

// seenMaintenance records the checks and defragmentations of a maintainer.
type seenMaintenance struct {
	clientv3.Maintenance
	mu      sync.Mutex
	silent  string                      // the endpoint of a member that does not answer
	checks  int                         // answers about the size of the first endpoint
	defrags []string                    // endpoints in the order of their defragmentations
	led     int                         // defragmentations of a leader
	fail    func(endpoint string) error // if set, returns the error of a defragmentation that etcd does not begin
}

func (s *seenMaintenance) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if endpoint == s.silent {
		return nil, errors.New("silent")
	}
	s.checks++
	return s.Maintenance.Status(ctx, endpoint)
}

func (s *seenMaintenance) Defragment(ctx context.Context, endpoint string) (*clientv3.DefragmentResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(endpoint); err != nil {
			return nil, err
		}
	}
	before, err := s.Maintenance.Status(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	if s.defrags = append(s.defrags, endpoint); before.Leader == before.Header.MemberId {
		s.led++
	}
	return s.Maintenance.Defragment(ctx, endpoint)
}

// seen returns the defragmentations so far.
func (s *seenMaintenance) seen() (defrags []string, led int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.defrags), s.led
}

// awaitChecks waits for further answers.
func (s *seenMaintenance) awaitChecks(t *testing.T, more int) {
	t.Helper()
	count := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.checks
	}
	until := count() + more
	require.Eventually(t, func() bool { return count() >= until }, time.Minute, time.Millisecond)
}

// fullness returns the fullness of a member, "" for the only one.
func fullness(t *testing.T, client *clientv3.Client, endpoint string) float64 {
	t.Helper()
	if endpoint == "" {
		endpoint = client.Endpoints()[0]
	}
	status, err := client.Status(t.Context(), endpoint)
	require.NoError(t, err)
	return etcdlog.Fullness(status)
}

// small gives a member a small quota, and sizes that are known after each write.
func small(c *embed.Config) { c.QuotaBackendBytes, c.BackendBatchLimit = smallQuota, 1 }

// bloat has the files of all members grow until they crowd them, and removes all but inUse.
func bloat(t *testing.T, client *clientv3.Client) {
	t.Helper()
	value := strings.Repeat("x", valueBytes)
	for n := 0; ; n++ {
		crowded := true // all members, with room for the writes of a test
		for _, endpoint := range client.Endpoints() {
			st, err := client.Status(t.Context(), endpoint)
			require.NoError(t, err)
			crowded = crowded && st.DbSize > smallQuota*87/100
		}
		if crowded {
			break
		}
		_, err := client.Put(t.Context(), fmt.Sprintf("%04d", n), value)
		require.NoError(t, err)
	}
	_, err := client.Delete(t.Context(), fmt.Sprintf("%04d", inUse/valueBytes), clientv3.WithRange("9999"))
	require.NoError(t, err)
}

// awaitWriting writes until done. etcd counts pages that a compaction has freed with the next writes. A write may fail while the leader changes.
func awaitWriting(t *testing.T, client *clientv3.Client, done func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := client.Put(t.Context(), "later", "")
		return err == nil && done()
	}, time.Minute, 10*time.Millisecond)
}

// compacted reports whether little of a member's file is in use.
func compacted(t *testing.T, client *clientv3.Client) bool {
	t.Helper()
	st, err := client.Status(t.Context(), client.Endpoints()[0])
	return err == nil && st.DbSizeInUse < smallQuota/2
}

// maintainBloated runs a maintainer that defragments no member because of its free space.
func maintainBloated(t *testing.T, client *clientv3.Client) *seenMaintenance {
	t.Helper()
	seen := &seenMaintenance{Maintenance: client.Maintenance}
	client.Maintenance = seen
	maintainWith(t, etcdlog.MaintainerConfig{Client: client, Replica: "a", DefragInUse: inUse / 2, DefragBytes: 1 << 20})
	return seen
}

// TestMaintainer_DefragmentsAMemberCrowdedByItsFile: much is in use, and only a smaller file ends the crowding. A file that grows again soon waits.
func TestMaintainer_DefragmentsAMemberCrowdedByItsFile(t *testing.T) {
	client := startEtcd(t, small)
	bloat(t, client)
	require.GreaterOrEqual(t, fullness(t, client, ""), etcdlog.CrowdedFrom)
	seen := maintainBloated(t, client)
	awaitWriting(t, client, func() bool { return fullness(t, client, "") < 0.5 })
	bloat(t, client)
	awaitWriting(t, client, func() bool { return compacted(t, client) })
	require.GreaterOrEqual(t, fullness(t, client, ""), etcdlog.CrowdedFrom)
	seen.awaitChecks(t, 10)
	defrags, _ := seen.seen()
	require.Len(t, defrags, 1, "the second one waits for minutes")
}

// TestMaintainer_DefragmentsNoLeader: each member once, and none while it is the leader.
func TestMaintainer_DefragmentsNoLeader(t *testing.T) {
	client := startMembers(t, 3, small)
	bloat(t, client)
	seen := maintainBloated(t, client)
	awaitWriting(t, client, func() bool {
		return !slices.ContainsFunc(client.Endpoints(), func(endpoint string) bool { return fullness(t, client, endpoint) >= 0.5 })
	})
	defrags, led := seen.seen()
	require.ElementsMatch(t, client.Endpoints(), defrags)
	require.Zero(t, led)
}

// TestMaintainer_DefragmentsNoneWhileAMemberIsDown: one more member that stands still would leave no quorum.
func TestMaintainer_DefragmentsNoneWhileAMemberIsDown(t *testing.T) {
	client := startMembers(t, 3, small)
	bloat(t, client)
	seen := &seenMaintenance{Maintenance: client.Maintenance, silent: client.Endpoints()[2]}
	client.Maintenance = seen
	reg := maintainWith(t, etcdlog.MaintainerConfig{Client: client, Replica: "a", DefragInUse: inUse / 2, DefragBytes: 1 << 20})
	awaitWriting(t, client, func() bool { return compacted(t, client) })
	seen.awaitChecks(t, 20)
	defrags, _ := seen.seen()
	require.Empty(t, defrags)
	require.Positive(t, counter(t, reg, "freshet_etcd_upkeep_failures_total"))
}

// startMembers starts a cluster of several members and returns a client of all of them.
func startMembers(t *testing.T, count int, adjust func(*embed.Config)) *clientv3.Client {
	t.Helper()
	client, _ := startCluster(t, count, adjust)
	return client
}

// startCluster is like startMembers, and also returns the members.
func startCluster(t *testing.T, count int, adjust func(*embed.Config)) (*clientv3.Client, []*embed.Etcd) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts etcd")
	}
	t.Chdir(t.TempDir()) // members reach each other by sockets in files, whose names must look like addresses
	var names []string
	for i := range count {
		names = append(names, fmt.Sprintf("m%d=unix://m%d:1", i, i))
	}
	members := make([]*embed.Etcd, count)
	for i := range members {
		cfg := embed.NewConfig()
		cfg.Name = fmt.Sprintf("m%d", i)
		cfg.Dir = t.TempDir()
		cfg.LogLevel = "fatal"
		cfg.LogOutputs = []string{os.DevNull}
		cfg.TickMs, cfg.ElectionMs = 50, 500
		cfg.UnsafeNoFsync = true
		anyPort := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
		peer := url.URL{Scheme: "unix", Host: cfg.Name + ":1"}
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{anyPort}, []url.URL{anyPort}
		cfg.InitialCluster = strings.Join(names, ",")
		adjust(cfg)
		var err error
		members[i], err = embed.StartEtcd(cfg)
		require.NoError(t, err)
		t.Cleanup(members[i].Close)
	}
	var endpoints []string
	for _, member := range members {
		select {
		case <-member.Server.ReadyNotify():
		case <-time.After(time.Minute):
			t.Fatal("etcd did not start")
		}
		endpoints = append(endpoints, member.Clients[0].Addr().String())
	}
	client, err := etcdlog.NewClient(etcdlog.ClientConfig{Endpoints: endpoints})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client, members
}
