package controlplane

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
)

func alone() int { return 1 }

// startOwner runs an owner with a log in memory until the test ends.
func startOwner(t *testing.T, cfg owner.Config) (*owner.Owner, metalog.Tenure) {
	t.Helper()
	patient := metalog.Timing{Lease: time.Hour, SelfFence: time.Hour / 2} // a busy machine fences no owner
	log, _, err := memlog.New().Open("a", metalog.Config{Timing: patient})
	require.NoError(t, err)
	tenure, err := log.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
	require.NoError(t, err)
	cfg.Tenure, cfg.State = tenure, metadata.New()
	o, err := owner.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = o.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-o.Done()
		require.NoError(t, tenure.Resign(context.Background()))
	})
	return o, tenure
}

// TestEtcdSpace_Room: the room for logs falls as etcd fills, and never rises with the fullness.
func TestEtcdSpace_Room(t *testing.T) {
	s := newEtcdSpace(nil, alone, zap.NewNop(), prometheus.NewRegistry())
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
	s := newEtcdSpace(nil, alone, zap.NewNop(), prometheus.NewRegistry())
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
	s := newEtcdSpace(clientOf(addresses...), alone, zap.New(core), prometheus.NewRegistry())
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

// TestEtcdSpace_Reserve: appends in flight, since the last reading and in the interval before it count against the free bytes. Half of the free bytes
// is for small appends.
func TestEtcdSpace_Reserve(t *testing.T) {
	s := newEtcdSpace(nil, func() int { return 4 }, zap.NewNop(), prometheus.NewRegistry())
	const large, small, share = 1 << 20, owner.SmallGroupBytes, 8 << 20
	taken := func(bytes int64) (total int64, done []func()) {
		for {
			landed, ok := s.reserve(bytes)
			if !ok {
				return total, done
			}
			total, done = total+bytes, append(done, landed)
		}
	}
	land := func(done []func()) {
		for _, landed := range done {
			landed()
		}
	}
	total, appending := taken(large)
	require.Positive(t, total, "before the first reading")
	more, of := taken(small)
	require.LessOrEqual(t, total+more, int64(firstShare))
	require.Greater(t, total+more, int64(firstShare-firstShare/8))
	land(append(appending, of...))
	s.setShare(4 * share)
	s.setShare(4 * share)
	total, appending = taken(large)
	require.EqualValues(t, 3*large, total, "with what etcd needs beside")
	s.setShare(4 * share)
	s.setShare(4 * share)
	total, _ = taken(large)
	require.Zero(t, total, "the others are still in flight")
	land(appending)
	total, _ = taken(large)
	require.Zero(t, total, "no reading has seen them")
	s.setShare(4 * share)
	total, _ = taken(large)
	require.Zero(t, total, "the reading may have missed them")
	total, appending = taken(small)
	require.Greater(t, total, int64(share/2-small))
	require.LessOrEqual(t, total, int64(share-3*large))
	land(appending)
	s.setShare(4 * share)
	s.setShare(4 * share)
	total, _ = taken(large)
	require.EqualValues(t, 3*large, total)
	s.setShare(-1)
	_, ok := s.reserve(0)
	require.False(t, ok)
	s.setShare(math.MaxInt64)
	_, ok = s.reserve(1 << 40)
	require.True(t, ok, "no quota")
}

// TestEtcdSpace_BoundBelowCrowded: between two readings, or while readings fail, logs grow by no more than the free bytes, also from a fullness at which
// each log has its whole room.
func TestEtcdSpace_BoundBelowCrowded(t *testing.T) {
	const quota, each = 1 << 30, 1 << 20
	member := new(etcdMember)
	member.size.Store(&memberSize{inUse: quota * 59 / 100, file: quota * 59 / 100, quota: quota})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{startMember(t, member)}, Logger: zap.NewNop()})
	require.NoError(t, err)
	s := newEtcdSpace(client, alone, zap.NewNop(), prometheus.NewRegistry())
	defer client.Close()
	s.read(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	taken := int64(0)
	for done, ok := s.reserve(each); ok; done, ok = s.reserve(each) {
		taken += each
		require.LessOrEqual(t, taken, int64(quota*39/100))
		done()
		s.read(ctx) // fails
	}
	require.Greater(t, taken, quota*39/200-2*each-taken/16)
}

// TestEtcdSpace_ManyLogsBetweenTwoReadings: each empty log has room for a large command. All of them together take at most half of the free bytes,
// and small commands go on.
func TestEtcdSpace_ManyLogsBetweenTwoReadings(t *testing.T) {
	const logs, quota, hard, commandBytes = 60, 1 << 30, 32 << 20, 1 << 20
	member := new(etcdMember)
	member.size.Store(&memberSize{inUse: quota * 96 / 100, file: quota, quota: quota})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{startMember(t, member)}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer client.Close()
	s := newEtcdSpace(client, alone, zap.NewNop(), prometheus.NewRegistry())
	s.read(t.Context())
	owners, tenures := make([]*owner.Owner, logs), make([]metalog.Tenure, logs)
	for i := range owners {
		owners[i], tenures[i] = startOwner(t, owner.Config{SoftLogBytes: hard / 2, HardLogBytes: hard, LogRoom: s.roomOf(hard), ReserveRoom: s.reserve})
	}
	propose := func(o *owner.Owner, bytes int) error {
		_, _, err := o.Propose(t.Context(), &metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{"k": strings.Repeat("v", bytes)}})
		return err
	}
	errs := make([]error, logs)
	var proposing sync.WaitGroup
	for i, o := range owners {
		proposing.Go(func() { errs[i] = propose(o, commandBytes) })
	}
	proposing.Wait()
	written, refused := int64(0), 0
	for i, err := range errs {
		written += tenures[i].Bytes()
		if err != nil {
			require.ErrorIs(t, err, metalog.ErrLogFull)
			require.NoError(t, propose(owners[i], 1000), "a small command")
			refused++
		}
	}
	require.LessOrEqual(t, written, int64(quota/100), fmt.Sprintf("%d of %d commands were refused", refused, logs))
	require.Greater(t, written, int64(quota/100-2*commandBytes))
}

// TestBytesInEtcd compares the bound with the bytes in use that appends of these sizes took in etcd 3.6, on average.
func TestBytesInEtcd(t *testing.T) {
	for bytes, measured := range map[int64]int64{200: 534, 4000: 8243, 65_536: 70_304, 261_120: 261_895, 1_048_576: 1_097_728} {
		require.GreaterOrEqual(t, bytesInEtcd(bytes), measured)
	}
}
