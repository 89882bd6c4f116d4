package registry

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Account is a user of the console. UpdateAccount changes the first four fields, other methods the rest.
type Account struct {
	Head
	ID           string    `json:"-"`
	Email        string    `json:"email"` // NormalizeEmail; no other account has it
	Name         string    `json:"name"`
	PasswordHash string    `json:"password_hash,omitempty"` // argon2id, opaque here; "" without a password
	Verified     time.Time `json:"verified,omitzero"`       // time at which the e-mail address was verified
	Created      time.Time `json:"created"`
	// Addresses are those of former logins, the newest last.
	Addresses []Familiar `json:"addresses,omitempty"`
	// Passed counts successful logins.
	Passed tries `json:"passed,omitzero"`
	// Teams are the IDs of the account's teams.
	Teams []string `json:"teams,omitempty"`
	// Sessions are open or have expired, the oldest first.
	Sessions []OpenSession `json:"sessions,omitempty"`
}

// Familiar is an address from which an account has logged in, with the attempts of this pair.
type Familiar struct {
	Address string `json:"address"`
	tries
}

// Familiar reports whether an account has logged in from an address.
func (a *Account) Familiar(address string) bool {
	return slices.ContainsFunc(a.Addresses, func(f Familiar) bool { return f.Address == address })
}

// OpenSession is a session in its account.
type OpenSession struct {
	SHA256  string    `json:"sha256"`
	Expires time.Time `json:"expires"`
}

const (
	accountKind = "accounts"
	emailKind   = "emails" // account ID by e-mail address
)

func (a *Account) kind() string     { return accountKind }
func (a *Account) place() []*string { return []*string{&a.ID} }

func (a *Account) check() error {
	errs := []error{text("name", a.Name, MaxNameBytes), created(a.Created), ids(a.Teams...)}
	if normal, err := NormalizeEmail(a.Email); err != nil || normal != a.Email {
		errs = append(errs, fmt.Errorf("e-mail: %.300q is no normalised address", a.Email))
	}
	if a.PasswordHash != "" {
		errs = append(errs, text("password hash", a.PasswordHash, MaxPasswordHashBytes))
	}
	errs = append(errs, a.Passed.check())
	for _, f := range a.Addresses {
		errs = append(errs, text("address", f.Address, MaxAddressBytes), f.check())
	}
	for _, s := range a.Sessions {
		if len(s.SHA256) != 2*sha256Size || !validPart(s.SHA256) {
			errs = append(errs, fmt.Errorf("session: %.80q is no SHA-256", s.SHA256))
		}
	}
	for _, bound := range []struct {
		field       string
		have, limit int
	}{{"addresses", len(a.Addresses), MaxAddresses}, {"teams", len(a.Teams), MaxTeams}, {"sessions", len(a.Sessions), MaxSessions}} {
		if bound.have > bound.limit {
			errs = append(errs, fmt.Errorf("%d %s, limit %d", bound.have, bound.field, bound.limit))
		}
	}
	return errors.Join(errs...)
}

// NormalizeEmail returns an e-mail address in lower case, without spaces around it. Error: ErrInvalid.
func NormalizeEmail(email string) (string, error) {
	email = strings.ToLower(strings.TrimSpace(email))
	parsed, err := mail.ParseAddress(email)
	if err != nil || parsed.Address != email || text("e-mail", email, MaxEmailBytes) != nil {
		return "", fmt.Errorf("%w: %.80q is no e-mail address of at most %d bytes", ErrInvalid, email, MaxEmailBytes)
	}
	return email, nil
}

// NewAccount describes an account for CreateAccount.
type NewAccount struct{ Email, Name, PasswordHash string }

// CreateAccount stores a new account. Errors: ErrInvalid, ErrTaken, etcd's.
func (r *Registry) CreateAccount(ctx context.Context, n NewAccount) (*Account, error) {
	email, err := NormalizeEmail(n.Email)
	if err != nil {
		return nil, err
	}
	a := &Account{ID: newID(), Email: email, Name: n.Name, PasswordHash: n.PasswordHash, Created: r.now()}
	op, err := r.put(a)
	if err != nil {
		return nil, err
	}
	index := r.key(emailKind, a.Email)
	done, err := r.commit(ctx, "create account", []clientv3.Cmp{r.unchanged(a), absent(index)}, []clientv3.Op{op, clientv3.OpPut(index, a.ID)})
	switch {
	case err != nil:
		return nil, err
	case !done:
		return nil, fmt.Errorf("e-mail %s: %w", a.Email, ErrTaken)
	}
	return r.Account(ctx, a.ID)
}

// Account returns an account. Errors: ErrNotFound, ErrMalformed, ErrNewer, etcd's.
func (r *Registry) Account(ctx context.Context, accountID string) (*Account, error) {
	return read[Account](ctx, r, accountID)
}

// AccountByEmail returns the account of an e-mail address in any spelling. Errors: those of Account, ErrInvalid.
func (r *Registry) AccountByEmail(ctx context.Context, email string) (*Account, error) {
	email, err := NormalizeEmail(email)
	if err != nil {
		return nil, err
	}
	resp, err := r.cfg.Client.Get(ctx, r.key(emailKind, email))
	if err != nil {
		return nil, fmt.Errorf("read account of %s in etcd: %w", email, err)
	}
	if len(resp.Kvs) == 0 {
		return nil, fmt.Errorf("account of %s: %w", email, ErrNotFound)
	}
	return r.Account(ctx, string(resp.Kvs[0].Value))
}

// UpdateAccount changes an account by change, which may run several times. Errors: those of Account, of change, ErrInvalid, ErrTaken, ErrConflict.
func (r *Registry) UpdateAccount(ctx context.Context, accountID string, change func(*Account) error) error {
	return retry(ctx, func() (bool, error) {
		a, err := r.Account(ctx, accountID)
		if err != nil {
			return false, err
		}
		next := *a
		if err := change(&next); err != nil {
			return false, err
		}
		next.Head, next.ID, next.Created, next.Teams, next.Sessions = a.Head, a.ID, a.Created, a.Teams, a.Sessions
		next.Addresses, next.Passed = a.Addresses, a.Passed
		if next.Email, err = NormalizeEmail(next.Email); err != nil {
			return false, err
		}
		ops, err := r.puts(&next)
		if err != nil {
			return false, err
		}
		cmps := []clientv3.Cmp{r.unchanged(a)}
		if next.Email != a.Email {
			index := r.key(emailKind, next.Email)
			if err := r.free(ctx, index, "e-mail "+next.Email); err != nil {
				return false, err
			}
			cmps = append(cmps, absent(index))
			ops = append(ops, clientv3.OpDelete(r.key(emailKind, a.Email)), clientv3.OpPut(index, a.ID))
		}
		return r.commit(ctx, "change account", cmps, ops)
	})
}

// DeleteAccount takes an account out of its teams, with its API tokens, and then deletes it with its sessions. It changes nothing if the
// account is the last owner of a team. If it ends early, the account exists and DeleteAccount may be called again. Errors: ErrLastOwner, those
// of Account and RemoveMember.
func (r *Registry) DeleteAccount(ctx context.Context, by Actor, accountID string) error {
	return r.deleteAccount(ctx, by, accountID, func(*Account) bool { return true })
}

// deleteAccount deletes an account for as long as may, which sees each state of the account, returns true.
func (r *Registry) deleteAccount(ctx context.Context, by Actor, accountID string, may func(*Account) bool) error {
	return retry(ctx, func() (bool, error) {
		a, err := r.Account(ctx, accountID)
		if err != nil || !may(a) {
			return true, err
		}
		for _, teamID := range a.Teams {
			if err := r.mayLeave(ctx, teamID, accountID); err != nil {
				return false, err
			}
		}
		for _, teamID := range a.Teams {
			if err := r.leave(ctx, by, teamID, accountID); err != nil {
				return false, err
			}
		}
		if a, err = r.Account(ctx, accountID); err != nil || len(a.Teams) > 0 { // a team has added the account
			return false, err
		}
		if !may(a) {
			return true, nil
		}
		ops := []clientv3.Op{r.remove(a), clientv3.OpDelete(r.key(emailKind, a.Email))}
		for _, s := range a.Sessions {
			ops = append(ops, clientv3.OpDelete(r.key(sessionKind, s.SHA256)))
		}
		return r.commit(ctx, "delete account", []clientv3.Cmp{r.unchanged(a)}, ops)
	})
}

// mayLeave returns ErrLastOwner if an account is the last owner of a team that is not being deleted.
func (r *Registry) mayLeave(ctx context.Context, teamID, accountID string) error {
	t, err := r.Team(ctx, teamID)
	if err != nil || t.Deleting {
		return ignoreNotFound(err)
	}
	return r.otherOwner(ctx, teamID, accountID)
}

// leave takes an account out of a team, which may be half deleted.
func (r *Registry) leave(ctx context.Context, by Actor, teamID, accountID string) error {
	err := r.RemoveMember(ctx, by, teamID, accountID)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDeleting) {
		return r.drop(ctx, teamID, accountID)
	}
	return err
}

func ignoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
