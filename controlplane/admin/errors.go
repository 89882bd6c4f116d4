package admin

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
)

// apiError is an error of Kafka's with the message that goes with it. Nil is no error.
type apiError struct {
	kafka   *kerr.Error
	message string
}

func failed(kafka *kerr.Error, message string) *apiError { return &apiError{kafka, message} }

// plain is an error with Kafka's standard message.
func plain(kafka *kerr.Error) *apiError { return &apiError{kafka, kafka.Description} }

// code is 0 for no error.
func (e *apiError) code() int16 {
	if e == nil {
		return 0
	}
	return e.kafka.Code
}

// text is nil for no error.
func (e *apiError) text() *string {
	if e == nil {
		return nil
	}
	return &e.message
}

// bytes returns the size of the message.
func (e *apiError) bytes() int {
	if e == nil {
		return 0
	}
	return len(e.message)
}

// throttleMs returns the throttle time of an answer with these errors. Without one, Java's admin client repeats a creation at once after
// THROTTLING_QUOTA_EXCEEDED (KafkaAdminClient.getCreateTopicsCall).
func throttleMs(errs []*apiError) int32 {
	if slices.ContainsFunc(errs, func(e *apiError) bool { return e != nil && e.kafka == kerr.ThrottlingQuotaExceeded }) {
		return 1000
	}
	return 0
}

// commandError translates the error of a command. At a bound of the metadata it is THROTTLING_QUOTA_EXCEEDED, as if the client had
// used up its quota of changes (KIP-599, ControllerMutationQuotaManager), in every version. At a limit of the state it is POLICY_VIOLATION,
// as by a CreateTopicPolicy of the cluster (KIP-108): clients do not repeat it, and show its message.
func commandError(err error) *apiError {
	var limit *metadata.LimitError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, metadata.ErrTopicExists):
		return plain(kerr.TopicAlreadyExists)
	case errors.Is(err, metadata.ErrUnknownTopic), errors.Is(err, metadata.ErrUnknownPartition):
		return plain(kerr.UnknownTopicOrPartition)
	case errors.Is(err, metadata.ErrPartitionCount):
		return plain(kerr.InvalidPartitions)
	case errors.Is(err, metadata.ErrReplicationFactor):
		return plain(kerr.InvalidReplicationFactor)
	case errors.Is(err, metadata.ErrConfigsTooLarge):
		return failed(kerr.InvalidConfig, err.Error())
	case errors.Is(err, errTooManyChanges): // EventHandlerExceptionInfo
		return failed(kerr.PolicyViolation, "Unable to perform excessively large batch operation.")
	case errors.As(err, &limit):
		return failed(kerr.PolicyViolation, limit.Error())
	case errors.Is(err, owner.ErrOverloaded):
		return failed(kerr.ThrottlingQuotaExceeded, err.Error())
	default:
		return failed(kerr.UnknownServerError, err.Error())
	}
}
