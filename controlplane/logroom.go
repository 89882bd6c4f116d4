package controlplane

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

// Fullness of etcd at which the room for logs changes. From etcdlog.CrowdedFrom to leastFrom it falls from 1 to leastRoom. It begins to fall early,
// because trims and compactions take several seconds to make room. From stopFrom on there is none: commits are refused, and snapshots trim the logs.
// A full etcd would refuse leases and snapshots too. From refuseFrom on, new virtual clusters are refused.
const (
	refuseFrom = 0.7
	leastFrom  = 0.75
	stopFrom   = 0.95
	leastRoom  = 1.0 / 16
)

// Intervals of reading the fullness of etcd's members.
const (
	readSpace     = 10 * time.Second
	readSpaceSoon = time.Second // from etcdlog.CrowdedFrom on
)

// maxSnapshots is the number of snapshots that a replica takes at a time. Each needs the memory of a second state, and reads its log.
const maxSnapshots = 8

// etcdSpace bounds the logs of all virtual clusters together by etcd's quota, since a full etcd stops every virtual cluster (I10). All replicas
// read the same fullness, and multiply the limits of each log by the same factor. Thus the longest logs are trimmed and slowed first, and a short
// one keeps its room.
type etcdSpace struct {
	client   *clientv3.Client
	log      *zap.Logger
	bits     atomic.Uint64 // of the fullness, a float64
	warnings rate.Sometimes
}

func newEtcdSpace(client *clientv3.Client, log *zap.Logger, reg prometheus.Registerer) *etcdSpace {
	s := &etcdSpace{client: client, log: log, warnings: rate.Sometimes{Interval: time.Minute}}
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

// read asks the members one by one, for at most memberTimeout each. If none answers, the fullness stays the same: no log grows without etcd.
func (s *etcdSpace) read(ctx context.Context) {
	endpoints := s.client.Endpoints()
	if len(endpoints) == 0 {
		endpoints = []string{"embedded"} // the client ignores the name
	}
	fullest, answered := 0.0, false
	for _, endpoint := range endpoints {
		ctx, cancel := context.WithTimeout(ctx, memberTimeout)
		status, err := s.client.Status(ctx, endpoint)
		cancel()
		if err == nil { // the rounds of members report others
			fullest, answered = max(fullest, etcdlog.Fullness(status)), true
		}
	}
	if !answered {
		return
	}
	s.bits.Store(math.Float64bits(fullest))
	if crowded := s.crowded(); crowded != nil {
		s.warnings.Do(func() {
			s.log.Warn("etcd is crowded, so logs have less room, and new virtual clusters are refused: give etcd more space (--quota-backend-bytes), or "+
				"look for snapshots that fail (logged once a minute)", zap.Float64("fullness", s.fullness()), zap.Float64("log_room", s.room()))
		})
	}
}

// fullness returns the share of the quota that the fullest member uses, or 0 before the first answer.
func (s *etcdSpace) fullness() float64 { return math.Float64frombits(s.bits.Load()) }

// room returns the factor of the limits of each log.
func (s *etcdSpace) room() float64 {
	full := s.fullness()
	if full >= stopFrom {
		return 0
	}
	return min(1, max(leastRoom, (leastFrom-full)/(leastFrom-etcdlog.CrowdedFrom)))
}

// crowded returns an error with the fullness while etcd has no room for further virtual clusters, else nil.
func (s *etcdSpace) crowded() error {
	full := s.fullness()
	if full < refuseFrom {
		return nil
	}
	return fmt.Errorf("etcd uses %.0f %% of its quota: metadata logs have less room, and new virtual clusters are refused", 100*full)
}
