package group

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
)

// refusal is the answer of a membership API with an error for the whole request, as GroupCoordinatorService fills it in.
func refusal(in kmsg.Request, code int16) kmsg.Response {
	switch in := in.(type) {
	case *kmsg.JoinGroupRequest:
		out := kmsg.NewPtrJoinGroupResponse()
		out.ErrorCode, out.MemberID = code, in.MemberID
		if in.Version >= 7 {
			out.ProtocolType, out.Protocol = nil, nil
		} else {
			out.Protocol = kmsg.StringPtr("")
		}
		return out
	case *kmsg.SyncGroupRequest:
		out := kmsg.NewPtrSyncGroupResponse()
		out.ErrorCode = code
		return out
	case *kmsg.HeartbeatRequest:
		out := kmsg.NewPtrHeartbeatResponse()
		out.ErrorCode = code
		return out
	case *kmsg.LeaveGroupRequest:
		out := kmsg.NewPtrLeaveGroupResponse()
		out.ErrorCode = code
		return out
	case *kmsg.ConsumerGroupHeartbeatRequest:
		out := kmsg.NewPtrConsumerGroupHeartbeatResponse()
		out.ErrorCode = code
		return out
	default:
		panic(fmt.Sprintf("group: no refusal of %T", in))
	}
}

// groupLimited is the code for a new group that a limit of the state refuses, and for growth at a bound of its memory. Clients back off and try
// again, so they join once other groups are gone. After COORDINATOR_NOT_AVAILABLE, the consumer protocol of Java's client would try again without backing off
// (AbstractHeartbeatRequestManager.onErrorResponse).
var groupLimited = kerr.CoordinatorLoadInProgress

// isLimit reports whether an error is the refusal of a limit of the state, or of a bound of its memory. The owner logs both.
func isLimit(err error) bool {
	var limit *metadata.LimitError
	return errors.As(err, &limit) || errors.Is(err, owner.ErrOverloaded)
}

// limited is the refusal of a request at a limit. Java's client logs the message. For Java's consumer, groupLimited is fatal as the answer to
// SyncGroup. After COORDINATOR_NOT_AVAILABLE, the consumer joins again.
func limited(in kmsg.Request, limit error) kmsg.Response {
	if _, ok := in.(*kmsg.SyncGroupRequest); ok {
		return refusal(in, kerr.CoordinatorNotAvailable.Code)
	}
	out := refusal(in, groupLimited.Code)
	if beat, ok := out.(*kmsg.ConsumerGroupHeartbeatResponse); ok {
		beat.ErrorMessage = kmsg.StringPtr(limit.Error())
	}
	return out
}

// commitLimited returns the code for an offset that a limit of the state refuses. INVALID_COMMIT_OFFSET_SIZE is final for clients.
func commitLimited(limit *metadata.LimitError) int16 {
	if limit.Kind == metadata.LimitGroups {
		return groupLimited.Code
	}
	return kerr.InvalidCommitOffsetSize.Code
}
