package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/controlplane/registry/mail"
	"github.com/freshet-io/freshet/controlplane/registry/password"
)

// Problem is the body of an error, RFC 9457.
type Problem struct {
	Title  string  `json:"title" doc:"Text of the HTTP status."`
	Status int     `json:"status" doc:"HTTP status."`
	Detail string  `json:"detail" doc:"Cause of the error."`
	Errors []Fault `json:"errors,omitempty" nullable:"false" doc:"Faults of the request, by field."`

	headers http.Header
}

// Fault is a fault of one field of a request. It has no value, because the value can be a secret.
type Fault struct {
	Location string `json:"location" doc:"Path of the field, for example body.name or query.limit."`
	Message  string `json:"message" doc:"Requirement that the field does not meet."`
}

// Methods of huma's errors.

func (p *Problem) Error() string           { return p.Detail }
func (p *Problem) GetStatus() int          { return p.Status }
func (p *Problem) GetHeaders() http.Header { return p.headers }
func (*Problem) ContentType(string) string { return "application/problem+json" }
func problem(code int, text string) *Problem {
	return &Problem{Title: http.StatusText(code), Status: code, Detail: text, headers: http.Header{}}
}

// retryAfter is the value of Retry-After, in seconds.
const retryAfter = "2"

func unavailable(text string) *Problem {
	p := problem(http.StatusServiceUnavailable, text)
	p.headers.Set("Retry-After", retryAfter)
	return p
}

// tooMany is the answer to a request that can be repeated after a time.
func tooMany(text string, after time.Duration) *Problem {
	seconds := strconv.Itoa(int((after + time.Second - 1) / time.Second))
	p := problem(http.StatusTooManyRequests, text+": try again in "+seconds+" s")
	p.headers.Set("Retry-After", seconds)
	return p
}

// init replaces the errors of huma, which repeat values of the request.
func init() {
	huma.NewError = func(code int, text string, errs ...error) huma.StatusError {
		p := problem(code, text)
		for _, err := range errs {
			var detailer huma.ErrorDetailer
			if errors.As(err, &detailer) {
				detail := detailer.ErrorDetail()
				p.Errors = append(p.Errors, Fault{Location: detail.Location, Message: detail.Message})
			}
		}
		return p
	}
}

// field returns the problem of a field whose value the registry refuses, or err if it is another error.
func field(err error, location, requirement string) error {
	if !errors.Is(err, registry.ErrInvalid) {
		return err
	}
	p := problem(http.StatusUnprocessableEntity, "validation failed")
	p.Errors = []Fault{{Location: location, Message: requirement}}
	return p
}

// nameRequirement is the requirement of names of teams, agent keys and API tokens.
const nameRequirement = "expected 1 to 200 bytes of printable characters without spaces around them"

// emailRequirement is the requirement of e-mail addresses.
const emailRequirement = "expected an e-mail address without a name"

// answers has the status of each error. The text of the error is the detail.
var answers = []struct {
	err    error
	status int
}{
	{errAnonymous, http.StatusUnauthorized},
	{errOperator, http.StatusUnauthorized},
	{errPassword, http.StatusUnauthorized},
	{errSignUpPassword, http.StatusUnauthorized},
	{errOldPassword, http.StatusForbidden},
	{errClosed, http.StatusForbidden},
	{errInvitedOnly, http.StatusForbidden},
	{errNoMail, http.StatusForbidden},
	{errOrigin, http.StatusForbidden},
	{errSession, http.StatusForbidden},
	{errRole, http.StatusForbidden},
	{errCursor, http.StatusBadRequest},
	{registry.ErrRole, http.StatusForbidden},
	{registry.ErrOtherEmail, http.StatusForbidden},
	{errOutlives, http.StatusForbidden},
	{registry.ErrLastOwner, http.StatusConflict},
	{registry.ErrConflict, http.StatusConflict},
	{registry.ErrDeleting, http.StatusConflict},
	{registry.ErrTaken, http.StatusConflict},
	{errHasAccount, http.StatusConflict},
	{errKnownAddress, http.StatusConflict},
	{errConfirmed, http.StatusConflict},
	{errUnverified, http.StatusConflict},
	{errDeleted, http.StatusConflict},
	{errNameTaken, http.StatusConflict},
	{errNameDeleted, http.StatusConflict},
	{errNamePurged, http.StatusConflict},
	{errNoSpec, http.StatusConflict},
	{registry.ErrNotDeleted, http.StatusConflict},
	{registry.ErrPurged, http.StatusConflict},
	{registry.ErrBlocked, http.StatusForbidden},
	{registry.ErrExpired, http.StatusConflict},
	{errNoInvitation, http.StatusNotFound},
	{errNoSignUp, http.StatusNotFound},
	{errNoToken, http.StatusNotFound},
	{errNoID, http.StatusNotFound},
	{registry.ErrNotFound, http.StatusNotFound},
}

// notFoundAs returns replacement for registry.ErrNotFound, and any other error as it is.
func notFoundAs(err, replacement error) error {
	if errors.Is(err, registry.ErrNotFound) {
		return replacement
	}
	return err
}

// problemOf returns the answer to an error. Errors of etcd are 503, and others 500. Both are logged, and their text is not answered.
func (h *Handler) problemOf(route string, err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var paused *registry.PausedError
	switch {
	case errors.As(err, &paused):
		return tooMany("too many "+paused.Of, paused.After)
	case errors.Is(err, mail.ErrFull):
		return unavailable(err.Error())
	case errors.Is(err, password.ErrBusy):
		return tooMany("the server is at its limit of passwords that it checks at once", time.Second)
	}
	var bound *registry.BoundError
	if errors.As(err, &bound) {
		return problem(http.StatusForbidden, bound.Error())
	}
	if !unreadable(err) {
		for _, a := range answers {
			if errors.Is(err, a.err) {
				p := problem(a.status, a.err.Error())
				if a.status == http.StatusUnauthorized {
					p.headers.Set("WWW-Authenticate", `Bearer realm="freshet"`)
				}
				return p
			}
		}
		if away(err) {
			h.cfg.Logger.Warn("HTTP request failed in etcd", zap.String("route", route), zap.Error(err))
			return unavailable("the store is not available: try again")
		}
	}
	h.cfg.Logger.Error("HTTP request failed", zap.String("route", route), zap.Error(err))
	return problem(http.StatusInternalServerError, "the server cannot read or write its records")
}

// unreadable reports whether a record in etcd does not decode.
func unreadable(err error) bool {
	for _, fault := range []error{registry.ErrMalformed, registry.ErrNewer, directory.ErrSpec, directory.ErrNewer} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}

// away reports whether an error is etcd's or the end of the request's time.
func away(err error) bool {
	var etcd rpctypes.EtcdError
	code := status.Code(err)
	return errors.As(err, &etcd) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled
}

// writeProblem writes an error outside of huma's handlers.
func writeProblem(w http.ResponseWriter, p *Problem) {
	for name, values := range p.headers {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client has gone away
}
