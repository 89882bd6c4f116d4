package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/internal/accesskey"
)

// Session is a login of an account. Its cookie is a secret.
type Session struct {
	Head
	SHA256  string    `json:"-"` // of the secret, in hexadecimal digits
	Account string    `json:"account"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

const sessionKind = "sessions"

func (s *Session) kind() string     { return sessionKind }
func (s *Session) place() []*string { return []*string{&s.SHA256} }
func (s *Session) check() error {
	return errors.Join(ids(s.Account), created(s.Created), created(s.Expires))
}

// StartSession stores a session of an account and the address of the login. familiar reports whether the account remembered the address. Beyond
// MaxSessions, the oldest sessions end. Errors: those of Account, ErrInvalid, ErrConflict.
func (r *Registry) StartSession(ctx context.Context, accountID string, secret accesskey.Hash, address string, expires time.Time) (familiar bool, err error) {
	expires = expires.UTC().Truncate(time.Millisecond)
	err = retry(ctx, func() (bool, error) {
		a, err := r.Account(ctx, accountID)
		if err != nil {
			return false, err
		}
		lease, err := r.lease(ctx, expires)
		if err != nil {
			return false, err
		}
		now := r.now()
		s := &Session{Head: Head{lease: lease}, SHA256: secret.Digits(), Account: a.ID, Created: now, Expires: expires}
		known := Familiar{Address: address}
		i := slices.IndexFunc(a.Addresses, func(f Familiar) bool { return f.Address == address })
		if familiar = i >= 0; familiar {
			known = a.Addresses[i]
			a.Addresses = slices.Delete(a.Addresses, i, i+1)
		}
		a.Addresses = append(a.Addresses, known)
		a.Addresses = a.Addresses[max(0, len(a.Addresses)-MaxAddresses):]
		a.Passed.add(&attemptLimits[familiarLoginsPassed], now)
		a.Sessions = slices.DeleteFunc(a.Sessions, func(o OpenSession) bool { return !o.Expires.After(now) })
		ended := a.Sessions[:max(0, len(a.Sessions)+1-MaxSessions)]
		a.Sessions = append(slices.Clone(a.Sessions[len(ended):]), OpenSession{SHA256: s.SHA256, Expires: expires})
		ops, err := r.puts(a, s)
		if err != nil {
			return false, err
		}
		for _, o := range ended {
			ops = append(ops, clientv3.OpDelete(r.key(sessionKind, o.SHA256)))
		}
		return r.commitLeased(ctx, "start session", []clientv3.Cmp{r.unchanged(a), r.unchanged(s)}, ops)
	})
	return familiar, err
}

// Session returns the session of a secret. Errors: ErrNotFound also if it has expired, ErrMalformed, ErrNewer, etcd's.
func (r *Registry) Session(ctx context.Context, secret accesskey.Hash) (*Session, error) {
	s, err := read[Session](ctx, r, secret.Digits())
	if err != nil {
		return nil, err
	}
	if !s.Expires.After(r.now()) {
		return nil, fmt.Errorf("session %s: %w", secret, ErrNotFound)
	}
	return s, nil
}

// EndSession deletes the session of a secret, if it exists. Errors: those of Account, ErrConflict.
func (r *Registry) EndSession(ctx context.Context, secret accesskey.Hash) error {
	s, err := read[Session](ctx, r, secret.Digits())
	if err != nil {
		return ignoreNotFound(err)
	}
	return r.endSessions(ctx, s.Account, func(o OpenSession) bool { return o.SHA256 == s.SHA256 })
}

// EndSessions deletes all sessions of an account, for example after a change of the password. Errors: those of Account, ErrConflict.
func (r *Registry) EndSessions(ctx context.Context, accountID string) error {
	return r.endSessions(ctx, accountID, func(OpenSession) bool { return true })
}

// ChangePassword replaces the password hash of an account, and ends all sessions but that of a secret. former is the hash against which the caller has
// checked the former password. Errors: those of Account, ErrConflict if the hash is another one, ErrInvalid.
func (r *Registry) ChangePassword(ctx context.Context, accountID, former, next string, keep accesskey.Hash) error {
	return r.changeSessions(ctx, accountID, func(o OpenSession) bool { return o.SHA256 != keep.Digits() }, func(a *Account) (change, error) {
		if a.PasswordHash != former {
			return change{}, ErrConflict
		}
		a.PasswordHash = next
		return change{}, nil
	})
}

func (r *Registry) endSessions(ctx context.Context, accountID string, ends func(OpenSession) bool) error {
	return r.changeSessions(ctx, accountID, ends, func(*Account) (change, error) { return change{}, nil })
}

// changeSessions ends sessions of an account and changes the account, in one transaction. update may add to it, and runs several times.
func (r *Registry) changeSessions(ctx context.Context, accountID string, ends func(OpenSession) bool, update func(*Account) (change, error)) error {
	return retry(ctx, func() (bool, error) {
		a, err := r.Account(ctx, accountID)
		if err != nil {
			return false, err
		}
		further, err := update(a)
		if err != nil {
			return false, err
		}
		ops := further.ops
		a.Sessions = slices.DeleteFunc(a.Sessions, func(o OpenSession) bool {
			if !ends(o) {
				return false
			}
			ops = append(ops, clientv3.OpDelete(r.key(sessionKind, o.SHA256)))
			return true
		})
		op, err := r.put(a)
		if err != nil {
			return false, err
		}
		return r.commit(ctx, "end sessions", append(further.cmps, r.unchanged(a)), append(ops, op))
	})
}
