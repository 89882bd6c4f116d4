package kafka

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
)

const (
	// redirectPause is how long a redirected member or producer is served before it is redirected again. Without it, a load balancer
	// that sends a zone's clients to another zone, or agents that disagree for a moment, would keep a client from its coordinator for ever.
	redirectPause = 10 * time.Minute
	// maxRedirects bounds the names in one such memory. Beyond it, clients are served and not redirected.
	maxRedirects = 10_000
)

// strayWindow is how long an agent refuses the batches that a connection abroad sends to a partition, from the first one on. Batches that were
// in flight with the first one arrive in this time, and are not stored before it. Batches of the rest of redirectPause are stored, because a load
// balancer may have sent the client here again: sarama gives up after three retries, 100 ms apart.
const strayWindow = 200 * time.Millisecond

// strays refuses the batches of producers abroad with NOT_LEADER_OR_FOLLOWER, as a broker of Kafka does that no longer leads the partition
// (ReplicaManager.appendRecords). sarama looks for a partition's leader only after an error (partitionProducer.dispatch), so it would write
// abroad for ever.
type strays struct {
	views *Views
	seen  *recent // partitions by connection
}

// strayed returns the function that reports whether to refuse a partition's batch, or nil if the client is not abroad.
func (s *strays) strayed(snapshot *view.Snapshot, req *edge.Request) func(*view.Topic, int32) bool {
	if s.views == nil || !s.views.Abroad(snapshot, req) {
		return nil
	}
	return func(t *view.Topic, partition int32) bool {
		name := fmt.Sprintf("%d/%x/%d", req.Client.ID, t.ID, partition)
		return s.seen.first(name, req.Arrived, strayWindow)
	}
}

// newRedirects returns an empty memory of redirected members, producers, connections or partitions.
func newRedirects() *recent { return newRecent(redirectPause, maxRedirects) }

// Abroad reports whether every agent knows the zone of a request's client, that zone has agents, and this agent is in another one.
// Such a client connected before its zone had an agent, or bootstrapped here.
func (v *Views) Abroad(s *view.Snapshot, req *edge.Request) bool {
	zone, named := v.zones.Of(req)
	if !named || zone == v.zones.own {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.membershipOf(s).reached[reach{zone, req.Client.Listener}]
	return ok
}

// ClosesAbroad reports whether this agent closes a client's idle connections because the client is abroad. Clients of sarama keep them: sarama
// notices a closed connection only at its next request. If that is a Metadata request, sarama forgets the broker (client.tryRefreshMetadata).
// If the agents of its zone have died, sarama then knows no broker, and asks only the addresses that it started with.
func (v *Views) ClosesAbroad(s *view.Snapshot, req *edge.Request) bool {
	return req.Client.Software().Name != "sarama" && v.Abroad(s, req)
}

// redirectAbroad redirects a client abroad with NOT_COORDINATOR; FindCoordinator then names an agent of its zone. Group members are
// redirected by a heartbeat, transactional producers by a request that they retry, and consumers that only commit offsets by a
// commit, which an application without retries sees fail. It returns nil if the request is to be forwarded: a refused JoinGroup or
// SyncGroup may rebalance the group.
func (f *forwarded) redirectAbroad(req *edge.Request) kmsg.Response {
	if f.views == nil || !slices.Contains(homeward, kmsg.Key(req.Key)) || !f.views.Abroad(f.catalogue.Load(), req) {
		return nil
	}
	in := kmsg.RequestForKey(req.Key)
	if in == nil || Decode(req, in) != nil {
		return nil
	}
	name := redirectable(in)
	if name == "" || !f.redirected.allow(strings.Join([]string{name, req.ClientID, req.Client.Host}, "\x00"), req.Arrived) {
		return nil
	}
	return failed(in, failure{code: kerr.NotCoordinator.Code})
}

// homeward are the APIs that redirectable knows.
var homeward = []kmsg.Key{
	kmsg.Heartbeat, kmsg.ConsumerGroupHeartbeat, kmsg.OffsetCommit, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn,
}

// redirectable returns the name of the member, group or producer that a request is of, or "" if the request is not redirected.
func redirectable(in kmsg.Request) string {
	switch in := in.(type) {
	case *kmsg.HeartbeatRequest:
		return in.MemberID
	case *kmsg.ConsumerGroupHeartbeatRequest:
		if in.MemberEpoch > 0 {
			return in.MemberID
		}
	case *kmsg.OffsetCommitRequest:
		if in.MemberID == "" && in.Generation < 0 {
			return in.Group
		}
	case *kmsg.AddPartitionsToTxnRequest:
		return in.TransactionalID // "" from version 4 on, which brokers send
	case *kmsg.AddOffsetsToTxnRequest:
		return in.TransactionalID
	case *kmsg.TxnOffsetCommitRequest:
		return in.TransactionalID
	case *kmsg.EndTxnRequest:
		return in.TransactionalID
	}
	return ""
}
