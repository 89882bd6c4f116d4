package controlplane

import (
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestEtcdSpace_Room: the room for logs falls as etcd fills, and never rises with the fullness.
func TestEtcdSpace_Room(t *testing.T) {
	s := newEtcdSpace(nil, zap.NewNop(), prometheus.NewRegistry())
	require.EqualValues(t, 1, s.room(), "before the first answer")
	for full, want := range map[float64]float64{
		0: 1, 0.6: 1, 0.675: 0.5, 0.7: 1.0 / 3, 0.73: 0.4 / 3, 0.75: leastRoom, 0.949: leastRoom, 0.95: 0, 1.2: 0,
	} {
		s.bits.Store(math.Float64bits(full))
		require.InDelta(t, want, s.room(), 1e-9, "%v", full)
		require.Equal(t, full >= 0.7, s.crowded() != nil, "%v", full)
	}
	last := 1.0
	for full := 0.0; full < 1; full += 0.001 {
		s.bits.Store(math.Float64bits(full))
		require.LessOrEqual(t, s.room(), last)
		last = s.room()
	}
}

// TestEtcdSpace_RoomOf: a short log may grow a little until etcd is nearly full, whatever its limit.
func TestEtcdSpace_RoomOf(t *testing.T) {
	s := newEtcdSpace(nil, zap.NewNop(), prometheus.NewRegistry())
	for _, c := range []struct {
		full       float64
		hard, want int64
	}{
		{0, 32 << 20, 32 << 20},
		{0.8, 32 << 20, 2 << 20},
		{0.95, 32 << 20, 64 << 10},
		{0.979, 512 << 20, 64 << 10},
		{0.979, 10_000_001, 64 << 10},
		{0.979, 32 << 10, 32 << 10}, // its own limit is lower
		{0.98, 32 << 20, 0},
		{1.1, 32 << 10, 0},
	} {
		s.bits.Store(math.Float64bits(c.full))
		room := int64(s.roomOf(c.hard)() * float64(c.hard))
		require.GreaterOrEqual(t, room, c.want, "%+v", c)
		require.LessOrEqual(t, room, c.want+1, "%+v", c)
	}
}

// TestEtcdSpace_Read: the fullest member that answers decides. While none answers, the fullness stays. Members without a quota do not count.
func TestEtcdSpace_Read(t *testing.T) {
	a, b := &etcdMember{leader: 1}, &etcdMember{leader: 1}
	closed := listenLocally(t)
	require.NoError(t, closed.Close())
	addresses := []string{startMember(t, a), startMember(t, b), closed.Addr().String()}
	core, logged := observer.New(zap.WarnLevel)
	clientOf := func(endpoints ...string) *clientv3.Client {
		client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	s := newEtcdSpace(clientOf(addresses...), zap.New(core), prometheus.NewRegistry())
	s.read(t.Context())
	require.Zero(t, s.fullness(), "no quota")
	a.size.Store(&memberSize{inUse: 300, file: 500, quota: 1000})
	b.size.Store(&memberSize{inUse: 400, file: 400, quota: 1000})
	s.read(t.Context())
	require.InDelta(t, 0.4, s.fullness(), 1e-9)
	require.NoError(t, s.crowded())
	require.Zero(t, logged.Len())
	a.size.Store(&memberSize{inUse: 720, file: 800, quota: 1000})
	s.read(t.Context())
	s.read(t.Context())
	require.InDelta(t, 0.2, s.room(), 1e-9)
	require.EqualError(t, s.crowded(), "etcd uses 72 % of its quota: metadata logs have less room, and new virtual clusters are refused")
	require.Equal(t, 1, logged.Len(), "once a minute")
	s.client = clientOf(addresses[2])
	s.read(t.Context())
	require.InDelta(t, 0.2, s.room(), 1e-9)
}
