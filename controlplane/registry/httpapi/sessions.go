package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// sessionLife is the time from a login to the end of its session.
const sessionLife = 14 * 24 * time.Hour

// Session is a new session.
type Session struct {
	Secret  string       `json:"session" doc:"Secret of the session, the value of the cookie __Host-freshet. No other answer has it."`
	Account string       `json:"account" doc:"ID of the account."`
	Expires time.Time    `json:"expires" doc:"Time from which the session is invalid."`
	Teams   []MemberTeam `json:"teams" nullable:"false" doc:"Teams of the account."`
}

// MemberTeam is a team with the role of an account in it.
type MemberTeam struct {
	Team
	Role string `json:"role" doc:"Role in the team: owner, admin, member or read-only."`
}

type sessionOutput struct {
	Cookie http.Cookie `header:"Set-Cookie" doc:"Cookie with the secret."`
	Body   Session
}

type logInInput struct {
	Body struct {
		Email    string `json:"email" minLength:"3" maxLength:"254" doc:"E-mail address of the account."`
		Password string `json:"password" minLength:"1" maxLength:"256" doc:"Password of the account."`
	}
}

func (h *Handler) routeSessions(r *router) {
	handle(h, r, "log-in", h.logIn)
	handle(h, r, "log-out", func(ctx context.Context, who *caller, _ *struct{}) (*struct{}, error) {
		return nil, h.cfg.Registry.EndSession(ctx, who.secret)
	})
}

func (h *Handler) logIn(ctx context.Context, who *caller, in *logInInput) (*sessionOutput, error) {
	email, err := registry.NormalizeEmail(in.Body.Email)
	if err != nil {
		return nil, field(err, "body.email", emailRequirement)
	}
	a, err := h.cfg.Registry.AccountByEmail(ctx, email)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return nil, err
	}
	if err := h.checkPassword(ctx, who, email, a, in.Body.Password); err != nil {
		return nil, err
	}
	secret := newSecret()
	expires := h.cfg.Now().UTC().Truncate(time.Millisecond).Add(sessionLife)
	if _, err := h.cfg.Registry.StartSession(ctx, a.ID, accesskey.HashOf(secret), host(who.address), expires); err != nil {
		return nil, err
	}
	out := &sessionOutput{
		Cookie: http.Cookie{Name: SessionCookie, Value: secret, Path: "/", Expires: expires, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode},
		Body:   Session{Secret: secret, Account: a.ID, Expires: expires, Teams: []MemberTeam{}},
	}
	for _, id := range a.Teams {
		t, err := h.memberTeam(ctx, id, a.ID)
		if errors.Is(err, registry.ErrNotFound) { // the account has left the team meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		out.Body.Teams = append(out.Body.Teams, t)
	}
	return out, nil
}

func (h *Handler) memberTeam(ctx context.Context, team, account string) (MemberTeam, error) {
	t, err := h.team(ctx, team)
	if err != nil {
		return MemberTeam{}, err
	}
	m, err := h.cfg.Registry.Member(ctx, team, account)
	if err != nil {
		return MemberTeam{}, err
	}
	return MemberTeam{Team: t.Body, Role: string(m.Role)}, nil
}
