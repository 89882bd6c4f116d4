package group

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
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
