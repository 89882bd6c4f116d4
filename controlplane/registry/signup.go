package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// NewSignUp describes an account with its first team, cluster and agent key for SignUp.
type NewSignUp struct {
	NewAccount
	Address   string // of the new account's user; "" if unknown
	Team      string // name
	ClusterID string
	Cluster   string // name
	KeyName   string
	KeyShown  string // first characters of the agent key
	Key       accesskey.Hash
	Demo      bool // the cluster expires after DemoLife
	// Pending is the request whose mail has confirmed the e-mail address, nil without one. It ends with the sign-up.
	Pending *PendingSignUp
}

// SignUp stores an account, its team, a cluster and an agent key in one transaction, so that no part exists without the others. After an error of
// etcd, all of them or none may be stored. Errors: ErrInvalid, ErrTaken, BoundError, etcd's.
func (r *Registry) SignUp(ctx context.Context, n NewSignUp) (*Account, error) {
	email, err := NormalizeEmail(n.Email)
	if err != nil {
		return nil, err
	}
	now := r.now()
	t := &Team{ID: newID(), Name: n.Team, Created: now, SignedUp: true}
	if err := errors.Join(r.accountRoom(ctx), r.hostedRoom(ctx, t)); err != nil {
		return nil, err
	}
	a := &Account{ID: newID(), Email: email, Name: n.Name, PasswordHash: n.PasswordHash, Created: now, Teams: []string{t.ID}}
	if n.Address != "" {
		a.Addresses = []Familiar{{Address: n.Address}}
	}
	index := r.key(emailKind, a.Email)
	cmps := []clientv3.Cmp{absent(index)}
	var confirmed []clientv3.Op
	if n.Pending != nil {
		a.Verified = now
		cmps, confirmed = append(cmps, r.unchanged(n.Pending)), []clientv3.Op{r.remove(n.Pending)}
	}
	c := &Cluster{ID: n.ClusterID, Team: t.ID, Name: n.Cluster, State: directory.Active, Created: now}
	if n.Demo {
		c.Expires = now.Add(DemoLife)
	}
	k := &AgentKey{Team: t.ID, Cluster: c.ID, SHA256: n.Key.Digits(), Shown: n.KeyShown, Name: n.KeyName, Created: now}
	var audits []clientv3.Op
	for _, made := range []change{
		{action: "team.create", subject: t.ID},
		{action: "cluster.create", subject: c.subject()},
		{action: "agent-key.create", subject: n.Key.String() + " " + k.Name},
	} {
		ops, err := r.audit(t, Actor{Name: a.ID, Address: n.Address}, made)
		if err != nil {
			return nil, err
		}
		audits = append(audits, ops...)
	}
	m := &Member{Team: t.ID, Account: a.ID, Role: Owner, Created: now}
	ops, err := r.puts(a, t, m, c, k)
	if err != nil {
		return nil, err
	}
	done, err := r.commit(ctx, "sign up", append(cmps, r.unchanged(a), r.unchanged(t), r.unchanged(c)),
		slices.Concat(ops, audits, confirmed, []clientv3.Op{clientv3.OpPut(index, a.ID), clientv3.OpPut(r.nameKey(c), c.ID)}))
	switch {
	case err != nil:
		return nil, err
	case !done:
		return nil, fmt.Errorf("e-mail %s: %w", a.Email, ErrTaken)
	}
	return r.Account(ctx, a.ID)
}

// accountRoom returns a BoundError if there are MaxAccounts accounts.
func (r *Registry) accountRoom(ctx context.Context) error {
	have, err := r.count(ctx, accountKind)
	if err == nil && have >= MaxAccounts {
		err = &BoundError{Bound: "accounts", Limit: MaxAccounts}
	}
	return err
}

// SignUpInvited stores an account that is a member of a team, in place of its invitation. Errors: those of Invitation and Team, ErrOtherEmail,
// ErrInvalid, ErrTaken, BoundError, ErrDeleting, ErrConflict.
func (r *Registry) SignUpInvited(ctx context.Context, n NewAccount, address, teamID string, secret accesskey.Hash) (*Account, error) {
	email, err := NormalizeEmail(n.Email)
	if err != nil {
		return nil, err
	}
	if err := r.accountRoom(ctx); err != nil {
		return nil, err
	}
	accountID := newID()
	err = r.inTeam(ctx, Actor{Name: accountID, Address: address}, teamID, func(*Team) (change, error) {
		i, err := r.Invitation(ctx, teamID, secret)
		if err != nil {
			return change{}, err
		}
		if i.Email != email {
			return change{}, ErrOtherEmail
		}
		index := r.key(emailKind, email)
		if err := r.free(ctx, index, "e-mail "+email); err != nil {
			return change{}, err
		}
		now := r.now()
		a := &Account{ID: accountID, Email: email, Name: n.Name, PasswordHash: n.PasswordHash, Created: now, Teams: []string{teamID}}
		if address != "" {
			a.Addresses = []Familiar{{Address: address}}
		}
		m := &Member{Team: teamID, Account: accountID, Role: i.Role, Created: now}
		ops, err := r.puts(a, m)
		return change{
			action: "member.add", subject: accountID, cmps: []clientv3.Cmp{r.unchanged(a), r.unchanged(m), r.unchanged(i), absent(index)},
			ops: append(ops, r.remove(i), clientv3.OpPut(index, accountID)),
		}, err
	})
	if err != nil {
		return nil, err
	}
	return r.Account(ctx, accountID)
}
