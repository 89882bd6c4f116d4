package kafka

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/client"
)

// memberAt is the heartbeat of a member of the consumer protocol at this epoch.
func memberAt(epoch int32) kmsg.Request {
	in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	in.Group, in.MemberID, in.MemberEpoch = "g", "m", epoch
	return in
}

// TestForward_DrainingSendsMembersOn: heartbeats of an agent that has left are sent on; nobody's joining or leaving, commit
// or anything else is.
func TestForward_DrainingSendsMembersOn(t *testing.T) {
	left, forwarded := false, 0
	to := forwarderFunc(func(context.Context, client.Forward) ([]byte, error) {
		forwarded++
		return nil, client.ErrInvalid // closes the connection, which nobody looks at here
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
		{"commit", anyRequest(int16(kmsg.OffsetCommit)), 9, false},
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
