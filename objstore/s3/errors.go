package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/freshet-io/freshet/objstore"
)

// sentinels are the answers' error codes that mean one of the bucket's errors whatever the status.
var sentinels = map[string]error{
	"NoSuchKey":                   objstore.ErrNotFound,
	"NotFound":                    objstore.ErrNotFound,
	"NoSuchUpload":                objstore.ErrNotFound,
	"PreconditionFailed":          objstore.ErrAlreadyExists,
	"ConditionalRequestConflict":  objstore.ErrConflict,
	"OperationAborted":            objstore.ErrConflict,
	"SlowDown":                    objstore.ErrThrottled,
	"ServiceUnavailable":          objstore.ErrThrottled,
	"Throttling":                  objstore.ErrThrottled,
	"ThrottlingException":         objstore.ErrThrottled,
	"RequestLimitExceeded":        objstore.ErrThrottled,
	"TooManyRequests":             objstore.ErrThrottled,
	"TooManyRequestsException":    objstore.ErrThrottled,
	"BadDigest":                   objstore.ErrChecksum,
	"XAmzContentChecksumMismatch": objstore.ErrChecksum,
	"XAmzContentSHA256Mismatch":   objstore.ErrChecksum,
	"ContentSHA256Mismatch":       objstore.ErrChecksum,
	"InvalidRange":                objstore.ErrRange,
	"RequestTimeout":              objstore.ErrOutcomeUnknown, // the server waited for the body
	"InternalError":               objstore.ErrOutcomeUnknown,
	"XMinioServerNotInitialized":  objstore.ErrThrottled,
	"SlowDownRead":                objstore.ErrThrottled,
	"SlowDownWrite":               objstore.ErrThrottled,
	"RequestTimeTooSkewed":        ErrClockSkew,
	"NoSuchBucket":                objstore.ErrNoBucket,
	// Stores that are full, or whose quota for the bucket or its owner is used up: MinIO's two codes and Ceph's.
	"XMinioStorageFull":              objstore.ErrFull,
	"XMinioAdminBucketQuotaExceeded": objstore.ErrFull,
	"QuotaExceeded":                  objstore.ErrFull,
	// Those of refusals that come with 400, or send elsewhere; all others have 401 or 403.
	"ExpiredToken":                 objstore.ErrRefused,
	"InvalidToken":                 objstore.ErrRefused,
	"AuthorizationHeaderMalformed": objstore.ErrRefused, // the region is wrong
	"PermanentRedirect":            objstore.ErrRefused, // the same
}

// ErrClockSkew means that the store refuses requests because this machine's clock is too far off.
var ErrClockSkew = fmt.Errorf("%w: clock differs too much from the object store's", objstore.ErrRefused)

// byStatus are the sentinels of answers without a known code, such as those to HEAD, which have no body.
var byStatus = map[int]error{
	http.StatusNotFound:                     objstore.ErrNotFound,
	http.StatusPreconditionFailed:           objstore.ErrAlreadyExists,
	http.StatusConflict:                     objstore.ErrConflict,
	http.StatusTooManyRequests:              objstore.ErrThrottled,
	http.StatusServiceUnavailable:           objstore.ErrThrottled,
	http.StatusRequestedRangeNotSatisfiable: objstore.ErrRange,
	http.StatusRequestTimeout:               objstore.ErrOutcomeUnknown,
	http.StatusUnauthorized:                 objstore.ErrRefused,
	http.StatusForbidden:                    objstore.ErrRefused,
	http.StatusInsufficientStorage:          objstore.ErrFull,
}

// mapError adds the bucket's sentinel to an error of the SDK. For writes, everything that leaves the outcome open
// (no answer at all, or a server's fault) is ErrOutcomeUnknown; for reads it stays the error it is.
func mapError(err error, write bool) error {
	sentinel := classify(err)
	err = brief{err}
	switch {
	case sentinel == nil:
		return err
	case errors.Is(sentinel, objstore.ErrOutcomeUnknown) && !write:
		return err
	default:
		return fmt.Errorf("%w: %w", sentinel, err)
	}
}

// brief is an error of the SDK with what a reader wants of its text: the store's code, message and request id, or why
// there was no answer.
type brief struct{ error }

func (b brief) Unwrap() error { return b.error }

func (b brief) Error() string {
	var credentials *credentialsError
	if errors.As(b.error, &credentials) {
		return credentials.Error()
	}
	var session *sessionError
	if errors.As(b.error, &session) {
		return session.Error()
	}
	var operation *smithy.OperationError
	if isOther(b.error) {
		errors.As(b.error, &operation)
		return operation.Err.Error()
	}
	var api smithy.APIError
	if errors.As(b.error, &api) {
		return fmt.Sprintf("%s: %s (status %d, request id %s)", api.ErrorCode(), api.ErrorMessage(), statusOf(b.error), requestID(b.error))
	}
	var send *smithyhttp.RequestSendError
	if errors.As(b.error, &send) {
		return send.Err.Error()
	}
	if errors.As(b.error, &operation) {
		return operation.Err.Error()
	}
	return b.error.Error()
}

// requestID is what the store's operators ask for, "none" if the answer has none.
func requestID(err error) string {
	var answer interface{ ServiceRequestID() string }
	if errors.As(err, &answer) && answer.ServiceRequestID() != "" {
		return answer.ServiceRequestID()
	}
	return "none"
}

// classify gives the sentinel of an error, nil if it has none. Of what was asked of another service first it says no more
// than whether asking again may help: a write would fail for good by a moment without fresh credentials.
func classify(err error) error {
	var session *sessionError
	if errors.As(err, &session) {
		return session.classify()
	}
	sentinel := classifyAnswer(err)
	if isOther(err) && !errors.Is(sentinel, objstore.ErrOutcomeUnknown) && !errors.Is(sentinel, objstore.ErrThrottled) {
		return nil
	}
	return sentinel
}

func classifyAnswer(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) {
		if s, ok := sentinels[api.ErrorCode()]; ok {
			return s
		}
	}
	status := statusOf(err)
	if status == 0 {
		if isLocal(err) {
			return nil
		}
		return objstore.ErrOutcomeUnknown // no answer
	}
	if s, ok := byStatus[status]; ok {
		return s
	}
	if status >= 500 || status < 300 { // an answer that could not be read says nothing about the request
		return objstore.ErrOutcomeUnknown
	}
	return nil
}

// isLocal is true for errors from before anything was sent: invalid parameters, no credentials.
func isLocal(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var send *smithyhttp.RequestSendError
	var unreadable *smithy.DeserializationError
	return !errors.As(err, &send) && !errors.As(err, &unreadable)
}

// isOther is true for errors of a request that the SDK made first, to another service for credentials: what was answered, by
// an instance without a role 404, says nothing about the object.
func isOther(err error) bool {
	var credentials *credentialsError
	if errors.As(err, &credentials) {
		return true
	}
	var operation, first *smithy.OperationError
	return errors.As(err, &operation) && errors.As(operation.Err, &first)
}

// errorCode is the code of the store's answer, "" if there is none.
func errorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// statusOf is the HTTP status of the answer that an error came from, 0 if there was none. Clients of the SDK have several
// types for it.
func statusOf(err error) int {
	var answered interface{ HTTPStatusCode() int }
	if errors.As(err, &answered) {
		return answered.HTTPStatusCode()
	}
	return 0
}

// dateOf is the Date header of the answer that an error came from, "" if there was none.
func dateOf(err error) string {
	var session *sessionError
	if errors.As(err, &session) {
		return dateOf(session.error)
	}
	var resp *smithyhttp.ResponseError
	if !isOther(err) && errors.As(err, &resp) && resp.Response != nil {
		return resp.Response.Header.Get("Date")
	}
	return ""
}
