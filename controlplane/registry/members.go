package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Role is the role of a member or an API token in a team.
type Role string

// Roles, from the highest.
const (
	Owner    Role = "owner"
	Admin    Role = "admin"
	Ordinary Role = "member"
	ReadOnly Role = "read-only"
)

const memberKind = "members"

var roles = []Role{Owner, Admin, Ordinary, ReadOnly}

func (role Role) check() error {
	if !slices.Contains(roles, role) {
		return fmt.Errorf("unknown role %.80q", role)
	}
	return nil
}

// Includes reports whether a role is at least another one.
func (role Role) Includes(other Role) bool {
	return role.check() == nil && slices.Index(roles, role) <= slices.Index(roles, other)
}

// Member is an account in a team.
type Member struct {
	Head
	Team    string    `json:"-"`
	Account string    `json:"-"`
	Role    Role      `json:"role"`
	Created time.Time `json:"created"`
}

func (m *Member) kind() string     { return memberKind }
func (m *Member) place() []*string { return []*string{&m.Team, &m.Account} }
func (m *Member) check() error     { return errors.Join(m.Role.check(), created(m.Created)) }

// Member returns an account's membership of a team. Errors: ErrNotFound, ErrMalformed, ErrNewer, etcd's.
func (r *Registry) Member(ctx context.Context, teamID, accountID string) (*Member, error) {
	return read[Member](ctx, r, teamID, accountID)
}

// Members returns the members of a team.
func (r *Registry) Members(ctx context.Context, teamID string) (List[Member], error) {
	return list[Member](ctx, r, teamID)
}

// AddMember adds an account to a team. Errors: those of Team and Account, ErrDeleting, ErrInvalid, ErrTaken, BoundError, ErrConflict.
func (r *Registry) AddMember(ctx context.Context, by Actor, teamID, accountID string, role Role) error {
	return r.inTeam(ctx, by, teamID, func(*Team) (change, error) {
		if err := r.memberRoom(ctx, teamID); err != nil {
			return change{}, err
		}
		return r.joins(ctx, teamID, accountID, role)
	})
}

// memberRoom returns a BoundError if a team has MaxMembers members and invitations.
func (r *Registry) memberRoom(ctx context.Context, teamID string) error {
	members, err := r.count(ctx, memberKind, teamID)
	if err != nil {
		return err
	}
	invitations, err := r.count(ctx, invitationKind, teamID)
	if err == nil && members+invitations >= MaxMembers {
		err = &BoundError{Bound: "members and invitations of a team", Limit: MaxMembers}
	}
	return err
}

// joins returns the change that adds an account to a team.
func (r *Registry) joins(ctx context.Context, teamID, accountID string, role Role) (change, error) {
	c := change{action: "member.add", subject: accountID}
	a, err := r.Account(ctx, accountID)
	switch {
	case err != nil:
		return c, err
	case slices.Contains(a.Teams, teamID):
		return c, fmt.Errorf("member %s: %w", accountID, ErrTaken)
	case len(a.Teams) >= MaxTeams:
		return c, &BoundError{Bound: "teams of an account", Limit: MaxTeams}
	}
	a.Teams = append(a.Teams, teamID)
	m := &Member{Team: teamID, Account: accountID, Role: role, Created: r.now()}
	c.cmps = []clientv3.Cmp{r.unchanged(a), r.unchanged(m)}
	c.ops, err = r.puts(a, m)
	return c, err
}

// SetRole changes the role of a member. Errors: ErrLastOwner, ErrRole, ErrInvalid, ErrDeleting, ErrConflict, those of Team and Member.
func (r *Registry) SetRole(ctx context.Context, by Actor, teamID, accountID string, role Role) error {
	return r.inTeam(ctx, by, teamID, func(*Team) (change, error) {
		m, err := r.Member(ctx, teamID, accountID)
		if err != nil {
			return change{}, err
		}
		if err := errors.Join(by.may(m.Role), by.may(role)); err != nil {
			return change{}, err
		}
		if role != Owner {
			if err := r.otherOwner(ctx, teamID, accountID); err != nil {
				return change{}, err
			}
		}
		m.Role = role
		ops, err := r.puts(m)
		return change{action: "member.role." + string(role), subject: accountID, ops: ops}, err
	})
}

// otherOwner returns ErrLastOwner if no other account is an owner of the team. A record that cannot be read counts as no owner. An account that
// is no owner may always go.
func (r *Registry) otherOwner(ctx context.Context, teamID, accountID string) error {
	members, err := r.Members(ctx, teamID)
	if err != nil {
		return err
	}
	owns := func(m *Member) bool { return m.Account == accountID && m.Role == Owner }
	other := func(m *Member) bool { return m.Account != accountID && m.Role == Owner }
	if slices.ContainsFunc(members.Records, owns) && !slices.ContainsFunc(members.Records, other) {
		return errors.Join(append([]error{ErrLastOwner}, members.Faults...)...)
	}
	return nil
}

// RemoveMember takes an account out of a team and deletes its API tokens of the team. Errors: ErrLastOwner, ErrRole, ErrDeleting, ErrConflict, those of Team
// and Account, ErrNotFound.
func (r *Registry) RemoveMember(ctx context.Context, by Actor, teamID, accountID string) error {
	return r.inTeam(ctx, by, teamID, func(*Team) (change, error) {
		if err := r.removable(ctx, by, teamID, accountID); err != nil {
			return change{}, err
		}
		if err := r.otherOwner(ctx, teamID, accountID); err != nil {
			return change{}, err
		}
		c, err := r.parts(ctx, teamID, accountID)
		if err != nil {
			return change{}, err
		}
		tokens, err := r.below(ctx, tokenKind, teamID, accountID)
		for _, kv := range tokens {
			c.ops = append(c.ops, clientv3.OpDelete(r.key(tokenPlaceKind, lastPart(kv.Key))))
		}
		c.ops = append(c.ops, clientv3.OpDelete(r.key(tokenKind, teamID, accountID)+"/", clientv3.WithPrefix()))
		return c, err
	})
}

// removable returns an error if an actor must not remove a member. An actor without a role removes a member whose record cannot be read.
func (r *Registry) removable(ctx context.Context, by Actor, teamID, accountID string) error {
	if by.Role == "" {
		return r.found(ctx, memberKind, teamID, accountID)
	}
	m, err := r.Member(ctx, teamID, accountID)
	if err != nil {
		return err
	}
	return by.may(m.Role)
}

// drop takes an account out of a team without a change of the team, which is being deleted or gone.
func (r *Registry) drop(ctx context.Context, teamID, accountID string) error {
	return retry(ctx, func() (bool, error) {
		c, err := r.parts(ctx, teamID, accountID)
		if err != nil {
			return false, err
		}
		return r.commit(ctx, "remove member", c.cmps, c.ops)
	})
}

// parts returns the change that takes an account out of a team.
func (r *Registry) parts(ctx context.Context, teamID, accountID string) (change, error) {
	c := change{action: "member.remove", subject: accountID, ops: []clientv3.Op{clientv3.OpDelete(r.key(memberKind, teamID, accountID))}}
	a, err := r.Account(ctx, accountID)
	if err != nil {
		return c, ignoreNotFound(err)
	}
	c.cmps = []clientv3.Cmp{r.unchanged(a)}
	a.Teams = slices.DeleteFunc(a.Teams, func(other string) bool { return other == teamID })
	ops, err := r.puts(a)
	c.ops = append(c.ops, ops...)
	return c, err
}

// lastPart returns the part of a key behind its last slash.
func lastPart(key []byte) string { return string(key[strings.LastIndexByte(string(key), '/')+1:]) }
