package classic

import "github.com/twmb/franz-go/pkg/kerr"

// Kafka's error codes that a group answers with.
var (
	codeInvalidRequest       = kerr.InvalidRequest.Code
	codeUnknownServer        = kerr.UnknownServerError.Code
	codeCoordinatorLoading   = kerr.CoordinatorLoadInProgress.Code
	codeCoordinatorGone      = kerr.CoordinatorNotAvailable.Code
	codeNotCoordinator       = kerr.NotCoordinator.Code
	codeIllegalGeneration    = kerr.IllegalGeneration.Code
	codeInconsistentProtocol = kerr.InconsistentGroupProtocol.Code
	codeInvalidGroup         = kerr.InvalidGroupID.Code
	codeUnknownMember        = kerr.UnknownMemberID.Code
	codeInvalidSession       = kerr.InvalidSessionTimeout.Code
	codeRebalanceInProgress  = kerr.RebalanceInProgress.Code
	codeNonEmptyGroup        = kerr.NonEmptyGroup.Code
	codeGroupNotFound        = kerr.GroupIDNotFound.Code
	codeMemberIDRequired     = kerr.MemberIDRequired.Code
	codeGroupFull            = kerr.GroupMaxSizeReached.Code
	codeFencedInstance       = kerr.FencedInstanceID.Code
)
