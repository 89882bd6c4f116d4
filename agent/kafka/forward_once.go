package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
)

// asksOnce tells whether a request is not to be asked again where its answer was lost. That is a heartbeat of a member of
// the consumer protocol that tells only what is new: by the answer that was lost the member may have come to another epoch
// and been given partitions, which the next answer to the same request would not name, or refuse it for. Told that there
// is no coordinator, clients begin anew with a heartbeat that tells everything, and are answered with everything
// (AbstractHeartbeatRequestManager.onErrorResponse, GroupMetadataManager.consumerGroupHeartbeat).
func asksOnce(req *edge.Request) bool {
	if req.Key != int16(kmsg.ConsumerGroupHeartbeat) {
		return false
	}
	in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	if Decode(req, in) != nil || in.MemberEpoch <= 0 {
		return false
	}
	everything := in.RebalanceTimeoutMillis != -1 && in.Topics != nil &&
		(in.SubscribedTopicNames != nil || in.SubscribedTopicRegex != nil)
	return !everything
}
