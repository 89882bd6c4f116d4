package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// invitationLife is the time for which an invitation is open.
const invitationLife = 7 * 24 * time.Hour

// Invitation is an open invitation.
type Invitation struct {
	ID      string    `json:"id" doc:"SHA-256 of the secret, in 64 hexadecimal digits."`
	Email   string    `json:"email" doc:"E-mail address of the invited account."`
	Role    string    `json:"role" doc:"Role that the account gets: owner, admin, member or read-only."`
	Created time.Time `json:"created" doc:"Time of creation."`
	Expires time.Time `json:"expires" doc:"Time from which the invitation is not accepted."`
}

// NewInvitation is an invitation with its secret.
type NewInvitation struct {
	Invitation
	Secret string `json:"secret" doc:"Secret that accepts the invitation. No other answer has it."`
}

type newInvitationOutput struct{ Body NewInvitation }

type createInvitationInput struct {
	TeamInput
	Body struct {
		Email string `json:"email" minLength:"3" maxLength:"254" doc:"E-mail address of the invited account."`
		Role  string `json:"role" enum:"owner,admin,member,read-only" doc:"Role that the account gets."`
	}
}

type invitationInput struct {
	TeamInput
	Invitation string `path:"invitation" maxLength:"64" doc:"ID of the invitation."`
}

type acceptInput struct {
	TeamInput
	Body struct {
		Secret string `json:"secret" minLength:"1" maxLength:"64" doc:"Secret of the invitation."`
	}
}

// errNoInvitation is returned for the secret of an invitation that is not stored.
var errNoInvitation = errors.New("the secret is wrong, or the invitation was used, revoked or replaced, or has expired: ask for another one")

func showInvitation(i *registry.Invitation) Invitation {
	return Invitation{ID: i.SHA256, Email: i.Email, Role: string(i.Role), Created: i.Created, Expires: i.Expires}
}

func (h *Handler) routeInvitations(r *router) {
	handle(h, r, "list-invitations", func(ctx context.Context, _ *caller, in *listInput) (*pageOutput[Invitation], error) {
		all, err := h.cfg.Registry.Invitations(ctx, in.Team)
		if err != nil {
			return nil, err
		}
		return paginate(h, in.PageInput, "invitations/"+in.Team, all, func(i *registry.Invitation) string { return i.SHA256 },
			func(i *registry.Invitation) (Invitation, error) { return showInvitation(i), nil })
	})
	handle(h, r, "create-invitation", h.createInvitation)
	handle(h, r, "revoke-invitation", func(ctx context.Context, who *caller, in *invitationInput) (*struct{}, error) {
		hash, ok := accesskey.ParseHash(in.Invitation)
		if !ok {
			return nil, registry.ErrNotFound
		}
		return nil, h.cfg.Registry.Withdraw(ctx, who.actor(), in.Team, hash)
	})
	handle(h, r, "accept-invitation", func(ctx context.Context, who *caller, in *acceptInput) (*teamOutput, error) {
		secret := accesskey.HashOf(in.Body.Secret)
		if _, err := h.cfg.Registry.Invitation(ctx, in.Team, secret); err != nil { // before errors of a team that the caller may not know
			return nil, notFoundAs(err, errNoInvitation)
		}
		if err := h.cfg.Registry.Accept(ctx, who.actor(), in.Team, who.account, secret); err != nil {
			return nil, notFoundAs(err, errNoInvitation)
		}
		return h.team(ctx, in.Team)
	})
}

func (h *Handler) createInvitation(ctx context.Context, who *caller, in *createInvitationInput) (*newInvitationOutput, error) {
	secret := rand.Text() + rand.Text() // 52 characters with 260 random bits
	hash := accesskey.HashOf(secret)
	err := h.cfg.Registry.Invite(ctx, who.actor(), in.Team, in.Body.Email, registry.Role(in.Body.Role), hash, h.cfg.Now().Add(invitationLife))
	if err != nil {
		return nil, field(err, "body.email", emailRequirement)
	}
	i, err := h.cfg.Registry.Invitation(ctx, in.Team, hash)
	if errors.Is(err, registry.ErrNotFound) { // another invitation of the address replaced it
		err = registry.ErrConflict
	}
	if err != nil {
		return nil, err
	}
	return &newInvitationOutput{NewInvitation{Invitation: showInvitation(i), Secret: secret}}, nil
}
