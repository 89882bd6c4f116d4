package httpapi

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// errOutlives is returned for a new API token that would be valid after the one that creates it.
var errOutlives = errors.New("an API token that expires creates no token that expires later: set an earlier time, or log in again with a later `--expires`")

// Token is an API token, without the secret.
type Token struct {
	ID      string     `json:"id" doc:"SHA-256 of the token, in 64 hexadecimal digits. Logs name the token by the first 8."`
	Account string     `json:"account" doc:"ID of the member's account."`
	Email   string     `json:"email,omitempty" doc:"E-mail address of the account, in lists."`
	Name    string     `json:"name" doc:"Name of the token."`
	Role    string     `json:"role" doc:"Highest role of the token: owner, admin, member or read-only. The member's role bounds it too."`
	Created time.Time  `json:"created" doc:"Time of creation."`
	Expires *time.Time `json:"expires,omitempty" doc:"Time from which the token is invalid. Absent if it does not expire."`
	Used    *time.Time `json:"used,omitempty" doc:"Time of the last use, up to an hour late. Absent before the first."`
}

// NewToken is an API token with its secret.
type NewToken struct {
	Token
	Secret string `json:"token" doc:"The token, for the header Authorization: Bearer. No other answer has it."`
}

type newTokenOutput struct{ Body NewToken }

type createTokenInput struct {
	TeamInput
	Body struct {
		Name    string     `json:"name" minLength:"1" maxLength:"200" doc:"Name of the token, at most 200 bytes."`
		Role    string     `json:"role" enum:"owner,admin,member,read-only" doc:"Highest role of the token."`
		Expires *time.Time `json:"expires,omitempty" doc:"Time from which the token is invalid, at most 366 days ahead. If absent, the token does not expire."`
	}
}

type tokenInput struct {
	TeamInput
	Token string `path:"token" maxLength:"64" doc:"ID of the API token."`
}

func (h *Handler) routeTokens(r *router) {
	handle(h, r, "list-tokens", func(ctx context.Context, who *caller, in *listInput) (*pageOutput[Token], error) {
		all, err := h.tokens(ctx, who, in.Team)
		if err != nil {
			return nil, err
		}
		known := emails{}
		return paginate(h, in.PageInput, "tokens/"+in.Team, all, func(t *registry.Token) string { return t.Account + "/" + t.SHA256 },
			func(t *registry.Token) (Token, error) {
				email, err := known.of(ctx, h, t.Account)
				return Token{
					ID: t.SHA256, Account: t.Account, Email: email, Name: t.Name, Role: string(t.Role), Created: t.Created,
					Expires: timeOrNil(t.Expires), Used: timeOrNil(t.Used),
				}, err
			})
	})
	handle(h, r, "create-token", h.createToken)
	handle(h, r, "revoke-token", func(ctx context.Context, who *caller, in *tokenInput) (*struct{}, error) {
		hash, ok := accesskey.ParseHash(in.Token)
		if !ok {
			return nil, registry.ErrNotFound
		}
		all, err := h.tokens(ctx, who, in.Team)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all.Records, func(t *registry.Token) bool { return t.SHA256 == hash.Digits() })
		if i < 0 {
			return nil, registry.ErrNotFound
		}
		return nil, h.cfg.Registry.RevokeToken(ctx, who.actor(), in.Team, all.Records[i].Account, hash)
	})
}

// tokens returns the API tokens of a team that the caller may see: all for admins, and otherwise the caller's own.
func (h *Handler) tokens(ctx context.Context, who *caller, team string) (registry.List[registry.Token], error) {
	all, err := h.cfg.Registry.Tokens(ctx, team)
	if err == nil && !who.role.Includes(registry.Admin) {
		all.Records = slices.DeleteFunc(all.Records, func(t *registry.Token) bool { return t.Account != who.account })
	}
	return all, err
}

func (h *Handler) createToken(ctx context.Context, who *caller, in *createTokenInput) (*newTokenOutput, error) {
	n := registry.NewToken{Team: in.Team, Account: who.account, Role: registry.Role(in.Body.Role), Name: in.Body.Name}
	now := h.cfg.Now().UTC().Truncate(time.Millisecond)
	if in.Body.Expires != nil {
		n.Expires = in.Body.Expires.UTC().Truncate(time.Millisecond)
		if !n.Expires.After(now) || n.Expires.Sub(now) > registry.MaxLifetime {
			return nil, field(registry.ErrInvalid, "body.expires", "expected a time at most 366 days ahead")
		}
	}
	if who.outlives(n.Expires) {
		return nil, errOutlives
	}
	token, err := h.storeToken(ctx, who, n)
	if err != nil {
		return nil, field(err, "body.name", nameRequirement)
	}
	return &newTokenOutput{token}, nil
}
