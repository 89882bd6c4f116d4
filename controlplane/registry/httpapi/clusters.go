package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore/marker"
)

// maxSettles bounds the attempts of settle while other changes of the cluster come first.
const maxSettles = 20

// retryCrowded is the value of Retry-After while there is no room for new clusters or records, in seconds.
const retryCrowded = "60"

var (
	// errDeleted is returned for the suspension of a deleted cluster.
	errDeleted = errors.New("the cluster is deleted: bring it back first")
	// errNameTaken is returned for the name of another cluster.
	errNameTaken = errors.New("the team has another cluster with this name: see `freshet ctl cluster list`")
	// errNameDeleted is returned for a name that a deleted cluster keeps.
	errNameDeleted = errors.New("a deleted cluster keeps this name: bring it back with `freshet ctl cluster undelete`, or free the name with `freshet ctl cluster purge`")
	// errNamePurged is returned for the name of a cluster between its purge and its removal.
	errNamePurged = errors.New("a cluster with this name is being purged: try again in a few seconds")
)

// Cluster is a virtual cluster of a team.
type Cluster struct {
	ID      string     `json:"id" doc:"ID of the cluster, which its agent keys hold."`
	Name    string     `json:"name" doc:"Name of the cluster, unique in the team."`
	State   string     `json:"state" enum:"active,suspended,deleted" doc:"State of the cluster: active, suspended or deleted."`
	Created time.Time  `json:"created" doc:"Time of creation."`
	Expires *time.Time `json:"expires,omitempty" doc:"Time from which a demo is deleted. Other clusters have none."`
	Deleted *time.Time `json:"deleted,omitempty" doc:"Time of deletion, if the state is deleted."`
	Purge   *time.Time `json:"purge,omitempty" doc:"Time from which a deleted cluster is removed for good. Until then it can be brought back, and its name is taken."`
	Blocked *time.Time `json:"blocked,omitempty" doc:"Time at which an operator suspended the cluster. Only an operator resumes it."`
	Limits  *Limits    `json:"limits,omitempty" doc:"Limits of the cluster, which operators change. Absent if the server cannot read them."`
}

// DeletedCluster is a deleted cluster with what it leaves in the bucket of its agents.
type DeletedCluster struct {
	Cluster
	Prefix        string `json:"prefix" doc:"Prefix of the cluster's objects in the bucket, below the prefix of the bucket's URL. No program removes them."`
	RemoveObjects string `json:"remove_objects" doc:"Command that removes these objects and the cluster's marker from S3. Replace BUCKET/PREFIX, and remove nothing of a cluster that you may bring back."`
}

type deletedClusterOutput struct{ Body DeletedCluster }

type clusterOutput struct{ Body Cluster }

// clusterName is the body of requests that name a cluster.
type clusterName struct {
	Name string `json:"name" minLength:"1" maxLength:"249" doc:"Name of 1 to 249 letters, digits, dots, underscores and hyphens."`
}

type createClusterInput struct {
	TeamInput
	Body clusterName
}

type ClusterInput struct {
	TeamInput
	Cluster string `path:"cluster" maxLength:"64" doc:"ID of the cluster."`
}

type renameClusterInput struct {
	ClusterInput
	Body clusterName
}

// show returns a cluster with the limits of its Spec. If etcd does not answer, the limits are absent: a change that is complete is still answered.
func (h *Handler) show(ctx context.Context, c *registry.Cluster) Cluster {
	shown := Cluster{ID: c.ID, Name: c.Name, State: string(c.State), Created: c.Created}
	if !c.Expires.IsZero() {
		shown.Expires = &c.Expires
	}
	if !c.Deleted.IsZero() {
		shown.Deleted, shown.Purge = &c.Deleted, new(c.PurgeTime())
	}
	if !c.Blocked.IsZero() {
		shown.Blocked = &c.Blocked
	}
	if spec, _, err := h.cfg.Directory.Get(ctx, c.ID); err == nil && spec != nil {
		shown.Limits = limitsOf(spec)
	}
	return shown
}

func showDeleted(c Cluster) *deletedClusterOutput {
	const bucket = "s3://BUCKET/PREFIX/"
	prefix := marker.Prefix(c.ID)
	return &deletedClusterOutput{DeletedCluster{
		Cluster: c, Prefix: prefix,
		RemoveObjects: "aws s3 rm --recursive '" + bucket + prefix + "' && aws s3 rm '" + bucket + marker.Key(c.ID) + "'", // the ID is the name of the Spec
	}}
}

// moves returns a change of the state of a cluster that is in one of two states. A cluster in the state to stays so.
func moves(from, to directory.State) func(*registry.Cluster) error {
	return func(c *registry.Cluster) error {
		if c.State != from && c.State != to {
			return errDeleted
		}
		if !c.Blocked.IsZero() {
			return registry.ErrBlocked
		}
		c.State = to
		return nil
	}
}

func (h *Handler) routeClusters(r *router) {
	handle(h, r, "list-clusters", func(ctx context.Context, _ *caller, in *listInput) (*pageOutput[Cluster], error) {
		all, err := h.cfg.Registry.Clusters(ctx, in.Team)
		if err != nil {
			return nil, err
		}
		// The order is that of the names at the time of the list. A cluster that was renamed meanwhile would be out of order.
		slices.SortFunc(all.Records, func(a, b *registry.Cluster) int { return strings.Compare(a.Name, b.Name) })
		return paginate(h, in.PageInput, "clusters/"+in.Team, all, func(c *registry.Cluster) string { return c.Name },
			func(c *registry.Cluster) (Cluster, error) { return h.show(ctx, c), nil })
	})
	handle(h, r, "create-cluster", func(ctx context.Context, who *caller, in *createClusterInput) (*clusterOutput, error) {
		clusterID, err := h.createCluster(ctx, who, in)
		if err != nil {
			return nil, err
		}
		return h.settled(ctx, clusterID)
	})
	handle(h, r, "get-cluster", func(ctx context.Context, _ *caller, in *ClusterInput) (*clusterOutput, error) {
		c, err := h.cluster(ctx, in)
		if err != nil {
			return nil, err
		}
		return &clusterOutput{h.show(ctx, c)}, nil
	})
	handle(h, r, "rename-cluster", func(ctx context.Context, who *caller, in *renameClusterInput) (*clusterOutput, error) {
		return h.update(ctx, who, &in.ClusterInput, func(c *registry.Cluster) error {
			c.Name = in.Body.Name
			return nil
		})
	})
	handle(h, r, "suspend-cluster", func(ctx context.Context, who *caller, in *ClusterInput) (*clusterOutput, error) {
		return h.update(ctx, who, in, moves(directory.Active, directory.Suspended))
	})
	handle(h, r, "resume-cluster", func(ctx context.Context, who *caller, in *ClusterInput) (*clusterOutput, error) {
		return h.update(ctx, who, in, moves(directory.Suspended, directory.Active))
	})
	handle(h, r, "delete-cluster", func(ctx context.Context, who *caller, in *ClusterInput) (*deletedClusterOutput, error) {
		out, err := h.update(ctx, who, in, func(c *registry.Cluster) error {
			c.State = directory.Deleted
			return nil
		})
		if err != nil {
			return nil, err
		}
		return showDeleted(out.Body), nil
	})
	handle(h, r, "purge-cluster", h.purge)
	handle(h, r, "undelete-cluster", func(ctx context.Context, who *caller, in *ClusterInput) (*clusterOutput, error) {
		return h.update(ctx, who, in, func(c *registry.Cluster) error {
			if c.State == directory.Deleted {
				c.State = directory.Active
			}
			return nil
		})
	})
}

// purge marks a deleted cluster. The replica that answers removes it soon. If that replica ends before, the next sweep of any other one does.
func (h *Handler) purge(ctx context.Context, who *caller, in *ClusterInput) (*deletedClusterOutput, error) {
	c, err := h.cluster(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := h.cfg.Registry.PurgeCluster(ctx, who.actor(), c.ID); err != nil {
		return nil, err
	}
	if c, err = h.cluster(ctx, in); err != nil {
		return nil, err
	}
	if h.cfg.Purge != nil {
		h.cfg.Purge()
	}
	return showDeleted(h.show(ctx, c)), nil
}

// createCluster stores the record of a cluster and returns its ID. If the team has an active cluster of the name without a Spec, an earlier
// request was interrupted, and its cluster is the answer.
func (h *Handler) createCluster(ctx context.Context, who *caller, in *createClusterInput) (string, error) {
	if !id.ValidVirtualCluster(in.Body.Name) {
		return "", clusterNameFault("body.name")
	}
	if err := h.checkRoom(); err != nil {
		return "", err
	}
	clusterID := id.NewCluster()
	err := h.cfg.Registry.CreateCluster(ctx, who.actor(), in.Team, clusterID, in.Body.Name)
	if !errors.Is(err, registry.ErrTaken) {
		return clusterID, err
	}
	c, err := h.named(ctx, in.Team, in.Body.Name)
	if err != nil || c.State != directory.Active {
		return "", cmp.Or(err, errNameTaken)
	}
	spec, _, err := h.cfg.Directory.Get(ctx, c.ID)
	if err == nil && spec != nil {
		err = errNameTaken
	}
	return c.ID, err
}

// named returns the cluster whose name another one of the team cannot have. Errors: errNameDeleted and errNamePurged for a deleted one, errNameTaken if
// the cluster was removed meanwhile, those of Registry.Clusters.
func (h *Handler) named(ctx context.Context, team, name string) (*registry.Cluster, error) {
	all, err := h.cfg.Registry.Clusters(ctx, team)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all.Records, func(c *registry.Cluster) bool { return c.Name == name })
	switch {
	case i < 0:
		return nil, errNameTaken
	case !all.Records[i].Purged.IsZero():
		return nil, errNamePurged
	case all.Records[i].State == directory.Deleted:
		return nil, errNameDeleted
	}
	return all.Records[i], nil
}

// checkRoom returns the answer to the creation of a cluster while the control plane has no room for it, else nil.
func (h *Handler) checkRoom() error {
	crowded := h.cfg.Crowded()
	if crowded == nil {
		return nil
	}
	h.cfg.Logger.Warn("new cluster refused", zap.Error(crowded))
	return noRoom("the control plane has no room for new clusters: try again later")
}

// checkEtcd returns the answer to a request that creates records while etcd has no room for them, else nil.
func (h *Handler) checkEtcd(row route) error {
	refused := h.cfg.EtcdCrowded // the control plane logs the reason
	if row.createsSecret() {
		refused = h.cfg.EtcdFull
	}
	if !row.creates() || !refused() {
		return nil
	}
	return noRoom("the control plane has no room for new records: delete some, or try again later")
}

func noRoom(text string) *Problem {
	p := unavailable(text)
	p.headers.Set("Retry-After", retryCrowded)
	return p
}

func clusterNameFault(location string) error {
	p := problem(http.StatusUnprocessableEntity, "validation failed")
	p.Errors = []Fault{{Location: location, Message: "expected 1 to 249 letters, digits, dots, underscores and hyphens, and neither . nor .."}}
	return p
}

// cluster returns a cluster of the team in the path. Errors: those of Registry.Cluster, registry.ErrNotFound for another team's.
func (h *Handler) cluster(ctx context.Context, in *ClusterInput) (*registry.Cluster, error) {
	c, err := h.cfg.Registry.Cluster(ctx, in.Cluster)
	if err != nil {
		return nil, err
	}
	if c.Team != in.Team {
		return nil, registry.ErrNotFound
	}
	return c, nil
}

// update changes the record of a cluster, and then its Spec. A record that stays the same is not written, so a repeated change has one audit entry.
func (h *Handler) update(ctx context.Context, who *caller, in *ClusterInput, change func(*registry.Cluster) error) (*clusterOutput, error) {
	c, err := h.cluster(ctx, in)
	if err != nil {
		return nil, err
	}
	next := *c
	if err := change(&next); err != nil {
		return nil, err
	}
	if !id.ValidVirtualCluster(next.Name) {
		return nil, clusterNameFault("body.name")
	}
	if next.Name != c.Name || next.State != c.State || !c.Purged.IsZero() { // which the registry refuses
		err := h.cfg.Registry.UpdateCluster(ctx, who.actor(), c.ID, change)
		if errors.Is(err, registry.ErrTaken) {
			_, named := h.named(ctx, c.Team, next.Name)
			err = cmp.Or(named, errNameTaken)
		}
		if err != nil {
			return nil, err
		}
	}
	return h.settled(ctx, c.ID)
}

// settled settles a cluster and returns it.
func (h *Handler) settled(ctx context.Context, clusterID string) (*clusterOutput, error) {
	if err := h.settle(ctx, clusterID); err != nil {
		return nil, err
	}
	c, err := h.cfg.Registry.Cluster(ctx, clusterID)
	if err != nil {
		return nil, err
	}
	return &clusterOutput{h.show(ctx, c)}, nil
}

// settle writes the state and the agent keys of a cluster's records into its Spec. Every change of the records calls it afterwards.
//
// It reads the Spec before the records, and replaces only the revision that it read. It writes also if nothing differs: another settle that read
// older records is then refused, reads again and cannot bring back a revoked key. Errors: those of Cluster, AgentKeys and the Directory,
// registry.ErrConflict.
func (h *Handler) settle(ctx context.Context, clusterID string) error {
	for range maxSettles {
		spec, revision, err := h.cfg.Directory.Get(ctx, clusterID)
		if err != nil {
			return err
		}
		c, err := h.cfg.Registry.Cluster(ctx, clusterID)
		if err != nil {
			return err
		}
		agentKeys, err := h.cfg.Registry.AgentKeys(ctx, c)
		if err != nil {
			return err
		}
		if len(agentKeys.Faults) > 0 {
			return errors.Join(agentKeys.Faults...)
		}
		if err = h.write(ctx, spec, revision, c, agentKeys.Records); !errors.Is(err, directory.ErrChanged) && !errors.Is(err, directory.ErrNameTaken) {
			return err
		}
	}
	return registry.ErrConflict
}

// write stores the Spec of a cluster. A new Spec has the ID as its name, because names of Specs are unique over all teams.
func (h *Handler) write(ctx context.Context, spec *directory.Spec, revision int64, c *registry.Cluster, agentKeys []*registry.AgentKey) error {
	next := directory.Spec{ID: c.ID, Stored: true, Name: c.ID, Memory: directory.DefaultMemory, DefaultPartitions: 1}
	if spec != nil {
		next = *spec
	}
	next.State = c.State
	next.Keys = slices.DeleteFunc(slices.Clone(next.Keys), func(k directory.Key) bool { return k.Kind == keys.Agent })
	for _, k := range agentKeys {
		hash, _ := accesskey.ParseHash(k.SHA256) // the record's check
		next.Keys = append(next.Keys, directory.Key{Hash: hash, Kind: keys.Agent})
	}
	if spec == nil {
		return h.cfg.Directory.Create(ctx, &next, h.cfg.Registry.Unchanged(c)) // or a removed cluster would get a Spec
	}
	return h.cfg.Directory.Update(ctx, &next, revision)
}
