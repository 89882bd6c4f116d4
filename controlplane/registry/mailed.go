package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/metadata/id"
)

// Lives of the secrets in mails. Each is valid once.
const (
	// SignUpLife is the time from a sign-up to the confirmation of its e-mail address.
	SignUpLife = 24 * time.Hour
	// ResetLife is the time from the request for a reset of a password to the reset.
	ResetLife = time.Hour
	// MaxPendingSignUps bounds the sign-ups that wait for a confirmation, plus the requests in progress.
	MaxPendingSignUps = 10_000
)

// PendingSignUp is a sign-up whose e-mail address is not confirmed yet. The address may have an account. A mail has the secret.
type PendingSignUp struct {
	Head
	SHA256       string    `json:"-"`     // of the secret, in hexadecimal digits
	Email        string    `json:"email"` // NormalizeEmail
	PasswordHash string    `json:"password_hash"`
	Team         string    `json:"team"`    // name
	Cluster      string    `json:"cluster"` // name
	Demo         bool      `json:"demo,omitempty"`
	Created      time.Time `json:"created"`
	Expires      time.Time `json:"expires"`
}

// reset is a request for a reset of a password. A mail has the secret.
type reset struct {
	Head
	SHA256  string    `json:"-"` // of the secret, in hexadecimal digits
	Account string    `json:"account"`
	Former  string    `json:"former"` // SHA-256 of the password hash: any change of the password ends the request
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

const (
	pendingKind = "sign-ups"
	resetKind   = "password-resets"
)

func (p *PendingSignUp) kind() string     { return pendingKind }
func (p *PendingSignUp) place() []*string { return []*string{&p.SHA256} }
func (p *PendingSignUp) check() error {
	return errors.Join(text("e-mail", p.Email, MaxEmailBytes), text("password hash", p.PasswordHash, MaxPasswordHashBytes), text("team", p.Team, MaxNameBytes),
		text("cluster", p.Cluster, id.MaxVirtualClusterName), created(p.Created), created(p.Expires))
}

func (r *reset) kind() string     { return resetKind }
func (r *reset) place() []*string { return []*string{&r.SHA256} }
func (r *reset) check() error {
	return errors.Join(ids(r.Account), text("former", r.Former, 2*sha256Size), created(r.Created), created(r.Expires))
}

// RequestSignUp stores a sign-up for its confirmation. Errors: ErrInvalid, BoundError, ErrConflict, etcd's.
func (r *Registry) RequestSignUp(ctx context.Context, p PendingSignUp, secret accesskey.Hash) (err error) {
	if p.Email, err = NormalizeEmail(p.Email); err != nil {
		return err
	}
	have, err := r.count(ctx, pendingKind)
	if err == nil && have >= MaxPendingSignUps {
		err = &BoundError{Bound: "sign-ups that are not confirmed", Limit: MaxPendingSignUps}
	}
	if err != nil {
		return err
	}
	p.SHA256, p.Created = secret.Digits(), r.now()
	p.Expires = p.Created.Add(SignUpLife)
	return r.storeLeased(ctx, "request sign-up", &p, p.Expires)
}

// storeLeased stores a new record that expires. Errors: ErrInvalid, ErrConflict, etcd's.
func (r *Registry) storeLeased(ctx context.Context, action string, rec record, expires time.Time) error {
	return retry(ctx, func() (done bool, err error) {
		if rec.head().lease, err = r.lease(ctx, expires); err != nil {
			return false, err
		}
		op, err := r.put(rec)
		if err != nil {
			return false, err
		}
		return r.commitLeased(ctx, action, []clientv3.Cmp{r.unchanged(rec)}, []clientv3.Op{op})
	})
}

// PendingSignUp returns the sign-up of a secret. Errors: ErrNotFound also if it has expired or was confirmed, ErrMalformed, ErrNewer, etcd's.
func (r *Registry) PendingSignUp(ctx context.Context, secret accesskey.Hash) (*PendingSignUp, error) {
	p, err := read[PendingSignUp](ctx, r, secret.Digits())
	if err == nil && !p.Expires.After(r.now()) {
		err = fmt.Errorf("sign-up %s: %w", secret, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// RequestReset stores a request for a reset of an account's password. Errors: ErrInvalid, ErrConflict, etcd's.
func (r *Registry) RequestReset(ctx context.Context, a *Account, secret accesskey.Hash) error {
	now := r.now()
	req := &reset{SHA256: secret.Digits(), Account: a.ID, Former: accesskey.HashOf(a.PasswordHash).Digits(), Created: now, Expires: now.Add(ResetLife)}
	return r.storeLeased(ctx, "request reset of password", req, req.Expires)
}

// Resettable returns ErrNotFound unless a secret is that of a request for a reset. Errors: ErrNotFound, ErrMalformed, ErrNewer, etcd's.
func (r *Registry) Resettable(ctx context.Context, secret accesskey.Hash) error {
	_, err := r.reset(ctx, secret)
	return err
}

func (r *Registry) reset(ctx context.Context, secret accesskey.Hash) (*reset, error) {
	req, err := read[reset](ctx, r, secret.Digits())
	if err == nil && !req.Expires.After(r.now()) {
		err = fmt.Errorf("reset %s: %w", secret, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return req, nil
}

// ResetPassword replaces the password hash of the account of a request, and ends the request and all sessions of the account. The account's e-mail address is
// verified, since its mail had the secret. Errors: those of Account, ErrNotFound also for a request that is not valid, ErrConflict, ErrInvalid.
func (r *Registry) ResetPassword(ctx context.Context, secret accesskey.Hash, hash string) (accountID string, err error) {
	req, err := r.reset(ctx, secret)
	if err != nil {
		return "", err
	}
	all := func(OpenSession) bool { return true }
	return req.Account, r.changeSessions(ctx, req.Account, all, func(a *Account) (change, error) {
		req, err := r.reset(ctx, secret) // again, because another reset may have come first
		if err == nil && accesskey.HashOf(a.PasswordHash).Digits() != req.Former {
			err = fmt.Errorf("reset %s: %w", secret, ErrNotFound)
		}
		if err != nil {
			return change{}, err
		}
		if a.PasswordHash = hash; a.Verified.IsZero() {
			a.Verified = r.now()
		}
		return change{cmps: []clientv3.Cmp{r.unchanged(req)}, ops: []clientv3.Op{r.remove(req)}}, nil
	})
}
