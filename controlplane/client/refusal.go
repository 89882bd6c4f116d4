package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/internal/spoken"
)

// answerError is the error of one replica's answer.
type answerError struct {
	address string
	err     error
}

func (e *answerError) Error() string { return e.address + ": " + e.err.Error() }

func (e *answerError) Unwrap() error { return e.err }

// ownerError is what all replicas answered that were asked for the owner.
type ownerError struct{ answers []error }

func (e *ownerError) Error() string {
	return errors.Join(append([]error{errNoOwner}, e.answers...)...).Error()
}

func (e *ownerError) Unwrap() []error { return append([]error{errNoOwner}, e.answers...) }

// refusals decides when a Session that was never open ends because its settings are wrong. All replicas must refuse for refusalPatience,
// since a rotated agent key reaches them one by one. A protocol that is too far from the owner's needs no second replica.
type refusals struct {
	since  time.Time              // first of the consecutive refusals; zero if the last attempt was not refused
	looked time.Time              // when kinds was last cleared
	kinds  map[string]spoken.Kind // TLS or plain text, by address
}

// lookAgain is how long an entry of kinds is valid.
const lookAgain = 5 * time.Second

// refusalPatience is how long all replicas must refuse a session that never was open before it ends.
const refusalPatience = 30 * time.Second

// after records the error of an attempt. It returns a RefusedError once attempts were refused for refusalPatience.
func (r *refusals) after(ctx context.Context, s *Session, err error) error {
	if time.Since(r.looked) > lookAgain {
		r.looked, r.kinds = time.Now(), map[string]spoken.Kind{}
	}
	refusal := r.of(ctx, s.cfg, err)
	if refusal == nil {
		r.since = time.Time{}
		return nil
	}
	if r.since.IsZero() {
		r.since = time.Now()
	}
	if time.Since(r.since) < refusalPatience {
		return nil
	}
	return refusal
}

// of returns the refusal of an attempt, or nil. An attempt is refused by the owner's protocol, or by every replica that it asked.
func (r *refusals) of(ctx context.Context, cfg Config, err error) *RefusedError {
	var protocol *protocolError
	if errors.As(err, &protocol) {
		return &RefusedError{Refusal: OtherProtocol, Address: protocol.address, Err: err}
	}
	var all *ownerError
	if !errors.As(err, &all) || len(all.answers) == 0 {
		return nil
	}
	var found *RefusedError
	for _, answer := range all.answers {
		var a *answerError
		if !errors.As(answer, &a) {
			return nil
		}
		if found = r.ofAnswer(ctx, cfg, a); found == nil {
			return nil
		}
	}
	return found
}

func (r *refusals) ofAnswer(ctx context.Context, cfg Config, a *answerError) *RefusedError {
	refused := func(why Refusal) *RefusedError { return &RefusedError{Refusal: why, Address: a.address, Err: a.err} }
	switch status.Code(a.err) {
	case codes.Unauthenticated:
		return refused(UnknownKey)
	case codes.PermissionDenied:
		return refused(UnknownCluster)
	case codes.Unavailable, codes.DeadlineExceeded: // no connection, or none that speaks gRPC
	default:
		return nil
	}
	kind, known := r.kinds[a.address]
	if !known {
		kind = spoken.At(ctx, a.address, spoken.Dial(cfg.Dial))
		r.kinds[a.address] = kind
	}
	switch {
	case kind == spoken.TLS && cfg.TLS == nil:
		return refused(SpeaksTLS)
	case kind == spoken.Plain && cfg.TLS != nil:
		return refused(SpeaksPlain)
	}
	return nil
}
