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
	return errors.Join(errs...)
}

func (c *Cluster) subject() string { return c.ID + " " + c.Name }

func (r *Registry) nameKey(c *Cluster) string { return r.key(clusterNameKind, c.Team, c.Name) }

// CreateCluster stores an active cluster of a team. Errors: those of Team, ErrDeleting, ErrInvalid, ErrTaken, BoundError, ErrConflict.
func (r *Registry) CreateCluster(ctx context.Context, by Actor, teamID, clusterID, name string) error {
	return r.inTeam(ctx, by, teamID, func(*Team) (change, error) {
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
		have, err := r.count(ctx, clusterNameKind, teamID)
		if err == nil && have >= MaxClusters {
			err = &BoundError{Bound: "clusters of a team", Limit: MaxClusters}
		}
		return change{
			action: "cluster.create", subject: c.subject(), cmps: []clientv3.Cmp{r.unchanged(c), absent(r.nameKey(c))},
			ops: append(ops, clientv3.OpPut(r.nameKey(c), c.ID)),
		}, err
	})
}

// Cluster returns a cluster. Errors: ErrNotFound, ErrMalformed, ErrNewer, etcd's.
func (r *Registry) Cluster(ctx context.Context, clusterID string) (*Cluster, error) {
	return read[Cluster](ctx, r, clusterID)
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
		case errors.Is(err, ErrMalformed), errors.Is(err, ErrNewer):
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

// UpdateCluster changes name and state of a cluster by change, which may run several times. Errors: those of Cluster and Team, of change, ErrDeleting,
// ErrInvalid, ErrTaken, ErrConflict.
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
		next := *c
		if err := update(&next); err != nil {
			return change{}, err
		}
		next.Head, next.ID, next.Team, next.Created, next.Deleted = c.Head, c.ID, c.Team, c.Created, c.Deleted
		switch {
		case next.State != directory.Deleted:
			next.Deleted = time.Time{}
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

// ErrNotDeleted is returned by RemoveCluster for a cluster in another state than Deleted.
var ErrNotDeleted = errors.New("the cluster is not deleted")

// RemoveCluster removes a deleted cluster with its agent keys. Errors: those of Cluster and Team, ErrNotDeleted, ErrDeleting, ErrConflict.
func (r *Registry) RemoveCluster(ctx context.Context, by Actor, clusterID string) error {
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
		return change{action: "cluster.remove", subject: c.subject(), cmps: []clientv3.Cmp{r.unchanged(c)}, ops: []clientv3.Op{
			r.remove(c), clientv3.OpDelete(r.nameKey(c)), clientv3.OpDelete(r.key(agentKeyKind, c.Team, c.ID)+"/", clientv3.WithPrefix()),
		}}, nil
	})
}
