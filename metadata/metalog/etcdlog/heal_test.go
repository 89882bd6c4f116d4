package etcdlog_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap/zaptest"

	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

// fill writes until etcd is out of space.
func fill(t *testing.T, client *clientv3.Client) {
	t.Helper()
	for {
		_, err := client.Put(t.Context(), "history", strings.Repeat("x", valueBytes))
		if err != nil {
			require.ErrorContains(t, err, "space")
			return
		}
	}
}

// clientOf returns a client that knows all members. It sends requests to one of them, except those to a named member.
func clientOf(t *testing.T, all *clientv3.Client, member string) *clientv3.Client {
	t.Helper()
	one, err := etcdlog.NewClient(etcdlog.ClientConfig{Endpoints: []string{member}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = one.Close() })
	all.KV, all.Lease, all.Cluster, all.Maintenance = one.KV, one.Lease, one.Cluster, one.Maintenance
	return all
}

// fullCluster is a cluster of three members without space.
type fullCluster struct {
	client    *clientv3.Client // its requests go to the leader
	seen      *seenMaintenance
	members   []*embed.Etcd
	leader    int
	followers []int // in the order of their defragmentations
}

func startFull(t *testing.T) *fullCluster {
	t.Helper()
	client, members := startCluster(t, 3, func(c *embed.Config) {
		small(c) // the members' files differ by some values
		c.MaxRequestBytes = smallQuota / 5
	})
	leader := slices.IndexFunc(members, func(m *embed.Etcd) bool { return m.Server.MemberID() == m.Server.Leader() })
	client = clientOf(t, client, client.Endpoints()[leader])
	c := &fullCluster{
		client: client, seen: &seenMaintenance{Maintenance: client.Maintenance}, members: members,
		leader: leader, followers: slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == leader }),
	}
	client.Maintenance = c.seen
	fill(t, client)
	return c
}

func (c *fullCluster) maintainer(t *testing.T, replica string) *etcdlog.Maintainer {
	t.Helper()
	m, err := etcdlog.NewMaintainer(etcdlog.MaintainerConfig{Client: c.client, Replica: replica, Logger: zaptest.NewLogger(t)})
	require.NoError(t, err)
	return m
}

// stop has a member apply nothing, as a defragmentation and a disk that hangs do, until the returned function is called.
func (c *fullCluster) stop(t *testing.T, member int) (resume func()) {
	t.Helper()
	tx := c.members[member].Server.Backend().BatchTx()
	tx.LockOutsideApply()
	resume = sync.OnceFunc(tx.Unlock)
	t.Cleanup(resume)
	_, err := c.client.Delete(t.Context(), "history") // which the member does not apply
	require.NoError(t, err)
	return resume
}

// defragmented requires that these members were defragmented since the last call, none of them as the leader.
func (c *fullCluster) defragmented(t *testing.T, members ...int) {
	t.Helper()
	endpoints := []string{}
	for _, member := range members {
		endpoints = append(endpoints, c.client.Endpoints()[member])
	}
	defrags, led := c.seen.seen()
	require.ElementsMatch(t, endpoints, defrags)
	require.Zero(t, led)
	c.seen.mu.Lock()
	defer c.seen.mu.Unlock()
	c.seen.defrags = nil
}

// write needs room for a value.
func (c *fullCluster) write(t *testing.T, bytes int) error {
	t.Helper()
	_, err := c.client.Put(t.Context(), "history", strings.Repeat("x", bytes))
	return err
}

// overflow writes until a member that was left out of the healing raises the alarm: such a file has taken 85 % of the quota.
func (c *fullCluster) overflow(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return c.write(t, smallQuota/6) != nil }, time.Minute, 200*time.Millisecond)
}

// waits is part of the error of a healing that waits for a member.
const waits = "no member is defragmented until all serve"

// TestMaintainer_HealsOneMemberAtATime: a member of a full etcd is being defragmented, so it applies nothing. Another replica cannot claim a
// defragmentation, and begins none. After 2 minutes it does without this member, which may be down. The member follows once it serves again.
func TestMaintainer_HealsOneMemberAtATime(t *testing.T) {
	c := startFull(t)
	_, err := c.client.Grant(t.Context(), 60)
	require.ErrorContains(t, err, "space", "a claim needs a lease")
	put := clientv3.OpPut("claim", "")
	_, err = c.client.Txn(t.Context()).If(clientv3.Compare(clientv3.Version("claim"), "=", 1)).Then(put).Commit()
	require.ErrorContains(t, err, "space", "though the transaction would put nothing")

	busy := c.followers[1]
	resume := c.stop(t, busy)
	m := c.maintainer(t, "a")
	require.ErrorContains(t, m.CheckOnce(t.Context()), waits)
	c.defragmented(t)

	m.AgeSilence()
	require.ErrorContains(t, m.CheckOnce(t.Context()), "served nothing")
	c.defragmented(t, c.followers[0], c.leader)
	require.NoError(t, c.write(t, valueBytes))

	resume()
	c.overflow(t)
	require.NoError(t, m.CheckOnce(t.Context()))
	c.defragmented(t, busy)
	require.NoError(t, c.write(t, valueBytes))
}

// TestMaintainer_WaitsAnewInTheNextHealing: a replica once waited for a member of a full etcd, and another replica healed it. When etcd is full again
// later, the replica waits again.
func TestMaintainer_WaitsAnewInTheNextHealing(t *testing.T) {
	c := startFull(t)
	first, second := c.maintainer(t, "a"), c.maintainer(t, "b")
	resume := c.stop(t, c.followers[1])
	require.ErrorContains(t, first.CheckOnce(t.Context()), waits)
	resume()
	first.AgeSilence()
	require.NoError(t, second.CheckOnce(t.Context()))
	c.defragmented(t, 0, 1, 2)
	require.NoError(t, second.CheckOnce(t.Context()), "is elected")
	require.NoError(t, first.CheckOnce(t.Context()), "is not elected")

	_, err := c.client.Revoke(t.Context(), clientv3.LeaseID(keyOf(t, c.client, "/maintainer").Lease)) // as if a defragmentation had outlasted it
	require.NoError(t, err)
	fill(t, c.client)
	c.stop(t, c.followers[1])
	require.ErrorContains(t, first.CheckOnce(t.Context()), waits)
	c.defragmented(t)
}

// TestMaintainer_HealsBesideAStuckMember: the disk of one of three members hangs during its defragmentation. The healing goes on with the other two
// once the member has served nothing for 2 minutes, and etcd takes writes again.
func TestMaintainer_HealsBesideAStuckMember(t *testing.T) {
	c := startFull(t)
	stuck := c.followers[0]
	c.seen.fail = func(endpoint string) error {
		if endpoint != c.client.Endpoints()[stuck] {
			return nil
		}
		c.stop(t, stuck)
		return context.DeadlineExceeded // after 2 minutes
	}
	m := c.maintainer(t, "a")
	err := m.CheckOnce(t.Context())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, waits)
	m.AgeSilence()
	require.ErrorContains(t, m.CheckOnce(t.Context()), "served nothing")
	c.defragmented(t, c.followers[1], c.leader)
	require.NoError(t, c.write(t, valueBytes))
}

// TestMaintainer_HealsBesideAFailedDefragmentation: a member serves, but fails to defragment its file. The others are defragmented once.
func TestMaintainer_HealsBesideAFailedDefragmentation(t *testing.T) {
	c := startFull(t)
	c.seen.fail = func(endpoint string) error {
		if endpoint == c.client.Endpoints()[c.followers[0]] {
			return errors.New("no temporary file")
		}
		return nil
	}
	m := c.maintainer(t, "a")
	require.ErrorContains(t, m.CheckOnce(t.Context()), "no temporary file")
	c.defragmented(t, c.followers[1], c.leader)
	c.overflow(t)
	require.ErrorContains(t, m.CheckOnce(t.Context()), "no temporary file")
	c.defragmented(t)
	c.seen.fail = nil
	c.overflow(t)
	require.NoError(t, m.CheckOnce(t.Context()))
	c.defragmented(t, c.followers[0])
	require.NoError(t, c.write(t, valueBytes))
}

// TestMaintainer_HealsNamedMembers: a member that no endpoint names delays nothing.
func TestMaintainer_HealsNamedMembers(t *testing.T) {
	c := startFull(t)
	c.client.SetEndpoints(c.client.Endpoints()[c.leader], c.client.Endpoints()[c.followers[0]])
	require.NoError(t, c.maintainer(t, "a").CheckOnce(t.Context()))
	defrags, led := c.seen.seen()
	require.ElementsMatch(t, c.client.Endpoints(), defrags)
	require.Zero(t, led)
}
