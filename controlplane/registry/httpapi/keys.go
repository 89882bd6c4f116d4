package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// AgentKey is a key of a cluster's agents, without the secret.
type AgentKey struct {
	ID      string    `json:"id" doc:"SHA-256 of the key, in 64 hexadecimal digits. Logs name the key by the first 8."`
	Name    string    `json:"name" doc:"Name of the key."`
	Shown   string    `json:"shown" doc:"First characters of the key, which are not secret."`
	Created time.Time `json:"created" doc:"Time of creation."`
}

// NewAgentKey is an agent key with its secret.
type NewAgentKey struct {
	AgentKey
	Key string `json:"key" doc:"The key, for the setting --agent-key of agents. No other answer has it."`
}

type newAgentKeyOutput struct{ Body NewAgentKey }

type listAgentKeysInput struct {
	ClusterInput
	PageInput
}

type createAgentKeyInput struct {
	ClusterInput
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"200" doc:"Name of the key, at most 200 bytes."`
	}
}

type agentKeyInput struct {
	ClusterInput
	Key string `path:"key" maxLength:"64" doc:"ID of the agent key."`
}

// timeOrNil returns nil for the zero time.
func timeOrNil(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

func showAgentKey(k *registry.AgentKey) AgentKey {
	return AgentKey{ID: k.SHA256, Name: k.Name, Shown: k.Shown, Created: k.Created}
}

func (h *Handler) routeAgentKeys(r *router) {
	handle(h, r, "list-agent-keys", func(ctx context.Context, _ *caller, in *listAgentKeysInput) (*pageOutput[AgentKey], error) {
		c, err := h.cluster(ctx, &in.ClusterInput)
		if err != nil {
			return nil, err
		}
		all, err := h.cfg.Registry.AgentKeys(ctx, c)
		if err != nil {
			return nil, err
		}
		return paginate(h, in.PageInput, "agent-keys/"+c.ID, all, func(k *registry.AgentKey) string { return k.SHA256 },
			func(k *registry.AgentKey) (AgentKey, error) { return showAgentKey(k), nil })
	})
	handle(h, r, "create-agent-key", func(ctx context.Context, who *caller, in *createAgentKeyInput) (*newAgentKeyOutput, error) {
		c, err := h.cluster(ctx, &in.ClusterInput)
		if err != nil {
			return nil, err
		}
		key, err := h.createAgentKey(ctx, who, c, in.Body.Name)
		if err != nil {
			return nil, err
		}
		return &newAgentKeyOutput{key}, nil
	})
	handle(h, r, "revoke-agent-key", func(ctx context.Context, who *caller, in *agentKeyInput) (*struct{}, error) {
		return nil, h.revokeAgentKey(ctx, who, in)
	})
}

// createAgentKey stores an agent key of a cluster and then writes it into the Spec.
func (h *Handler) createAgentKey(ctx context.Context, who *caller, c *registry.Cluster, name string) (NewAgentKey, error) {
	key, err := accesskey.New(accesskey.AgentPrefix, c.ID)
	if err != nil {
		return NewAgentKey{}, err
	}
	hash, now := accesskey.HashOf(key), h.cfg.Now().UTC().Truncate(time.Millisecond)
	shown := AgentKey{ID: hash.Digits(), Name: name, Shown: key[:registry.MaxShownBytes], Created: now}
	if err := h.cfg.Registry.CreateAgentKey(ctx, who.actor(), c.ID, shown.Name, shown.Shown, hash); err != nil {
		return NewAgentKey{}, field(err, "body.name", nameRequirement)
	}
	return NewAgentKey{AgentKey: shown, Key: key}, h.settle(ctx, c.ID)
}

// revokeAgentKey deletes the record of a key, and then the key in the Spec. The latter is repeated for a key without a record, because an earlier
// request may have ended in between.
func (h *Handler) revokeAgentKey(ctx context.Context, who *caller, in *agentKeyInput) error {
	c, err := h.cluster(ctx, &in.ClusterInput)
	if err != nil {
		return err
	}
	hash, ok := accesskey.ParseHash(in.Key)
	if !ok {
		return registry.ErrNotFound
	}
	err = h.cfg.Registry.RevokeAgentKey(ctx, who.actor(), c.ID, hash)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	if err := h.settle(ctx, c.ID); err != nil {
		return err
	}
	return err
}
