package etcdlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Pauses after an attempt to defragment a member that its file alone crowds.
const (
	rewritePause    = 5 * time.Minute // doubles while the file crowds the member again by then
	maxRewritePause = time.Hour
	otherDownPause  = time.Minute // another member does not serve
)

// rewrite is the newest attempt to defragment a member that its file alone crowds.
type rewrite struct {
	at    time.Time
	pause time.Duration // until the next one
}

// defragCrowded defragments at most one member that its file alone crowds, whatever its data in use. Neither trims nor compactions make a file
// smaller, so logs would have less room for good. The member applies nothing while its data in use is rewritten, about 1 s for each 100 MiB:
// requests and watches wait there, or time out and go to the other members, all of which must serve. The leader is the last one, and another
// member becomes the leader before: all owners would lose their leases, which only a leader with all entries applied renews. If the cluster has
// no other member, it stands still.
func (m *Maintainer) defragCrowded(ctx context.Context, members []member) error {
	i := slices.IndexFunc(members, func(mb member) bool { return m.mayRewrite(mb, time.Now()) })
	if i < 0 {
		return nil
	}
	mb := members[i]
	others := othersOf(mb, members)
	before := m.rewrites[mb.endpoint].pause
	m.rewrites[mb.endpoint] = rewrite{time.Now(), otherDownPause}
	if err := m.allServe(ctx, mb, others); err != nil {
		return fmt.Errorf("etcd member %s is not defragmented, though its file of %d bytes crowds it: %w", mb.endpoint, mb.size, err)
	}
	return m.alone(ctx, func() error {
		m.rewrites[mb.endpoint] = rewrite{time.Now(), min(max(2*before, rewritePause), maxRewritePause)}
		return m.rewriteOne(ctx, mb, others)
	})
}

// rewriteOne defragments a member that its file alone crowds, after another member became the leader.
func (m *Maintainer) rewriteOne(ctx context.Context, mb member, others []member) error {
	m.cfg.Logger.Info("etcd member is crowded by its file alone, defragmenting it: it serves nothing meanwhile", zap.String("endpoint", mb.endpoint),
		zap.Int64("bytes", mb.size), zap.Int64("bytes_in_use", mb.inUse))
	if err := m.moveLeader(ctx, mb, others); err != nil {
		return err
	}
	return m.defrag(ctx, mb)
}

// othersOf returns the members without mb, which may have several endpoints.
func othersOf(mb member, members []member) []member {
	return slices.DeleteFunc(slices.Clone(members), func(o member) bool { return o.id == mb.id })
}

// mayRewrite reports whether the file alone crowds a member, and its last defragmentation was long enough ago. One that helped is forgotten.
func (m *Maintainer) mayRewrite(mb member, now time.Time) bool {
	last := m.rewrites[mb.endpoint]
	if !mb.byFile && now.Sub(last.at) >= rewritePause {
		delete(m.rewrites, mb.endpoint)
	}
	return mb.byFile && now.Sub(last.at) >= last.pause
}

// allServe returns nil if the cluster has no members but mb and others, and each of others serves.
func (m *Maintainer) allServe(ctx context.Context, mb member, others []member) error {
	listing, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := m.cfg.Client.MemberList(listing)
	if err != nil {
		return fmt.Errorf("list etcd members: %w", err)
	}
	for _, listed := range list.Members {
		if listed.ID != mb.id && !slices.ContainsFunc(others, func(o member) bool { return o.id == listed.ID }) {
			return fmt.Errorf("etcd member %s does not answer at any of the endpoints", listed.Name)
		}
	}
	var errs []error
	for _, o := range others {
		errs = append(errs, m.serves(ctx, o.endpoint))
	}
	return errors.Join(errs...)
}

// serves returns nil if a member answers a linearizable read, which waits for a quorum, for all entries to be applied, and for the end of a
// defragmentation.
func (m *Maintainer) serves(ctx context.Context, endpoint string) error {
	err := m.at(ctx, endpoint, requestTimeout, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte(m.cfg.Prefix + "/maintainer"), CountOnly: true})
		return err
	})
	if err != nil {
		return fmt.Errorf("read at etcd member %s: %w", endpoint, err)
	}
	return nil
}

// moveLeader makes one of others the leader if from is. A learner cannot lead, and a silent member would renew no lease.
func (m *Maintainer) moveLeader(ctx context.Context, from member, others []member) error {
	next := slices.IndexFunc(others, func(o member) bool { return !o.learner && m.silent[o.endpoint].IsZero() })
	if !from.leader || next < 0 {
		return nil
	}
	to := others[next]
	err := m.at(ctx, from.endpoint, 3*requestTimeout, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pb.NewMaintenanceClient(conn).MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: to.id})
		return err
	})
	if err != nil {
		return fmt.Errorf("move etcd's leader from %s to %s: %w", from.endpoint, to.endpoint, err)
	}
	m.cfg.Logger.Info("moved etcd's leader before a defragmentation", zap.String("from", from.endpoint), zap.String("to", to.endpoint))
	return nil
}

// at calls do with a connection to one member.
func (m *Maintainer) at(ctx context.Context, endpoint string, timeout time.Duration, do func(context.Context, *grpc.ClientConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := m.cfg.Client.Dial(endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(ctx, conn)
}
