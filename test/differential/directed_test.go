package differential

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// playDirected plays sequences whose course matters: what is drawn may miss it.
func playDirected(t *testing.T, servers [2]*server) {
	t.Helper()
	t.Run("a member is to revoke twice, then joins again", func(t *testing.T) {
		a, b, c, d := 0, 1, 2, 3
		s := sequence{traits: slices.Repeat([]traits{{assignor: "range"}}, 4), ops: []op{
			beatOp(a, 0), beatOp(b, 0), beatOp(a, 4), beatOp(c, 0), beatOp(d, 0), beatOp(a, 2), beatOp(a, 1), beatOp(a, 0),
		}}
		var epochs []int32
		s.ops = slices.Insert(s.ops, 6, op{slot: a, build: func(c *client) kmsg.Request {
			epochs = append(epochs, c.epoch)
			return nil
		}})
		f, _ := run(s, servers, 0, nil)
		require.Nil(t, f)
		require.Equal(t, []int32{2, 2}, epochs, "the member stays at its epoch")
	})
}

// beatOp is a heartbeat of a member that owns the first partitions of its topic: to join if there are none of them.
func beatOp(slot, owned int) op {
	return op{slot: slot, build: func(c *client) kmsg.Request {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch = c.group(0), c.consumerID, c.epoch
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if owned == 0 {
			req.MemberEpoch, req.RebalanceTimeoutMillis = 0, sessionMs
			req.SubscribedTopicNames, req.ServerAssignor = []string{"four"}, &c.assignor
		} else {
			req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{
				TopicID: c.server.topics["four"], Partitions: []int32{0, 1, 2, 3}[:owned],
			})
		}
		req.SetVersion(1)
		return req
	}}
}
