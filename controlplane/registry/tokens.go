package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/internal/accesskey"
)

// Token is an API token of an account in a team.
type Token struct {
	Head
	Team    string    `json:"-"`
	Account string    `json:"-"`
	SHA256  string    `json:"-"` // in hexadecimal digits
	Role    Role      `json:"role"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero never expires
	Used    time.Time `json:"used,omitzero"`    // last use, up to UsedEvery late
}

const (
	// UsedEvery is the minimum time between two writes of a last use.
	UsedEvery = time.Hour

	tokenKind      = "tokens"
	tokenPlaceKind = "token-places" // <team>/<account> by SHA-256
)

func (t *Token) kind() string     { return tokenKind }
func (t *Token) place() []*string { return []*string{&t.Team, &t.Account, &t.SHA256} }
func (t *Token) check() error {
	return errors.Join(t.Role.check(), text("name", t.Name, MaxNameBytes), created(t.Created))
}

// NewToken describes an API token for CreateToken.
type NewToken struct {
	Team, Account string
	Role          Role // at most the member's
	Name          string
	Expires       time.Time // zero never expires
}

// CreateToken stores an API token of a member. Errors: those of Team and Member, ErrRole, ErrDeleting, ErrInvalid, ErrTaken, BoundError, ErrConflict.
func (r *Registry) CreateToken(ctx context.Context, by Actor, n NewToken, secret accesskey.Hash) error {
	return r.inTeam(ctx, by, n.Team, func(*Team) (change, error) {
		m, err := r.Member(ctx, n.Team, n.Account)
		if err != nil {
			return change{}, err
		}
		if err := by.may(n.Role); err != nil {
			return change{}, err
		}
		if !m.Role.Includes(n.Role) {
			return change{}, fmt.Errorf("%w: token with role %.80q of a member with role %s", ErrInvalid, n.Role, m.Role)
		}
		t := &Token{Team: n.Team, Account: n.Account, SHA256: secret.Digits(), Role: n.Role, Name: n.Name, Created: r.now()}
		if !n.Expires.IsZero() {
			t.Expires = n.Expires.UTC().Truncate(time.Millisecond)
			if t.lease, err = r.lease(ctx, t.Expires); err != nil {
				return change{}, err
			}
		}
		ops, err := r.puts(t)
		if err != nil {
			return change{}, err
		}
		place := r.key(tokenPlaceKind, t.SHA256)
		if err := r.free(ctx, place, "API token "+secret.String()); err != nil {
			return change{}, err
		}
		have, err := r.count(ctx, tokenKind, n.Team)
		if err == nil && have >= MaxTokens {
			err = &BoundError{Bound: "API tokens of a team", Limit: MaxTokens}
		}
		return change{
			action: "token.create", subject: secret.String() + " " + n.Name, cmps: []clientv3.Cmp{r.unchanged(t), absent(place)},
			ops: append(ops, clientv3.OpPut(place, t.Team+"/"+t.Account, clientv3.WithLease(t.lease))),
		}, err
	})
}

// Token returns the API token of a secret. Its Role is at most the present one of its member. Errors: ErrNotFound also if it has expired or the
// account has left the team, ErrMalformed, ErrNewer, etcd's.
func (r *Registry) Token(ctx context.Context, secret accesskey.Hash) (*Token, error) {
	t, err := r.token(ctx, secret)
	if err != nil {
		return nil, err
	}
	m, err := r.Member(ctx, t.Team, t.Account)
	if err != nil {
		return nil, err
	}
	if !m.Role.Includes(t.Role) {
		t.Role = m.Role
	}
	return t, nil
}

// token returns the API token of a secret with the role that is stored.
func (r *Registry) token(ctx context.Context, secret accesskey.Hash) (*Token, error) {
	unknown := fmt.Errorf("API token %s: %w", secret, ErrNotFound)
	resp, err := r.cfg.Client.Get(ctx, r.key(tokenPlaceKind, secret.Digits()))
	if err != nil {
		return nil, fmt.Errorf("read place of API token %s in etcd: %w", secret, err)
	}
	if len(resp.Kvs) == 0 {
		return nil, unknown
	}
	team, account, _ := strings.Cut(string(resp.Kvs[0].Value), "/")
	t, err := read[Token](ctx, r, team, account, secret.Digits())
	if err == nil && !t.Expires.IsZero() && !t.Expires.After(r.now()) {
		err = unknown
	}
	return t, err
}

// TokenUsed records a use of an API token, at most once per UsedEvery. Errors: ErrNotFound, ErrMalformed, ErrNewer, etcd's.
func (r *Registry) TokenUsed(ctx context.Context, secret accesskey.Hash) error {
	t, err := r.token(ctx, secret)
	if err != nil {
		return err
	}
	return r.used(ctx, t)
}

// used writes the time of the last use. If the record changes meanwhile, used writes nothing: another replica has recorded a use, or the token was
// deleted.
func (r *Registry) used(ctx context.Context, t *Token) error {
	now := r.now()
	if now.Sub(t.Used) < UsedEvery {
		return nil
	}
	t.Used = now
	op, err := r.put(t)
	if err != nil {
		return err
	}
	_, err = r.commitLeased(ctx, "store last use", []clientv3.Cmp{r.unchanged(t)}, []clientv3.Op{op})
	return err
}

// Tokens returns the API tokens of a team. Expired ones can be among them for up to an hour.
func (r *Registry) Tokens(ctx context.Context, teamID string) (List[Token], error) {
	return list[Token](ctx, r, teamID)
}

// RevokeToken deletes an API token. Errors: those of Team, ErrNotFound, ErrDeleting, ErrConflict.
func (r *Registry) RevokeToken(ctx context.Context, by Actor, teamID, accountID string, secret accesskey.Hash) error {
	return r.inTeam(ctx, by, teamID, func(*Team) (change, error) {
		t, err := read[Token](ctx, r, teamID, accountID, secret.Digits())
		subject := secret.String()
		switch {
		case err == nil:
			subject += " " + t.Name
		case !unreadable(err):
			return change{}, err
		}
		return change{action: "token.revoke", subject: subject, ops: []clientv3.Op{
			clientv3.OpDelete(r.key(tokenKind, teamID, accountID, secret.Digits())), clientv3.OpDelete(r.key(tokenPlaceKind, secret.Digits())),
		}}, nil
	})
}
