package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/freshet-io/freshet/controlplane/registry"
)

// TeamInput is the team of a path.
type TeamInput struct {
	Team string `path:"team" maxLength:"64" doc:"ID of the team."`
}

// Team is a team.
type Team struct {
	ID       string    `json:"id" doc:"ID of the team."`
	Name     string    `json:"name" doc:"Name of the team. Several teams can have one name."`
	Created  time.Time `json:"created" doc:"Time of creation."`
	Approved bool      `json:"approved" doc:"Whether an operator has created or approved the team. Other teams have 2 clusters, which are deleted 30 days after the last contact of an agent."`
	Deleting bool      `json:"deleting" doc:"Whether the team is being deleted. Changes are then refused."`
}

type teamOutput struct{ Body Team }

type renameTeamInput struct {
	TeamInput
	Body struct {
		Name string `json:"name" minLength:"1" maxLength:"200" doc:"New name, at most 200 bytes."`
	}
}

func (h *Handler) routeTeams(r *router) {
	handle(h, r, "get-team", func(ctx context.Context, _ *caller, in *TeamInput) (*teamOutput, error) { return h.team(ctx, in.Team) })
	handle(h, r, "rename-team", func(ctx context.Context, who *caller, in *renameTeamInput) (*teamOutput, error) {
		if err := h.cfg.Registry.RenameTeam(ctx, who.actor(), in.Team, in.Body.Name); err != nil {
			return nil, field(err, "body.name", nameRequirement)
		}
		return h.team(ctx, in.Team)
	})
}

func (h *Handler) team(ctx context.Context, id string) (*teamOutput, error) {
	t, err := h.cfg.Registry.Team(ctx, id)
	if err != nil {
		return nil, err
	}
	return &teamOutput{Team{ID: t.ID, Name: t.Name, Created: t.Created, Approved: t.Approved(), Deleting: t.Deleting}}, nil
}

// Member is an account in a team.
type Member struct {
	Account string    `json:"account" doc:"ID of the account."`
	Role    string    `json:"role" doc:"Role in the team: owner, admin, member or read-only."`
	Created time.Time `json:"created" doc:"Time at which the account joined the team."`
	Name    string    `json:"name,omitempty" doc:"Name of the account. Absent if the account was deleted meanwhile."`
	Email   string    `json:"email,omitempty" doc:"E-mail address of the account. Absent if the account was deleted meanwhile."`
}

type memberOutput struct{ Body Member }

type listInput struct {
	TeamInput
	PageInput
}

type MemberInput struct {
	TeamInput
	Account string `path:"account" maxLength:"64" doc:"ID of the member's account."`
}

type setRoleInput struct {
	MemberInput
	Body struct {
		Role string `json:"role" enum:"owner,admin,member,read-only" doc:"New role."`
	}
}

func (h *Handler) routeMembers(r *router) {
	handle(h, r, "list-members", func(ctx context.Context, _ *caller, in *listInput) (*pageOutput[Member], error) {
		all, err := h.cfg.Registry.Members(ctx, in.Team)
		if err != nil {
			return nil, err
		}
		return paginate(h, in.PageInput, "members/"+in.Team, all, func(m *registry.Member) string { return m.Account },
			func(m *registry.Member) (Member, error) { return h.showMember(ctx, m) })
	})
	handle(h, r, "set-role", func(ctx context.Context, who *caller, in *setRoleInput) (*memberOutput, error) {
		if err := h.cfg.Registry.SetRole(ctx, who.actor(), in.Team, in.Account, registry.Role(in.Body.Role)); err != nil {
			return nil, err
		}
		m, err := h.cfg.Registry.Member(ctx, in.Team, in.Account)
		if err != nil {
			return nil, err
		}
		shown, err := h.showMember(ctx, m)
		return &memberOutput{shown}, err
	})
	handle(h, r, "remove-member", func(ctx context.Context, who *caller, in *MemberInput) (*struct{}, error) {
		return nil, h.cfg.Registry.RemoveMember(ctx, who.actor(), in.Team, in.Account)
	})
	handle(h, r, "leave-team", func(ctx context.Context, who *caller, in *TeamInput) (*struct{}, error) {
		return nil, h.cfg.Registry.RemoveMember(ctx, who.actor(), in.Team, who.account)
	})
}

func (h *Handler) showMember(ctx context.Context, m *registry.Member) (Member, error) {
	shown := Member{Account: m.Account, Role: string(m.Role), Created: m.Created}
	a, err := h.cfg.Registry.Account(ctx, m.Account)
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return shown, nil
	case err != nil:
		return shown, err
	}
	shown.Name, shown.Email = a.Name, a.Email
	return shown, nil
}

// emails has the e-mail addresses of accounts for one answer, so that each account is read once.
type emails map[string]string

// of returns the e-mail address of an account, "" if there is no such account or its record cannot be read.
func (e emails) of(ctx context.Context, h *Handler, account string) (string, error) {
	if email, ok := e[account]; ok {
		return email, nil
	}
	a, err := h.cfg.Registry.Account(ctx, account)
	switch {
	case err == nil:
		e[account] = a.Email
	case errors.Is(err, registry.ErrNotFound) || unreadable(err):
		e[account] = ""
	default:
		return "", err
	}
	return e[account], nil
}
