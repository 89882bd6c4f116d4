package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/internal/accesskey"
)

// Invitation invites the account of an e-mail address into a team. Its link has the team and a secret.
type Invitation struct {
	Head
	Team    string    `json:"-"`
	SHA256  string    `json:"-"`     // of the secret, in hexadecimal digits
	Email   string    `json:"email"` // NormalizeEmail
	Role    Role      `json:"role"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

const invitationKind = "invitations"

func (i *Invitation) kind() string     { return invitationKind }
func (i *Invitation) place() []*string { return []*string{&i.Team, &i.SHA256} }
func (i *Invitation) check() error {
	return errors.Join(text("e-mail", i.Email, MaxEmailBytes), i.Role.check(), created(i.Created), created(i.Expires))
}

// ErrOtherEmail is returned by Accept for an account with another e-mail address than the invited one.
var ErrOtherEmail = errors.New("the invitation is for another e-mail address")

// Invite stores an invitation. It replaces an earlier one of the same e-mail address. Errors: those of Team, ErrRole, ErrDeleting, ErrInvalid, BoundError, ErrConflict.
func (r *Registry) Invite(ctx context.Context, by Actor, teamID, email string, role Role, secret accesskey.Hash, expires time.Time) error {
	email, err := NormalizeEmail(email)
	if err != nil {
		return err
	}
	if err := by.may(role); err != nil {
		return err
	}
	return r.inTeam(ctx, by, teamID, func(*Team) (change, error) {
		i := &Invitation{Team: teamID, SHA256: secret.Digits(), Email: email, Role: role, Created: r.now(), Expires: expires.UTC().Truncate(time.Millisecond)}
		if i.lease, err = r.lease(ctx, i.Expires); err != nil {
			return change{}, err
		}
		c := change{action: "invitation.create", subject: email, cmps: []clientv3.Cmp{r.unchanged(i)}}
		if c.ops, err = r.puts(i); err != nil {
			return change{}, err
		}
		all, err := r.Invitations(ctx, teamID)
		if err != nil {
			return change{}, err
		}
		for _, earlier := range all.Records {
			if earlier.Email == email && earlier.SHA256 != i.SHA256 {
				c.ops = append(c.ops, r.remove(earlier))
				return c, nil
			}
		}
		return c, r.memberRoom(ctx, teamID)
	})
}

// Invitations returns the invitations of a team. Expired ones can be among them for up to an hour.
func (r *Registry) Invitations(ctx context.Context, teamID string) (List[Invitation], error) {
	return list[Invitation](ctx, r, teamID)
}

// Invitation returns the invitation of a secret. Errors: ErrNotFound also if it has expired, ErrMalformed, ErrNewer, etcd's.
func (r *Registry) Invitation(ctx context.Context, teamID string, secret accesskey.Hash) (*Invitation, error) {
	i, err := read[Invitation](ctx, r, teamID, secret.Digits())
	if err != nil {
		return nil, err
	}
	if !i.Expires.After(r.now()) {
		return nil, fmt.Errorf("invitation %s: %w", secret, ErrNotFound)
	}
	return i, nil
}

// Accept adds the invited account to the team in place of the invitation. Errors: those of Invitation, ErrOtherEmail, those of AddMember.
func (r *Registry) Accept(ctx context.Context, by Actor, teamID, accountID string, secret accesskey.Hash) error {
	return r.inTeam(ctx, by, teamID, func(*Team) (change, error) {
		i, err := r.Invitation(ctx, teamID, secret)
		if err != nil {
			return change{}, err
		}
		a, err := r.Account(ctx, accountID)
		if err != nil {
			return change{}, err
		}
		if a.Email != i.Email {
			return change{}, ErrOtherEmail
		}
		c, err := r.joins(ctx, teamID, accountID, i.Role)
		c.cmps = append(c.cmps, r.unchanged(i))
		c.ops = append(c.ops, r.remove(i))
		return c, err
	})
}

// Withdraw deletes an invitation by the SHA-256 of its secret. Errors: those of Team, ErrNotFound, ErrDeleting, ErrConflict.
func (r *Registry) Withdraw(ctx context.Context, by Actor, teamID string, secret accesskey.Hash) error {
	return r.inTeam(ctx, by, teamID, func(*Team) (change, error) {
		i, err := read[Invitation](ctx, r, teamID, secret.Digits())
		if err != nil {
			return change{}, err
		}
		return change{action: "invitation.withdraw", subject: i.Email, cmps: []clientv3.Cmp{r.unchanged(i)}, ops: []clientv3.Op{r.remove(i)}}, nil
	})
}
