package s3

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
)

// A service that gives no credentials now may give them to the next attempt; what it says of itself is nothing of objects.
func TestMapError_OfRequestsForCredentials(t *testing.T) {
	answer := func(status int) error {
		return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: errors.New("no")}
	}
	sentinels := []error{
		objstore.ErrNotFound, objstore.ErrAlreadyExists, objstore.ErrConflict, objstore.ErrThrottled, objstore.ErrOutcomeUnknown,
	}
	for _, c := range []struct{ err, want error }{
		{answer(http.StatusInternalServerError), objstore.ErrOutcomeUnknown},
		{&smithyhttp.RequestSendError{Err: errors.New("connection refused")}, objstore.ErrOutcomeUnknown},
		{context.DeadlineExceeded, objstore.ErrOutcomeUnknown},
		{answer(http.StatusTooManyRequests), objstore.ErrThrottled},
		{answer(http.StatusNotFound), nil},
		{answer(http.StatusForbidden), nil},
		{answer(http.StatusPreconditionFailed), nil},
		{answer(http.StatusConflict), nil},
	} {
		err := mapError(&smithy.OperationError{ServiceID: "S3", Err: &smithy.OperationError{ServiceID: "ec2imds", Err: c.err}}, true)
		for _, s := range sentinels {
			require.Equal(t, errors.Is(c.want, s), errors.Is(err, s), "%v of %v", s, c.err)
		}
	}
}
