package client

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/freshet-io/freshet/controlplane/api"
)

var (
	// ErrUnavailable: there was no answer in time. The outcome is unknown; asking again is safe and gives it.
	ErrUnavailable = errors.New("control plane unavailable")
	// ErrThrottled is returned for a call that the owner refused at a bound, which the error's text names. The call had no effect.
	// ErrThrottled is an ErrUnavailable.
	ErrThrottled = fmt.Errorf("%w: refused", ErrUnavailable)
	// ErrSessionClosed: the agent session that the call belongs to was closed and the call took no effect (I9).
	ErrSessionClosed = errors.New("agent session closed")
	// ErrLate: the commit came to the owner after its time. Neither it nor an earlier attempt took effect, and none will.
	ErrLate = errors.New("the commit is late")
	// ErrLarge is returned for an answer larger than Forward.Room.
	ErrLarge = errors.New("the answer is larger than the room for it")
	// ErrInvalid: the owner refused the call as malformed; repeating it gives the same answer.
	ErrInvalid = errors.New("refused by the control plane")
)

// WrongBucketError ends a Session whose agent has a bucket that does not belong to the virtual cluster.
type WrongBucketError struct {
	ClusterID      string           // of the virtual cluster
	VirtualCluster string           // its name, "" from older owners
	Check          *api.BucketCheck // by which the agent may prove that the bucket is the right one, or nil
}

func (e *WrongBucketError) Error() string {
	return fmt.Sprintf("the agent's bucket does not belong to cluster %s", e.ClusterID)
}

// Refusal is why no control plane lets an agent in.
type Refusal int

// Refusals.
const (
	UnknownKey     Refusal = iota + 1 // the agent key is none of the control plane's
	UnknownCluster                    // the virtual cluster is not served for the key
	SpeaksTLS                         // the address speaks TLS, the agent does not
	SpeaksPlain                       // the agent speaks TLS, the address does not
	OtherProtocol                     // the owner's protocol is more than one from the agent's
)

// protocolError is the error of a stream that ended because of the agent's protocol.
type protocolError struct{ address, reason string }

func (e *protocolError) Error() string {
	return fmt.Sprintf("refused by the control plane at %s: %s", e.address, e.reason)
}

// RefusedError ends a Session that was never open, after every control plane or the owner's protocol has refused it for 30 s.
type RefusedError struct {
	Refusal Refusal
	Address string // of one that refused
	Err     error
}

func (e *RefusedError) Error() string { return fmt.Sprintf("refused by %s: %v", e.Address, e.Err) }

func (e *RefusedError) Unwrap() error { return e.Err }

// explainCertificate adds the remedy to the error of a handshake with a certificate of an unknown authority. gRPC keeps only the text of such an error.
func explainCertificate(err error) error {
	if err == nil || !strings.Contains(err.Error(), (x509.UnknownAuthorityError{}).Error()) {
		return err
	}
	return fmt.Errorf("%w; if it is a private authority, give its certificate with --control-plane-tls-ca FILE", err)
}

// unavailable wraps the end of a caller's context.
func unavailable(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
}

// callError translates the error of an answer; nil if there is none.
func callError(e *api.Error) error {
	if e == nil {
		return nil
	}
	switch e.Code {
	case api.Error_INVALID:
		return fmt.Errorf("%w: %s", ErrInvalid, e.Message)
	case api.Error_THROTTLED:
		return fmt.Errorf("%w: %s", ErrThrottled, e.Message)
	case api.Error_LATE:
		return ErrLate
	case api.Error_LARGE:
		return ErrLarge
	default:
		return fmt.Errorf("%w: %s", ErrUnavailable, e.Message)
	}
}
