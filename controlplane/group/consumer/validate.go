package consumer

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/assignor"
)

// clientMakesIDSince is the version of ConsumerGroupHeartbeat whose members bring their own id (KIP-1082).
const clientMakesIDSince = 1

// Validate returns the fault of a heartbeat that is one for any group: INVALID_REQUEST or UNSUPPORTED_ASSIGNOR, or nil. A caller
// calls it before it looks for the group. assignors are the allowed names.
// (GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid)
func Validate(req *kmsg.ConsumerGroupHeartbeatRequest, assignors []string) *Error {
	bad := func(message string) *Error { return fault(kerr.InvalidRequest, "%s", message) }
	needsID := req.Version >= clientMakesIDSince || req.MemberEpoch > 0 || req.MemberEpoch == epochLeave
	switch {
	case needsID && blank(req.MemberID):
		return bad("MemberId can't be empty.")
	case blank(req.Group):
		return bad("GroupId can't be empty.")
	case req.InstanceID != nil && blank(*req.InstanceID):
		return bad("InstanceId can't be empty.")
	case req.RackID != nil && blank(*req.RackID):
		return bad("RackId can't be empty.")
	case req.MemberEpoch == epochJoin && req.RebalanceTimeoutMillis == -1:
		return bad("RebalanceTimeoutMs must be provided in first request.")
	case req.MemberEpoch == epochJoin && (req.Topics == nil || len(req.Topics) > 0):
		return bad("TopicPartitions must be empty when (re-)joining.")
	case req.MemberEpoch == epochJoin && req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil:
		return bad("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
	case req.MemberEpoch == epochLeaveStatic && req.InstanceID == nil:
		return bad("InstanceId can't be null.")
	case req.MemberEpoch < epochLeaveStatic:
		return bad("MemberEpoch is invalid.")
	case req.ServerAssignor != nil && !allowed(*req.ServerAssignor, assignors):
		return fault(kerr.UnsupportedAssignor, "ServerAssignor %s is not supported. Supported assignors: %s.",
			*req.ServerAssignor, strings.Join(assignors, ", "))
	default:
		return nil
	}
}

func blank(s string) bool { return s == "" || strings.TrimSpace(s) == "" }

func allowed(name string, assignors []string) bool {
	return assignor.Known(name) && slices.Contains(assignors, name)
}
