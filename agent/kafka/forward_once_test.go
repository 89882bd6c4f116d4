package kafka

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/client"
)

// A heartbeat that tells only what is new is not asked again: by the answer that was lost its member may have been given
// partitions, which no later answer to it would name.
func TestForward_AsksAboutNewsOnce(t *testing.T) {
	heartbeat := func(epoch int32, change func(*kmsg.ConsumerGroupHeartbeatRequest)) kmsg.Request {
		in := memberAt(epoch).(*kmsg.ConsumerGroupHeartbeatRequest)
		in.MemberID = "m"
		change(in)
		return in
	}
	everything := func(in *kmsg.ConsumerGroupHeartbeatRequest) {
		in.RebalanceTimeoutMillis, in.SubscribedTopicNames = 1000, []string{"t"}
		in.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	for _, c := range []struct {
		name string
		in   kmsg.Request
		once bool
	}{
		{"nothing new", heartbeat(3, func(*kmsg.ConsumerGroupHeartbeatRequest) {}), true},
		{"what it owns", heartbeat(3, func(in *kmsg.ConsumerGroupHeartbeatRequest) {
			in.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		}), true},
		{"what it subscribes to", heartbeat(3, func(in *kmsg.ConsumerGroupHeartbeatRequest) {
			in.SubscribedTopicNames = []string{"t"}
		}), true},
		{"everything", heartbeat(3, everything), false},
		{"joining", heartbeat(0, everything), false},
		{"leaving", heartbeat(-1, func(*kmsg.ConsumerGroupHeartbeatRequest) {}), false},
		{"of the classic protocol", anyRequest(int16(kmsg.Heartbeat)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got client.Forward
			cfg := Config{Forwarder: forwarderFunc(func(_ context.Context, f client.Forward) ([]byte, error) {
				got = f
				return nil, client.ErrInvalid // closes the connection, which nobody looks at here
			})}
			cfg.ApplyDefaults()
			start(t, newForwarded(c.in.Key(), cfg), 1, c.in, "")()
			require.Equal(t, c.in.Key(), got.Key)
			require.Equal(t, c.once, got.Once)
		})
	}
}
