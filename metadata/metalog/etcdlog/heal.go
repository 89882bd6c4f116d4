package etcdlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata/metalog"
)

// heal brings a cluster back that raised NOSPACE: trim every log to its second newest snapshot, compact all history, defragment the members whose
// files have no room, disarm. Deletions, compaction and defragmentation work in a full cluster; puts do not.
//
// A member that cannot be defragmented does not keep the alarm: if it applies a put without room, it raises the alarm again.
func (m *Maintainer) heal(ctx context.Context, members []member) error {
	m.cfg.Logger.Warn("etcd is out of space, healing", zap.Int("members", len(members)))
	m.metrics.heals.Inc()
	if err := m.trimAll(ctx); err != nil {
		return err
	}
	get, err := m.cfg.Client.Get(ctx, m.cfg.Prefix+"/maintainer", clientv3.WithKeysOnly())
	if err != nil {
		return fmt.Errorf("read etcd revision: %w", err)
	}
	// Physical: the space must be free before defragmentation looks for it.
	if err := m.compactTo(ctx, get.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		return err
	}
	var errs []error
	ready := 0 // members with room
	for _, mb := range members {
		if !mb.room {
			if err := m.noneFellSilent(ctx); err != nil {
				err = fmt.Errorf("etcd is out of space, and no member is defragmented until all serve, or %v have passed: %w", defragTimeout, err)
				return errors.Join(append(errs, err)...)
			}
			if err := m.healOne(ctx, mb, members); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		ready++
	}
	if ready > 0 {
		errs = append(errs, m.disarm(ctx))
	}
	return errors.Join(errs...)
}

// healOne defragments a member, unless it is silent. Another member becomes the leader before, as in rewriteOne, if it can.
func (m *Maintainer) healOne(ctx context.Context, mb member, members []member) error {
	if since, silent := m.silent[mb.endpoint]; silent {
		return fmt.Errorf("etcd member %s is not defragmented, because it has served nothing for %v", mb.endpoint, time.Since(since).Round(time.Second))
	}
	start := time.Now()
	if err := m.moveLeader(ctx, mb, othersOf(mb, members)); err != nil {
		m.cfg.Logger.Warn("defragmenting the leader of a full etcd", zap.Error(err))
	}
	err := m.defrag(ctx, mb)
	if err != nil {
		m.silent[mb.endpoint] = start // unless it serves: etcd may go on with the defragmentation
	}
	return err
}

// noneFellSilent returns an error if a member does not serve, and has not for less than defragTimeout: another replica may be defragmenting it.
// Otherwise m.silent has the endpoints that have not served for longer. They are down, or their disks hang, and the healing goes on without them.
//
// It replaces the claim of alone, because a full etcd takes no claim: it refuses lease grants, and transactions that could put. Several replicas may
// heal at once: all do if none was elected before etcd was full, or if a defragmentation outlasted the lease of the elected one.
//
// The check is no lock. Replicas that check at the same moment begin with the same member, if they name the members in the same order. There the
// second defragmentation waits for the first.
func (m *Maintainer) noneFellSilent(ctx context.Context) error {
	named := endpoints(m.cfg.Client)
	if len(named) == 1 {
		clear(m.silent)
		return nil
	}
	var errs []error
	for _, endpoint := range named {
		err := m.serves(ctx, endpoint)
		if err == nil {
			delete(m.silent, endpoint)
			continue
		}
		if m.silent[endpoint].IsZero() {
			m.silent[endpoint] = time.Now()
		}
		if time.Since(m.silent[endpoint]) < defragTimeout {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (m *Maintainer) disarm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*requestTimeout)
	defer cancel()
	alarms, err := m.cfg.Client.AlarmList(ctx)
	if err != nil {
		return fmt.Errorf("list etcd alarms: %w", err)
	}
	for _, a := range alarms.Alarms {
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		if _, err := m.cfg.Client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(a)); err != nil {
			return fmt.Errorf("disarm etcd alarm: %w", err)
		}
	}
	m.cfg.Logger.Info("etcd has space again")
	return nil
}

// trimAll trims every virtual cluster's log to its second newest snapshot, without being its owner: the pointers'
// revision in the transaction is right enough, for no owner ever needs an entry below them. A log stays as it is if its pointers are corrupt, or if
// no replica has decoded its snapshots (I10).
func (m *Maintainer) trimAll(ctx context.Context) error {
	from, end := m.cfg.Prefix+"/", clientv3.GetPrefixRangeEnd(m.cfg.Prefix+"/")
	for {
		resp, err := m.cfg.Client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(1), clientv3.WithKeysOnly())
		if err != nil {
			return fmt.Errorf("list virtual clusters: %w", err)
		}
		if len(resp.Kvs) == 0 {
			return nil
		}
		key := string(resp.Kvs[0].Key)
		base, ok := clusterBase(m.cfg.Prefix, key)
		if !ok {
			from = key + "\x00"
			continue
		}
		err = m.trim(ctx, base)
		if errors.Is(err, metalog.ErrCorrupt) {
			m.cfg.Logger.Error("log not trimmed", zap.Error(err))
		} else if err != nil {
			return err
		}
		from = clientv3.GetPrefixRangeEnd(base)
	}
}

// clusterBase returns <prefix>/<cluster id>/ of a key under it.
func clusterBase(prefix, key string) (string, bool) {
	cluster, _, ok := strings.Cut(strings.TrimPrefix(key, prefix+"/"), "/")
	return prefix + "/" + cluster + "/", ok
}

func (m *Maintainer) trim(ctx context.Context, base string) error {
	k := keys{snapshots: base + "snapshots", log: base + "log/"}
	resp, err := m.cfg.Client.Get(ctx, k.snapshots)
	if err != nil || len(resp.Kvs) == 0 {
		return err
	}
	refs, err := decodeSnapshots(resp.Kvs[0])
	if err != nil || len(refs) < 2 {
		return err
	}
	_, err = m.cfg.Client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(k.snapshots), "=", resp.Kvs[0].ModRevision)).
		Then(clientv3.OpDelete(k.entry(0), clientv3.WithRange(k.entry(refs[1].Index+1)))).
		Commit()
	if err != nil {
		return fmt.Errorf("trim log under %s: %w", base, err)
	}
	return nil
}

func isCompacted(err error) bool { return isEtcdError(err, rpctypes.ErrCompacted) }

func isNoSpace(err error) bool { return isEtcdError(err, rpctypes.ErrNoSpace) }

// isEtcdError tells whether err is etcd's target, which comes as that value or, from a gRPC status, as one that reads
// the same.
func isEtcdError(err, target error) bool {
	var e rpctypes.EtcdError
	return errors.Is(err, target) || errors.As(err, &e) && e.Error() == target.Error()
}
