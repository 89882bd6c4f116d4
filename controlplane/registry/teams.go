package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/controlplane/directory"
)

// Team owns clusters and has members.
type Team struct {
	Head
	ID      string    `json:"-"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	// SignedUp reports whether SignUp made the team, rather than an operator.
	SignedUp bool `json:"signed_up,omitempty"`
	// ApprovedAt is the time at which an operator approved a team of a sign-up. ApproveTeam sets it.
	ApprovedAt time.Time `json:"approved,omitzero"`
	// Deleting reports whether DeleteTeam has begun. The team does not change any more.
	Deleting bool `json:"deleting,omitempty"`
	// Audited is the number of audit entries so far, including deleted ones.
	Audited uint64 `json:"audited"`
}

const teamKind = "teams"

func (t *Team) kind() string     { return teamKind }
func (t *Team) place() []*string { return []*string{&t.ID} }
func (t *Team) check() error {
	return errors.Join(text("name", t.Name, MaxNameBytes), created(t.Created))
}

// Approved reports whether an operator made or approved the team. Other teams have lower bounds, and their clusters and accounts expire. A verified
// e-mail address lifts no bound, because a stranger with a mail domain has any number of addresses.
func (t *Team) Approved() bool { return !t.SignedUp || !t.ApprovedAt.IsZero() }

// change is a change within a team.
type change struct {
	action, subject string // for the audit entry
	cmps            []clientv3.Cmp
	ops             []clientv3.Op
}

// errSame is returned by the plan of a change that changes nothing.
var errSame = errors.New("nothing changes")

// inTeam makes a change with its audit entry, unless plan returns errSame. plan may change the team too. Each change of a team raises the revision of its record. So all that plan
// reads of the team, counts included, still holds at the commit.
func (r *Registry) inTeam(ctx context.Context, by Actor, teamID string, plan func(*Team) (change, error)) error {
	return retry(ctx, func() (bool, error) {
		t, err := r.Team(ctx, teamID)
		if err != nil {
			return false, err
		}
		if t.Deleting {
			return false, ErrDeleting
		}
		c, err := plan(t)
		if errors.Is(err, errSame) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		audit, err := r.audit(t, by, c)
		if err != nil {
			return false, err
		}
		op, err := r.put(t)
		if err != nil {
			return false, err
		}
		cmps := append([]clientv3.Cmp{r.unchanged(t)}, c.cmps...)
		return r.commitLeased(ctx, c.action, cmps, slices.Concat([]clientv3.Op{op}, audit, c.ops))
	})
}

// CreateTeam stores a team whose first owner is an account. Errors: those of Account, ErrInvalid, BoundError, ErrConflict.
func (r *Registry) CreateTeam(ctx context.Context, by Actor, name, ownerID string) (*Team, error) {
	teamID := newID()
	err := retry(ctx, func() (bool, error) {
		t := &Team{ID: teamID, Name: name, Created: r.now()}
		joined, err := r.joins(ctx, teamID, ownerID, Owner)
		if err != nil {
			return false, err
		}
		joined.action, joined.subject = "team.create", teamID
		audit, err := r.audit(t, by, joined)
		if err != nil {
			return false, err
		}
		op, err := r.put(t)
		if err != nil {
			return false, err
		}
		return r.commit(ctx, "create team", append(joined.cmps, r.unchanged(t)), slices.Concat([]clientv3.Op{op}, audit, joined.ops))
	})
	if err != nil {
		return nil, err
	}
	return r.Team(ctx, teamID)
}

// Team returns a team. Errors: ErrNotFound, ErrMalformed, ErrNewer, etcd's.
func (r *Registry) Team(ctx context.Context, teamID string) (*Team, error) {
	return read[Team](ctx, r, teamID)
}

// RenameTeam changes the name of a team. Errors: those of Team, ErrDeleting, ErrInvalid, ErrConflict.
func (r *Registry) RenameTeam(ctx context.Context, by Actor, teamID, name string) error {
	return r.inTeam(ctx, by, teamID, func(t *Team) (change, error) {
		t.Name = name
		return change{action: "team.rename", subject: teamID}, nil
	})
}

// ApproveTeam approves a team of a sign-up. A repeated call changes nothing. Errors: those of Team, ErrDeleting, ErrConflict.
func (r *Registry) ApproveTeam(ctx context.Context, by Actor, teamID string) error {
	if t, err := r.Team(ctx, teamID); err != nil || t.Approved() {
		return err
	}
	return r.inTeam(ctx, by, teamID, func(t *Team) (change, error) {
		t.ApprovedAt = r.now()
		return change{action: "team.approve", subject: teamID}, nil
	})
}

// DeleteTeam deletes a team with all its records. It first marks the team as Deleting. If it ends early, DeleteTeam may be called again.
// Errors: those of Team, ErrClusters, ErrConflict, etcd's.
func (r *Registry) DeleteTeam(ctx context.Context, by Actor, teamID string) error {
	err := r.inTeam(ctx, by, teamID, func(t *Team) (change, error) {
		clusters, err := r.Clusters(ctx, teamID)
		if err != nil {
			return change{}, err
		}
		if len(clusters.Faults) > 0 {
			return change{}, fmt.Errorf("%w: %w", ErrClusters, errors.Join(clusters.Faults...))
		}
		for _, c := range clusters.Records {
			if c.State != directory.Deleted {
				return change{}, fmt.Errorf("%w: %s", ErrClusters, c.Name)
			}
		}
		t.Deleting = true
		return change{action: "team.delete", subject: teamID}, nil
	})
	if err != nil && !errors.Is(err, ErrDeleting) {
		return err
	}
	return r.purge(ctx, teamID)
}

// purgeTokens is the number of tokens of one transaction. Each takes two operations of the 128 that etcd allows.
const purgeTokens = 50

// purge deletes the records below a team that is marked, and the team last.
func (r *Registry) purge(ctx context.Context, teamID string) error {
	members, err := r.below(ctx, memberKind, teamID)
	if err != nil {
		return err
	}
	for _, kv := range members {
		if err := r.drop(ctx, teamID, lastPart(kv.Key)); err != nil {
			return err
		}
	}
	tokens, err := r.below(ctx, tokenKind, teamID)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(tokens, purgeTokens) {
		var ops []clientv3.Op
		for _, kv := range some {
			ops = append(ops, clientv3.OpDelete(string(kv.Key)), clientv3.OpDelete(r.key(tokenPlaceKind, lastPart(kv.Key))))
		}
		if _, err := r.commit(ctx, "delete tokens of a team", nil, ops); err != nil {
			return err
		}
	}
	names, err := r.below(ctx, clusterNameKind, teamID)
	if err != nil {
		return err
	}
	ops := []clientv3.Op{clientv3.OpDelete(r.key(teamKind, teamID))}
	for _, kind := range []string{memberKind, tokenKind, clusterNameKind, agentKeyKind, invitationKind, auditKind} {
		ops = append(ops, clientv3.OpDelete(r.key(kind, teamID)+"/", clientv3.WithPrefix()))
	}
	for _, kv := range names {
		ops = append(ops, clientv3.OpDelete(r.key(clusterKind, string(kv.Value))))
	}
	_, err = r.commit(ctx, "delete team", nil, ops)
	return err
}
