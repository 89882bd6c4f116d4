package controlplane

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
)

// versions is the newest state machine version that each replica can run, in etcd. A state's version rises to the lowest
// of them, and never falls: so it rises only when no replica is left that could not read what is then logged. Each
// replica's word has a lease that outlives the replica by versionMemory, so that one which is just being restarted counts
// with the version that it had. etcd decides its own cluster version in the same way, by the lowest of its members
// (etcd-io/etcd server/etcdserver/version/monitor.go); Kafka has its metadata.version raised by hand (KIP-584, KIP-778),
// for which Config.StateVersion is there.
type versions struct {
	client    *clientv3.Client
	prefix    string // of all replicas' keys, ends with a slash
	replica   string
	own       uint32
	log       *zap.Logger
	lease     clientv3.LeaseID // that holds this replica's word; 0: it is to be said
	malformed bool             // there was a word that is none, and the log said so
	lowest    atomic.Uint32
}

const (
	// versionMemory is how long a replica that is gone still counts: longer than a restart takes.
	versionMemory = 10 * time.Minute
)

// Lowest gives the version that all replicas can run, as of a moment ago; 0 if that is not known.
func (v *versions) Lowest() uint32 { return v.lowest.Load() }

// round says this replica's version and reads the others'.
func (v *versions) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readMembers)
	defer cancel()
	if err := v.say(ctx); err != nil {
		return err
	}
	said, err := v.client.Get(ctx, v.prefix, clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("read the replicas' versions: %w", err)
	}
	v.lowest.Store(v.take(said.Kvs))
	return nil
}

// take returns the lowest version of all replicas. A malformed version counts as 0: no state's version rises while it is there,
// and nothing else waits for it. If this replica's own key is not as it was put, the next round puts it again.
func (v *versions) take(said []*mvccpb.KeyValue) (lowest uint32) {
	lowest = v.own
	malformed, own := false, false
	for _, kv := range said {
		if string(kv.Key) == v.prefix+v.replica {
			own = string(kv.Value) == v.word()
			continue
		}
		version, err := strconv.ParseUint(string(kv.Value), 10, 32)
		if err == nil {
			lowest = min(lowest, uint32(version))
			continue
		}
		lowest, malformed = 0, true
		if !v.malformed {
			v.log.Warn("a replica's version in etcd is none, so no state's version rises; if nobody mends it, remove the key (etcdctl del)",
				zap.ByteString("key", kv.Key), zap.Error(err))
		}
	}
	v.malformed = malformed
	if !own {
		v.lease = 0
	}
	return lowest
}

// word is what this replica says.
func (v *versions) word() string { return strconv.FormatUint(uint64(v.own), 10) }

// say keeps this replica's version in etcd. The lease is kept only once it is known to hold the word.
func (v *versions) say(ctx context.Context) error {
	if v.lease != 0 {
		if _, err := v.client.KeepAliveOnce(ctx, v.lease); err == nil {
			return nil
		}
		v.lease = 0
	}
	granted, err := v.client.Grant(ctx, int64(versionMemory/time.Second))
	if err != nil {
		return fmt.Errorf("lease for the replica's version: %w", err)
	}
	if _, err := v.client.Put(ctx, v.prefix+v.replica, v.word(), clientv3.WithLease(granted.ID)); err != nil {
		return fmt.Errorf("say the replica's version: %w", err)
	}
	v.lease = granted.ID
	return nil
}

// stateVersion is the newest version that states may rise to with this replica.
func (c *Config) stateVersion() uint32 {
	if c.StateVersion == 0 {
		return metadata.MaxVersion
	}
	return c.StateVersion
}
