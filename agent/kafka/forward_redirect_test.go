package kafka

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/client"
)

func memberCommit() kmsg.Request {
	in := kmsg.NewPtrOffsetCommitRequest()
	in.Group, in.MemberID, in.Generation = "g", "m", 3
	return in
}

// memberAt is the heartbeat of a member of the consumer protocol at this epoch.
func memberAt(epoch int32) kmsg.Request {
	in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	in.Group, in.MemberID, in.MemberEpoch = "g", "m", epoch
	return in
}

// anonymousCommit is the commit of a consumer that is in no group.
func anonymousCommit() kmsg.Request {
	in := kmsg.NewPtrOffsetCommitRequest()
	in.Group, in.Generation = "g", -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = "t", append(topic.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
	in.Topics = append(in.Topics, topic)
	return in
}

// TestForward_DrainingRedirects checks which coordinator requests an agent redirects once it has left the membership: heartbeats of
// members, and commits without one.
func TestForward_DrainingRedirects(t *testing.T) {
	left, forwarded := false, 0
	to := forwarderFunc(func(context.Context, client.Forward) ([]byte, error) {
		forwarded++
		return nil, client.ErrInvalid // closes the connection; this test does not use it further
	})
	cfg := Config{Forwarder: to, Left: func() bool { return left }}
	cfg.ApplyDefaults()
	cases := []struct {
		name    string
		in      kmsg.Request
		version int16
		sentOn  bool
	}{
		{"heartbeat", anyRequest(int16(kmsg.Heartbeat)), 4, true},
		{"old heartbeat", anyRequest(int16(kmsg.Heartbeat)), 0, true},
		{"consumer protocol", memberAt(7), 1, true},
		{"joining", memberAt(0), 1, false},
		{"leaving", memberAt(-1), 1, false},
		{"leaving for a while", memberAt(-2), 1, false},
		{"leave", anyRequest(int16(kmsg.LeaveGroup)), 5, false},
		{"commit of a member", memberCommit(), 9, false},
		{"commit without a member", anonymousCommit(), 9, true},
		{"old commit without a member", anonymousCommit(), 2, true},
		{"join", anyRequest(int16(kmsg.JoinGroup)), 9, false},
		{"sync", anyRequest(int16(kmsg.SyncGroup)), 5, false},
		{"end of a transaction", anyRequest(int16(kmsg.EndTxn)), 5, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, left = range []bool{false, true} {
				forwarded = 0
				reply := start(t, newForwarded(c.in.Key(), cfg), c.version, c.in, "")()
				if !left || !c.sentOn {
					require.Equal(t, 1, forwarded)
					continue
				}
				require.Zero(t, forwarded)
				require.Equal(t, []int16{kerr.NotCoordinator.Code}, reply.Errors)
			}
		})
	}
}

// TestForward_DrainingRefusesACommitOnce checks that a connection which repeats a refused commit has it forwarded.
func TestForward_DrainingRefusesACommitOnce(t *testing.T) {
	forwarded := 0
	to := forwarderFunc(func(context.Context, client.Forward) ([]byte, error) {
		forwarded++
		return nil, client.ErrInvalid
	})
	cfg := Config{Forwarder: to, Left: func() bool { return true }}
	cfg.ApplyDefaults()
	commits := newForwarded(int16(kmsg.OffsetCommit), cfg)
	require.Equal(t, []int16{kerr.NotCoordinator.Code}, start(t, commits, 9, anonymousCommit(), "")().Errors)
	start(t, commits, 9, anonymousCommit(), "")()
	require.Equal(t, 1, forwarded)
}
