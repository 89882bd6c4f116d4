package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/metadata/id"
)

// Cluster is a virtual cluster of a team.
type Cluster struct {
	Head
	ID      string          `json:"-"` // of its directory.Spec
	Team    string          `json:"team"`
	Name    string          `json:"name"` // no other cluster of the team has it
	State   directory.State `json:"state"`
	Created time.Time       `json:"created"`
	Deleted time.Time       `json:"deleted,omitzero"` // set by UpdateCluster in state Deleted
	// Restored is the time at which UpdateCluster last ended state Deleted, or UnblockCluster a block. The sweep of package expiry waits for agents from then on.
	Restored time.Time `json:"restored,omitzero"`
	// Contacted is the time of the last contact of an agent, up to ContactEvery late. ClusterContacted sets it.
	Contacted time.Time `json:"contacted,omitzero"`
	// Expires is the time from which a demo is deleted, zero for other clusters.
	Expires time.Time `json:"expires,omitzero"`
	// Purged is the time of PurgeCluster. The cluster is removed as soon as no replica serves it.
	Purged time.Time `json:"purged,omitzero"`
	// Blocked is the time of BlockCluster. The cluster is not active until UnblockCluster.
	Blocked time.Time `json:"blocked,omitzero"`
	// WasSuspended reports whether the team had suspended the cluster before the block. UnblockCluster leaves it suspended then.
	WasSuspended bool `json:"was_suspended,omitempty"`
}

// Expired reports whether a cluster is a demo whose time has passed.
func (c *Cluster) Expired(now time.Time) bool { return !c.Expires.IsZero() && !now.Before(c.Expires) }

// PurgeTime returns the time from which a deleted cluster is removed: at once after PurgeCluster, else UndeleteTime after the deletion.
func (c *Cluster) PurgeTime() time.Time {
	if !c.Purged.IsZero() {
		return c.Purged
	}
	return c.Deleted.Add(UndeleteTime)
}

const (
	clusterKind     = "clusters"
	clusterNameKind = "cluster-names" // cluster ID by team and name; the keys are those of a team's clusters
)

func (c *Cluster) kind() string     { return clusterKind }
func (c *Cluster) place() []*string { return []*string{&c.ID} }
func (c *Cluster) check() error {
	errs := []error{ids(c.Team), created(c.Created)}
	if !id.ValidVirtualCluster(c.Name) {
		errs = append(errs, fmt.Errorf("%.300q is no name of a virtual cluster", c.Name))
	}
	if !slices.Contains([]directory.State{directory.Active, directory.Suspended, directory.Deleted}, c.State) {
		errs = append(errs, fmt.Errorf("unknown state %.80q", c.State))
	}
	if c.Deleted.IsZero() == (c.State == directory.Deleted) {
		errs = append(errs, fmt.Errorf("state %s, deleted at %v", c.State, c.Deleted))
	}
	if !c.Purged.IsZero() && c.State != directory.Deleted {
		errs = append(errs, fmt.Errorf("state %s, purged at %v", c.State, c.Purged))
	}
	if !c.Blocked.IsZero() && c.State == directory.Active {
		errs = append(errs, fmt.Errorf("state %s, blocked at %v", c.State, c.Blocked))
	}
	if c.WasSuspended && c.Blocked.IsZero() {
		errs = append(errs, errors.New("suspended before a block, and not blocked"))
	}
	return errors.Join(errs...)
}

func (c *Cluster) subject() string { return c.ID + " " + c.Name }

func (r *Registry) nameKey(c *Cluster) string { return r.key(clusterNameKind, c.Team, c.Name) }

// CreateCluster stores an active cluster of a team. Errors: those of Team, ErrDeleting, ErrInvalid, ErrTaken, BoundError, PausedError, ErrConflict.
func (r *Registry) CreateCluster(ctx context.Context, by Actor, teamID, clusterID, name string) error {
	return r.inTeam(ctx, by, teamID, func(t *Team) (change, error) {
		c := &Cluster{ID: clusterID, Team: teamID, Name: name, State: directory.Active, Created: r.now()}
		ops, err := r.puts(c)
		if err != nil {
			return change{}, err
		}
		for _, key := range []string{r.keyOf(c), r.nameKey(c)} {
			if err := r.free(ctx, key, "cluster "+c.subject()); err != nil {
				return change{}, err
			}
		}
		if err := r.clusterRoom(ctx, t); err != nil {
			return change{}, err
		}
		cmps, counted, err := r.planAttempts(ctx, []Attempt{{Kind: NewClusters}}, attempt)
		return change{
			action: "cluster.create", subject: c.subject(), cmps: append(cmps, r.unchanged(c), absent(r.nameKey(c))),
			ops: slices.Concat(ops, counted, []clientv3.Op{clientv3.OpPut(r.nameKey(c), c.ID)}),
		}, err
	})
}

// clusterRoom returns a BoundError if a team, or all teams together, have as many clusters as they may.
func (r *Registry) clusterRoom(ctx context.Context, t *Team) error {
	of := BoundError{Bound: "clusters of a team", Limit: MaxClusters}
	if !t.Approved() {
		of = BoundError{Bound: "clusters of a team that no operator has approved", Limit: MaxUnapprovedClusters}
	}
	have, err := r.count(ctx, clusterNameKind, t.ID)
	if err == nil && have >= of.Limit {
		err = &of
	}
	if err != nil {
		return err
	}
	return r.hostedRoom(ctx, t)
}

// hostedRoom returns a BoundError if all teams together have Config.MaxHosted clusters. Teams that are not approved leave a tenth to the others, so
// that strangers cannot take all.
func (r *Registry) hostedRoom(ctx context.Context, t *Team) error {
	of := BoundError{Bound: "clusters of all teams", Limit: r.cfg.MaxHosted}
	if !t.Approved() {
		of = BoundError{Bound: "clusters of all teams, for a team that no operator has approved,", Limit: r.cfg.MaxHosted - r.cfg.MaxHosted/10}
	}
	have, err := r.count(ctx, clusterKind)
	if err == nil && have >= of.Limit {
		err = &of
	}
	return err
}

// ClusterContacted notes the contact of an agent, unless the record has one of the last ContactEvery. A cluster that does not exist is no error. Errors:
// ErrMalformed, ErrNewer, ErrConflict, etcd's.
func (r *Registry) ClusterContacted(ctx context.Context, clusterID string) error {
	return retry(ctx, func() (bool, error) {
		c, err := r.Cluster(ctx, clusterID)
		if err != nil || r.now().Sub(c.Contacted) < ContactEvery {
			return true, ignoreNotFound(err)
		}
		c.Contacted = r.now()
		op, err := r.put(c)
		if err != nil {
			return false, err
		}
		return r.commit(ctx, "note contact", []clientv3.Cmp{r.unchanged(c)}, []clientv3.Op{op})
	})
}

// Cluster returns a cluster. Errors: ErrNotFound, ErrMalformed, ErrNewer, etcd's.
func (r *Registry) Cluster(ctx context.Context, clusterID string) (*Cluster, error) {
	return read[Cluster](ctx, r, clusterID)
}

// Unchanged returns the comparison that a cluster's record is still the one that was read.
func (r *Registry) Unchanged(c *Cluster) clientv3.Cmp { return r.unchanged(c) }

// AllClusters returns the clusters of all teams in order of their IDs.
func (r *Registry) AllClusters(ctx context.Context) (all List[Cluster], err error) {
	err = r.EachCluster(ctx, func(c *Cluster, err error) {
		if err != nil {
			all.Faults = append(all.Faults, err)
			return
		}
		all.Records = append(all.Records, c)
	})
	return all, err
}

// Clusters returns the clusters of a team in order of their names.
func (r *Registry) Clusters(ctx context.Context, teamID string) (all List[Cluster], err error) {
	names, err := r.below(ctx, clusterNameKind, teamID)
	if err != nil {
		return all, err
	}
	for _, kv := range names {
		c, err := r.Cluster(ctx, string(kv.Value))
		switch {
		case unreadable(err):
			all.Faults = append(all.Faults, err)
		case errors.Is(err, ErrNotFound): // removed meanwhile
		case err != nil:
			return all, err
		default:
			all.Records = append(all.Records, c)
		}
	}
	return all, nil
}

// UpdateCluster changes name and state of a cluster by change, which may run several times. A blocked cluster that is brought back is suspended. Errors:
// those of Cluster and Team, of change, ErrPurged, ErrExpired, ErrBlocked, ErrDeleting, ErrInvalid, ErrTaken, ErrConflict.
func (r *Registry) UpdateCluster(ctx context.Context, by Actor, clusterID string, update func(*Cluster) error) error {
	found, err := r.Cluster(ctx, clusterID)
	if err != nil {
		return err
	}
	return r.inTeam(ctx, by, found.Team, func(*Team) (change, error) {
		c, err := r.Cluster(ctx, clusterID)
		if err != nil {
			return change{}, err
		}
		if !c.Purged.IsZero() {
			return change{}, ErrPurged
		}
		next := *c
		if err := update(&next); err != nil {
			return change{}, err
		}
		next.Head, next.ID, next.Team, next.Created, next.Deleted = c.Head, c.ID, c.Team, c.Created, c.Deleted
		next.Restored, next.Contacted, next.Expires, next.Purged = c.Restored, c.Contacted, c.Expires, c.Purged
		next.Blocked, next.WasSuspended = c.Blocked, c.WasSuspended
		if !c.Blocked.IsZero() && next.State == directory.Active {
			if c.State != directory.Deleted {
				return change{}, ErrBlocked
			}
			next.State = directory.Suspended
		}
		switch {
		case next.State != directory.Deleted && c.Expired(r.now()):
			return change{}, ErrExpired
		case next.State != directory.Deleted:
			if next.Deleted = (time.Time{}); c.State == directory.Deleted {
				next.Restored = r.now()
			}
		case c.State != directory.Deleted:
			next.Deleted = r.now()
		}
		ops, err := r.puts(&next)
		done := change{action: "cluster." + string(next.State), subject: next.subject(), cmps: []clientv3.Cmp{r.unchanged(c)}, ops: ops}
		if err != nil || next.Name == c.Name {
			return done, err
		}
		if done.action = "cluster.rename"; next.State != c.State {
			done.action += "." + string(next.State)
		}
		if err := r.free(ctx, r.nameKey(&next), "cluster "+next.subject()); err != nil {
			return change{}, err
		}
		done.cmps = append(done.cmps, absent(r.nameKey(&next)))
		done.ops = append(done.ops, clientv3.OpDelete(r.nameKey(c)), clientv3.OpPut(r.nameKey(&next), c.ID))
		return done, nil
	})
}

// BlockCluster suspends a cluster so that its team cannot resume it, together with its Spec. A deleted cluster stays deleted, and is suspended once it is
// brought back. A repeated call changes nothing, unless the Spec has another state than the record. Errors: those of Cluster and Team, of Directory.Get,
// ErrPurged, ErrDeleting, ErrConflict.
func (r *Registry) BlockCluster(ctx context.Context, by Actor, specs directory.Directory, clusterID string) error {
	return r.setBlocked(ctx, by, specs, clusterID, "cluster.block", r.now())
}

// UnblockCluster ends a block. The cluster becomes active again with its Spec, unless its team had suspended it before, or it is deleted. A cluster that is not
// blocked stays as it is. Errors: those of BlockCluster, ErrExpired.
func (r *Registry) UnblockCluster(ctx context.Context, by Actor, specs directory.Directory, clusterID string) error {
	return r.setBlocked(ctx, by, specs, clusterID, "cluster.unblock", time.Time{})
}

func (r *Registry) setBlocked(ctx context.Context, by Actor, specs directory.Directory, clusterID, action string, blocked time.Time) error {
	found, err := r.Cluster(ctx, clusterID)
	if err != nil {
		return err
	}
	return r.inTeam(ctx, by, found.Team, func(*Team) (change, error) {
		spec, revision, err := specs.Get(ctx, clusterID)
		if err != nil {
			return change{}, err
		}
		c, err := r.Cluster(ctx, clusterID)
		if err != nil {
			return change{}, err
		}
		if !c.Purged.IsZero() {
			return change{}, ErrPurged
		}
		if c.Blocked.IsZero() != blocked.IsZero() {
			if err := r.turnBlock(c, blocked); err != nil {
				return change{}, err
			}
		} else if spec == nil || spec.State == c.State {
			return change{}, errSame
		}
		ops, err := r.puts(c)
		if err != nil {
			return change{}, err
		}
		done := change{action: action, subject: c.subject(), cmps: []clientv3.Cmp{r.unchanged(c)}, ops: ops}
		if spec == nil { // one that is created meanwhile has the state of an older record
			done.cmps = append(done.cmps, absent(specs.SpecKey(clusterID)))
			return done, nil
		}
		spec.State = c.State
		cmps, put, err := specs.Replacement(spec, revision) // also of the same state: a writer with an older record is then refused
		done.cmps, done.ops = append(done.cmps, cmps...), append(done.ops, put)
		return done, err
	})
}

// turnBlock blocks a cluster at a time, or ends its block at the zero time. Error: ErrExpired.
func (r *Registry) turnBlock(c *Cluster, blocked time.Time) error {
	state := directory.Suspended
	if blocked.IsZero() {
		if !c.WasSuspended {
			state = directory.Active
		}
		c.WasSuspended, c.Restored = false, r.now()
	} else {
		c.WasSuspended = c.State == directory.Suspended
	}
	c.Blocked = blocked
	if c.State == directory.Deleted {
		return nil
	}
	c.State = state
	if blocked.IsZero() && c.Expired(r.now()) {
		return ErrExpired
	}
	return nil
}

// LimitCluster replaces the Spec of a cluster in one transaction with its audit entry. plan returns the changed limits in words, "" for none, with the
// comparisons and the operation of Directory.Replacement. It may run several times. Errors: those of Cluster and Team, of plan, ErrPurged, ErrDeleting,
// ErrConflict.
func (r *Registry) LimitCluster(ctx context.Context, by Actor, clusterID string, plan func() (limits string, cmps []clientv3.Cmp, put clientv3.Op, err error)) error {
	found, err := r.Cluster(ctx, clusterID)
	if err != nil {
		return err
	}
	return r.inTeam(ctx, by, found.Team, func(*Team) (change, error) {
		c, err := r.Cluster(ctx, clusterID)
		if err != nil {
			return change{}, err
		}
		if !c.Purged.IsZero() {
			return change{}, ErrPurged
		}
		limits, cmps, put, err := plan()
		if err == nil && limits == "" {
			err = errSame
		}
		return change{action: "cluster.limit", subject: c.ID + " " + limits, cmps: append(cmps, r.unchanged(c)), ops: []clientv3.Op{put}}, err
	})
}

var (
	// ErrNotDeleted is returned by PurgeCluster and RemoveCluster for a cluster in another state than Deleted.
	ErrNotDeleted = errors.New("the cluster is not deleted: delete it first")
	// ErrPurged is returned for a change of a cluster after PurgeCluster.
	ErrPurged = errors.New("the cluster is being purged")
	// ErrBlocked is returned if a team suspends or resumes a cluster after BlockCluster.
	ErrBlocked = errors.New("an operator of the control plane has suspended the cluster: ask the operator to resume it")
	// ErrExpired is returned for a change of a demo whose time has passed, unless the change deletes it.
	ErrExpired = errors.New("the demo has expired: create another cluster")
)

// PurgeCluster marks a deleted cluster for RemoveCluster. It cannot be brought back any more. A repeated call changes nothing. Errors: those of Cluster and
// Team, ErrNotDeleted, ErrDeleting, ErrConflict.
func (r *Registry) PurgeCluster(ctx context.Context, by Actor, clusterID string) error {
	found, err := r.Cluster(ctx, clusterID)
	if err != nil || !found.Purged.IsZero() {
		return err
	}
	return r.inTeam(ctx, by, found.Team, func(*Team) (change, error) {
		c, err := r.Cluster(ctx, clusterID)
		if err != nil {
			return change{}, err
		}
		if c.State != directory.Deleted {
			return change{}, fmt.Errorf("cluster %s: %w", c.subject(), ErrNotDeleted)
		}
		c.Purged = r.now()
		ops, err := r.puts(c)
		return change{action: "cluster.purge", subject: c.subject(), cmps: []clientv3.Cmp{r.unchanged(c)}, ops: ops}, err
	})
}

// RemoveCluster removes a deleted cluster with its agent keys, in one transaction with the removal of its Spec. Errors: those of Cluster and Team,
// ErrNotDeleted, ErrDeleting, ErrConflict.
func (r *Registry) RemoveCluster(ctx context.Context, by Actor, clusterID string, spec directory.Removal) error {
	found, err := r.Cluster(ctx, clusterID)
	if err != nil {
		return err
	}
	return r.inTeam(ctx, by, found.Team, func(*Team) (change, error) {
		c, err := r.Cluster(ctx, clusterID)
		if err != nil {
			return change{}, err
		}
		if c.State != directory.Deleted {
			return change{}, fmt.Errorf("cluster %s: %w", c.subject(), ErrNotDeleted)
		}
		return change{action: "cluster.remove", subject: c.subject(), cmps: slices.Concat(spec.Cmps, []clientv3.Cmp{r.unchanged(c)}), ops: slices.Concat(spec.Ops, []clientv3.Op{
			r.remove(c), clientv3.OpDelete(r.nameKey(c)), clientv3.OpDelete(r.key(agentKeyKind, c.Team, c.ID)+"/", clientv3.WithPrefix()),
		})}, nil
	})
}
