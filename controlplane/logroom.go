package controlplane

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

// Fullness of etcd at which the room for logs changes. From etcdlog.CrowdedFrom to leastFrom it falls from 1 to leastRoom. It begins to fall early,
// because trims and compactions take several seconds to make room. From stopFrom on, each log has leastLog: something else than logs may fill etcd,
// and a short log is trimmed after its next commits. From fullFrom on there is no room: commits are refused, and snapshots trim the logs. A full
// etcd would refuse leases and snapshots too. From refuseFrom on, new virtual clusters are refused.
const (
	refuseFrom = 0.7
	leastFrom  = 0.75
	stopFrom   = 0.95
	fullFrom   = 0.98
	leastRoom  = 1.0 / 16
)

// leastLog is the room in bytes that every log has below fullFrom, whatever its limits. A snapshot is due after so much log without room
// (replica.Config.SnapshotMinBytes). For registry.DefaultMaxHosted virtual clusters it is 63 MiB, 1 % of a quota of 6 GiB, and 3 % are left from
// stopFrom to fullFrom. The last command of a log, of up to 16 MiB, may exceed the log's room. So etcdSpace.reserve bounds the growth of all logs
// between two readings.
const leastLog = 64 << 10

// firstShare is the share of a replica before the first reading. Small appends can take all of it, so quiet virtual clusters do not wait.
const firstShare = 16 << 20

// bytesInEtcd returns an upper bound of the bytes that etcd needs for an append of a number of bytes: entry, keys, the log's tail and its former
// value in the history, and pages of 4 KiB that the entry fills in part.
func bytesInEtcd(bytes int64) int64 { return bytes + min(bytes, 4<<10) + bytes/16 + 1<<10 }

// Intervals of reading the fullness of etcd's members.
const (
	readSpace     = 2 * time.Second // in which busy logs can take a tenth of a small quota
	readSpaceSoon = time.Second     // from etcdlog.CrowdedFrom on
)

// maxSnapshots is the number of snapshots that a replica takes at a time. Each needs the memory of a second state, and reads its log.
const maxSnapshots = 8

// etcdSpace bounds the logs of all virtual clusters together by etcd's quota, since a full etcd stops every virtual cluster (I10). All replicas
// read the same fullness, and multiply the limits of each log by the same factor. Thus the longest logs are trimmed and slowed first, and a short
// one keeps its room.
type etcdSpace struct {
	client   *clientv3.Client
	log      *zap.Logger
	replicas func() int    // number of living replicas, this one included
	bits     atomic.Uint64 // of the fullness, a float64
	warnings rate.Sometimes
	mu       struct {
		sync.Mutex
		share     int64 // this replica's share of the bytes free below fullFrom, as of the last reading; math.MaxInt64 without a quota
		appending int64 // bytes reserved for appends in flight
		appended  int64 // bytes of appends that ended since the last reading
		unseen    int64 // bytes of appends that ended between the last two readings: etcd's figures are up to 100 ms old, so they may lack these
	}
}

func newEtcdSpace(client *clientv3.Client, replicas func() int, log *zap.Logger, reg prometheus.Registerer) *etcdSpace {
	s := &etcdSpace{client: client, replicas: replicas, log: log, warnings: rate.Sometimes{Interval: time.Minute}}
	s.mu.share = firstShare
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "freshet_etcd_fullness",
			Help: "Share of etcd's quota that is used, of the fullest member; from 0.6 on logs have less room, from 0.7 on new virtual clusters are refused.",
		}, s.fullness),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "freshet_etcd_log_room", Help: "Factor of the limits of each virtual cluster's log; below 1 while etcd is crowded.",
		}, s.room),
	)
	return s
}

// run reads the fullness until ctx ends.
func (s *etcdSpace) run(ctx context.Context) error {
	for {
		s.read(ctx)
		pause := readSpace
		if s.fullness() >= etcdlog.CrowdedFrom {
			pause = readSpaceSoon
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// read asks the members one by one, for at most memberTimeout each. If none answers, the fullness stays the same, and appends go on to take from the
// share of the last answer.
func (s *etcdSpace) read(ctx context.Context) {
	endpoints := s.client.Endpoints()
	if len(endpoints) == 0 {
		endpoints = []string{"embedded"} // the client ignores the name
	}
	fullest, left, answered := 0.0, int64(math.MaxInt64), false
	for _, endpoint := range endpoints {
		ctx, cancel := context.WithTimeout(ctx, memberTimeout)
		status, err := s.client.Status(ctx, endpoint)
		cancel()
		if err == nil { // the rounds of members report others
			full := etcdlog.Fullness(status)
			fullest, answered = max(fullest, full), true
			if status.DbSizeQuota > 0 {
				left = min(left, int64((fullFrom-full)*float64(status.DbSizeQuota)))
			}
		}
	}
	if !answered {
		return
	}
	s.bits.Store(math.Float64bits(fullest))
	s.setShare(left)
	if crowded := s.crowded(); crowded != nil {
		s.warnings.Do(func() {
			s.log.Warn("etcd is crowded, so logs have less room, and new virtual clusters are refused: give etcd more space (--quota-backend-bytes), or "+
				"look for snapshots that fail (logged once a minute)", zap.Float64("fullness", s.fullness()), zap.Float64("log_room", s.room()))
		})
	}
}

// setShare gives each replica an equal share of the bytes that a reading found free below fullFrom, math.MaxInt64 for no bound.
func (s *etcdSpace) setShare(left int64) {
	if left != math.MaxInt64 {
		left /= int64(max(1, s.replicas()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.share, s.mu.unseen, s.mu.appended = left, s.mu.appended, 0
}

// reserve reserves space for an append of a number of bytes, or returns false if this replica's share has too little left. The caller calls done
// once the append has ended. The bytes then count as appended until readings show them. Appends of more than owner.SmallGroupBytes leave half of the
// share to smaller ones, so they keep no quiet virtual cluster out.
func (s *etcdSpace) reserve(bytes int64) (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := int64(0)
	if bytes > owner.SmallGroupBytes {
		least = s.mu.share / 2
	}
	bytes = bytesInEtcd(bytes)
	if s.mu.share-s.mu.appending-s.mu.appended-s.mu.unseen-bytes < least {
		return nil, false
	}
	s.mu.appending += bytes
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.appending -= bytes
		s.mu.appended += bytes
	}, true
}

// fullness returns the share of the quota that the fullest member uses, or 0 before the first answer.
func (s *etcdSpace) fullness() float64 { return math.Float64frombits(s.bits.Load()) }

// roomOf returns a function that returns the factor of the limits of a log with a hard limit. Below fullFrom, the factor leaves leastLog at least.
func (s *etcdSpace) roomOf(hard int64) func() float64 {
	least := min(1, float64(leastLog+1)/float64(hard)) // the owner rounds down, and a snapshot must be due before the log is full
	return func() float64 {
		if s.fullness() >= fullFrom {
			return 0
		}
		return max(s.room(), least)
	}
}

// room returns the factor of the limits of all logs, before roomOf raises it for short ones.
func (s *etcdSpace) room() float64 {
	return roomAt(s.fullness(), etcdlog.CrowdedFrom, leastFrom, stopFrom)
}

// roomAt returns the factor of limits at a fullness: 1 up to from, then falling to leastRoom shortly before least, leastRoom up to stop, then 0.
func roomAt(full, from, least, stop float64) float64 {
	if full >= stop {
		return 0
	}
	return min(1, max(leastRoom, (least-full)/(least-from)))
}

// crowded returns an error with the fullness while etcd has no room for further virtual clusters, else nil.
func (s *etcdSpace) crowded() error {
	full := s.fullness()
	if full < refuseFrom {
		return nil
	}
	return fmt.Errorf("etcd uses %.0f %% of its quota: metadata logs have less room, and new virtual clusters are refused", 100*full)
}
