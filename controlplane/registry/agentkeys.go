package registry

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/internal/accesskey"
)

// AgentKey is a key of a cluster's agents.
type AgentKey struct {
	Head
	Team    string    `json:"-"`
	Cluster string    `json:"-"`
	SHA256  string    `json:"-"`     // in hexadecimal digits
	Shown   string    `json:"shown"` // first characters of the key, at most MaxShownBytes
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used,omitzero"` // always zero; kept for the stored format
}

const agentKeyKind = "agent-keys"

func (k *AgentKey) kind() string     { return agentKeyKind }
func (k *AgentKey) place() []*string { return []*string{&k.Team, &k.Cluster, &k.SHA256} }
func (k *AgentKey) check() error {
	return errors.Join(text("first characters", k.Shown, MaxShownBytes), text("name", k.Name, MaxNameBytes), created(k.Created))
}

// CreateAgentKey stores an agent key of a cluster. Errors: those of Cluster and Team, ErrDeleting, ErrInvalid, ErrTaken, BoundError, ErrConflict.
func (r *Registry) CreateAgentKey(ctx context.Context, by Actor, clusterID, name, shown string, secret accesskey.Hash) error {
	found, err := r.Cluster(ctx, clusterID)
	if err != nil {
		return err
	}
	return r.inTeam(ctx, by, found.Team, func(*Team) (change, error) {
		c, err := r.Cluster(ctx, clusterID) // removed meanwhile
		if err != nil {
			return change{}, err
		}
		k := &AgentKey{Team: c.Team, Cluster: c.ID, SHA256: secret.Digits(), Shown: shown, Name: name, Created: r.now()}
		ops, err := r.puts(k)
		if err != nil {
			return change{}, err
		}
		if err := r.free(ctx, r.keyOf(k), "agent key "+secret.String()); err != nil {
			return change{}, err
		}
		have, err := r.count(ctx, agentKeyKind, c.Team)
		if err == nil && have >= MaxAgentKeys {
			err = &BoundError{Bound: "agent keys of a team", Limit: MaxAgentKeys}
		}
		return change{action: "agent-key.create", subject: secret.String() + " " + name, cmps: []clientv3.Cmp{r.unchanged(k)}, ops: ops}, err
	})
}

// AgentKeys returns the agent keys of a cluster.
func (r *Registry) AgentKeys(ctx context.Context, c *Cluster) (List[AgentKey], error) {
	return list[AgentKey](ctx, r, c.Team, c.ID)
}

// RevokeAgentKey deletes an agent key. Errors: those of Cluster and Team, ErrNotFound, ErrDeleting, ErrConflict.
func (r *Registry) RevokeAgentKey(ctx context.Context, by Actor, clusterID string, secret accesskey.Hash) error {
	c, err := r.Cluster(ctx, clusterID)
	if err != nil {
		return err
	}
	return r.inTeam(ctx, by, c.Team, func(*Team) (change, error) {
		key := r.key(agentKeyKind, c.Team, c.ID, secret.Digits())
		k, err := read[AgentKey](ctx, r, c.Team, c.ID, secret.Digits())
		subject := secret.String()
		switch {
		case err == nil:
			subject += " " + k.Name
		case !unreadable(err):
			return change{}, err
		}
		return change{action: "agent-key.revoke", subject: subject, ops: []clientv3.Op{clientv3.OpDelete(key)}}, nil
	})
}
