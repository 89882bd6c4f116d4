package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/freshet-io/freshet/objstore"
)

// Fault is an object store error with a constant log message and advice for the operator.
type Fault struct {
	Kind    string    // log message, from faults
	Check   string    // settings and parts to check
	Address string    // of the store; "" if it is unknown
	Since   time.Time // start of the first of the failed attempts in a row; zero if there was one attempt
	Err     error
}

// Error returns one line such as "object store at 10.0.0.1:9000 refuses access, 12 s: " and the cause. A store that does not answer has
// no other cause.
func (f *Fault) Error() string {
	text := f.Kind
	if f.Address != "" {
		text = strings.Replace(text, "object store", "object store at "+f.Address, 1)
	}
	if !f.Since.IsZero() {
		text += fmt.Sprintf(", %d s", int64(time.Since(f.Since).Round(time.Second)/time.Second))
	}
	if errors.Is(f.Err, errSilent) {
		return text
	}
	return text + ": " + f.Err.Error()
}

func (f *Fault) Unwrap() error { return f.Err }

// away reports whether the store may only be starting: its name is unknown, it accepts no connection, or it does not answer.
func (f *Fault) away() bool {
	var name *net.DNSError
	var op *net.OpError
	return errors.Is(f.Err, errSilent) || errors.As(f.Err, &name) || errors.As(f.Err, &op) && op.Op == "dial"
}

// Refused reports whether this process's own settings are wrong: its credentials, permissions or bucket name. Other processes may work.
func (f *Fault) Refused() bool {
	return errors.Is(f.Err, objstore.ErrRefused) || errors.Is(f.Err, objstore.ErrNoBucket) || errors.Is(f.Err, objstore.ErrNoCredentials)
}

// errSilent is the error of an attempt that timed out.
var errSilent = errors.New("no answer")

// faults maps errors to log messages and advice. The first match counts.
var faults = []struct {
	is          func(error) bool
	kind, check string
}{
	{
		of(objstore.ErrNoCredentials), "no credentials for the object store",
		"the keys in the environment or in the bucket's URL, or the role of this instance, pod or task",
	},
	{
		of(objstore.ErrNoBucket), "there is no such bucket in the object store",
		"the name in --bucket, its region and its endpoint",
	},
	{
		of(objstore.ErrRefused), "object store refuses access",
		"the access key and secret key or the role, what its policy allows in the bucket, the region, and this machine's clock",
	},
	{
		of(objstore.ErrFull), "object store is full",
		"the room in it, and quotas of the bucket and its owner",
	},
	{
		of(objstore.ErrReadOnly), "object store is read-only",
		"how the directory's file system is mounted, and whether it was remounted after a fault of the disk",
	},
	{
		of(errSilent), "object store does not answer",
		"the region and endpoint in --bucket, and whether firewalls, security groups, routes and proxies let this machine through to it",
	},
	{
		unreached, "object store cannot be reached",
		"the region and endpoint in --bucket, name resolution, TLS and ca-file, and whether the store runs",
	},
	{
		of(objstore.ErrThrottled), "object store throttles requests", "the request rate of the bucket and its prefixes",
	},
}

func of(sentinel error) func(error) bool {
	return func(err error) bool { return errors.Is(err, sentinel) }
}

// unreached reports whether an error occurred before a request reached the store.
func unreached(err error) bool {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	var op *net.OpError
	return errors.As(err, &name) || errors.As(err, &certificate) || errors.As(err, &header) || errors.As(err, &op) && op.Op == "dial"
}

// diagnose returns the Fault of a store error.
func diagnose(err error) *Fault {
	for _, f := range faults {
		if f.is(err) {
			return &Fault{Kind: f.kind, Check: f.check, Err: err}
		}
	}
	return &Fault{Kind: "object store returns an unexpected error", Check: "whether --bucket names a working store", Err: err}
}

// silentError is the error of an attempt that timed out. Its text leaves the client's words out, which say that a context ended.
type silentError struct{ err error }

func (e *silentError) Error() string { return fmt.Sprintf("%v within %s", errSilent, limit) }

func (e *silentError) Unwrap() []error { return []error{errSilent, e.err} }

// silence wraps err in a silentError if the attempt timed out.
func silence(attempt context.Context, err error) error {
	if err != nil && errors.Is(attempt.Err(), context.DeadlineExceeded) {
		return &silentError{err}
	}
	return err
}
