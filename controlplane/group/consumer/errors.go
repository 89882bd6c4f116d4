package consumer

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// ErrMalformed is wrapped by what Restore gives for bytes that the group did not write.
var ErrMalformed = errors.New("consumer: malformed group")

// Error is a Kafka error code with the message that the answer carries where its API has room for one.
type Error struct {
	Code    int16
	Message string
}

// Error gives code and message.
func (e *Error) Error() string {
	return fmt.Sprintf("consumer: %v: %s", kerr.ErrorForCode(e.Code), e.Message)
}

func fault(kind *kerr.Error, format string, args ...any) *Error {
	return &Error{Code: kind.Code, Message: fmt.Sprintf(format, args...)}
}

func unknownMember(group, member string) *Error {
	return fault(kerr.UnknownMemberID, "Member %s is not a member of group %s.", member, group)
}
