package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// OwnedTeam is a new team with an API token of its owner.
type OwnedTeam struct {
	Team  Team     `json:"team" doc:"The team."`
	Owner string   `json:"owner" doc:"ID of the owner's account."`
	Token NewToken `json:"token" doc:"API token of the owner, with the role owner. It does not expire."`
}

type ownedTeamOutput struct{ Body OwnedTeam }

type createTeamInput struct {
	Body struct {
		Name  string `json:"name" minLength:"1" maxLength:"200" doc:"Name of the team, at most 200 bytes."`
		Email string `json:"email" minLength:"3" maxLength:"254" doc:"E-mail address of the owner. An account that an operator has created with this address becomes the owner, or else a new one."`
	}
}

// firstToken is the name of the API token that create-team answers.
const firstToken = "first token"

// TeamCluster is a virtual cluster with its team.
type TeamCluster struct {
	Cluster
	Team     string `json:"team" doc:"ID of the team."`
	TeamName string `json:"team_name,omitempty" doc:"Name of the team. Absent if its record cannot be read."`
	Approved bool   `json:"team_approved" doc:"Whether an operator has created or approved the team."`
}

// AnyClusterInput names a cluster of any team.
type AnyClusterInput struct {
	Cluster string `path:"cluster" maxLength:"64" doc:"ID of the cluster."`
}

type teamClusterOutput struct{ Body TeamCluster }

// errNoID is returned to an operator for the ID of a team or a cluster that is not stored.
var errNoID = errors.New("not found: want an id of `freshet ctl cluster list-all`")

func (h *Handler) routeOperator(r *router) {
	handle(h, r, "create-team", h.createTeam)
	handle(h, r, "approve-team", func(ctx context.Context, who *caller, in *TeamInput) (*teamOutput, error) {
		if err := h.cfg.Registry.ApproveTeam(ctx, who.actor(), in.Team); err != nil {
			return nil, notFoundAs(err, errNoID)
		}
		return h.team(ctx, in.Team)
	})
	handle(h, r, "list-all-clusters", func(ctx context.Context, _ *caller, in *PageInput) (*pageOutput[TeamCluster], error) {
		all, err := h.cfg.Registry.AllClusters(ctx)
		if err != nil {
			return nil, err
		}
		teams := map[string]registry.Team{} // by ID
		return paginate(h, *in, "all-clusters", all, func(c *registry.Cluster) string { return c.ID }, func(c *registry.Cluster) (TeamCluster, error) {
			return h.showToOperator(ctx, c, teams)
		})
	})
	handle(h, r, "limit-cluster", h.limit)
	handle(h, r, "block-cluster", func(ctx context.Context, who *caller, in *AnyClusterInput) (*teamClusterOutput, error) {
		return h.changed(ctx, in.Cluster, h.cfg.Registry.BlockCluster(ctx, who.actor(), h.cfg.Directory, in.Cluster))
	})
	handle(h, r, "unblock-cluster", func(ctx context.Context, who *caller, in *AnyClusterInput) (*teamClusterOutput, error) {
		return h.changed(ctx, in.Cluster, h.cfg.Registry.UnblockCluster(ctx, who.actor(), h.cfg.Directory, in.Cluster))
	})
}

// changed returns a cluster after an operator's change. err is the error of the change.
func (h *Handler) changed(ctx context.Context, clusterID string, err error) (*teamClusterOutput, error) {
	if err != nil {
		return nil, notFoundAs(err, errNoID)
	}
	c, err := h.cfg.Registry.Cluster(ctx, clusterID)
	if err != nil {
		return nil, notFoundAs(err, errNoID)
	}
	shown, err := h.showToOperator(ctx, c, map[string]registry.Team{})
	return &teamClusterOutput{shown}, err
}

// showToOperator returns a cluster with its team. teams has the teams that were read before. Error: etcd's.
func (h *Handler) showToOperator(ctx context.Context, c *registry.Cluster, teams map[string]registry.Team) (TeamCluster, error) {
	if _, known := teams[c.Team]; !known {
		t, err := h.cfg.Registry.Team(ctx, c.Team)
		switch {
		case err == nil:
			teams[c.Team] = *t
		case errors.Is(err, registry.ErrNotFound) || unreadable(err):
			teams[c.Team] = registry.Team{SignedUp: true}
		default:
			return TeamCluster{}, err
		}
	}
	t := teams[c.Team]
	return TeamCluster{Cluster: h.show(ctx, c), Team: c.Team, TeamName: t.Name, Approved: t.Approved()}, nil
}

// createTeam stores an account, a team and an API token, one after the other. A request that ended in between leaves an account that the same request
// again takes, or a team without a token.
func (h *Handler) createTeam(ctx context.Context, who *caller, in *createTeamInput) (*ownedTeamOutput, error) {
	a, err := h.accountOf(ctx, in.Body.Email)
	if err != nil {
		return nil, field(err, "body.email", emailRequirement)
	}
	created, err := h.cfg.Registry.CreateTeam(ctx, who.actor(), in.Body.Name, a.ID)
	if err != nil {
		return nil, field(err, "body.name", nameRequirement)
	}
	n := registry.NewToken{Team: created.ID, Account: a.ID, Role: registry.Owner, Name: firstToken}
	token, err := h.storeToken(ctx, who, n)
	if err != nil {
		return nil, err
	}
	t, err := h.team(ctx, created.ID)
	if err != nil {
		return nil, err
	}
	return &ownedTeamOutput{OwnedTeam{Team: t.Body, Owner: a.ID, Token: token}}, nil
}

// errUnverified is returned for an e-mail address whose account signed up by itself: it may be another person's.
var errUnverified = errors.New("the account with this e-mail address signed up by itself, and the address was not verified: use another address")

// accountOf returns the account of an e-mail address, which is new or was made by an operator.
func (h *Handler) accountOf(ctx context.Context, email string) (*registry.Account, error) {
	a, err := h.cfg.Registry.AccountByEmail(ctx, email)
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return h.cfg.Registry.CreateAccount(ctx, registry.NewAccount{Email: email, Name: nameOf(email)})
	case err == nil && a.PasswordHash != "" && a.Verified.IsZero():
		return nil, errUnverified
	}
	return a, err
}

// storeToken stores a new API token and returns it.
func (h *Handler) storeToken(ctx context.Context, who *caller, n registry.NewToken) (NewToken, error) {
	secret := accesskey.NewToken()
	hash := accesskey.HashOf(secret)
	created := h.cfg.Now().UTC().Truncate(time.Millisecond)
	if err := h.cfg.Registry.CreateToken(ctx, who.actor(), n, hash); err != nil {
		return NewToken{}, err
	}
	return NewToken{Secret: secret, Token: Token{
		ID: hash.Digits(), Account: n.Account, Name: n.Name, Role: string(n.Role), Created: created, Expires: timeOrNil(n.Expires),
	}}, nil
}
