package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// SessionCookie is the name of the cookie with the secret of a session. Browsers take a cookie with the prefix __Host- only over TLS and without
// a domain.
const SessionCookie = "__Host-freshet"

// maxCookie bounds the secret of a session, in bytes.
const maxCookie = 256

// caller is the authenticated account of a request. On public routes, it has an address alone.
type caller struct {
	account string
	token   *registry.Token // nil for a session
	secret  accesskey.Hash  // of the token or the session
	role    registry.Role   // in the team of the path, "" on routes that require a session
	address string          // network address, "" if unknown
}

// callerKey is the key of the caller in a context.
type callerKey struct{}

// actor returns the caller for audit entries. The role bounds the roles that the caller can give.
func (c *caller) actor() registry.Actor {
	name := c.account
	if c.token != nil {
		name = tokenActor(name, c.secret)
	}
	return registry.Actor{Name: name, Address: c.address, Role: c.role}
}

// tokenActor returns the name of an account with an API token as an actor.
func tokenActor(account string, token accesskey.Hash) string {
	return account + " token " + token.String()
}

// authorize calls next with the caller of a request that may use a route.
func (h *Handler) authorize(row route, ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	if row.access == public {
		if changes(r) && h.sameOrigin.Check(r) != nil { // or a page elsewhere would log its visitor in
			writeProblem(w, h.problemOf(row.id, errOrigin))
			return
		}
		if err := h.checkEtcd(row); err != nil {
			writeProblem(w, h.problemOf(row.id, err))
			return
		}
		next(huma.WithValue(ctx, callerKey{}, &caller{address: h.addressOf(r)}))
		return
	}
	who, err := h.identify(ctx.Context(), r, row.access, ctx.Param("team"))
	if err == nil {
		err = h.checkEtcd(row)
	}
	if err != nil {
		writeProblem(w, h.problemOf(row.id, err))
		return
	}
	h.cfg.Logger.Debug("HTTP request", zap.String("route", row.id), zap.String("account", who.account), zap.Stringer("secret", who.secret))
	next(huma.WithValue(ctx, callerKey{}, who))
}

// identify returns the caller of a request, with the right that a route requires in a team. It has a slot only as long as it takes, because the body follows.
func (h *Handler) identify(ctx context.Context, r *http.Request, need access, team string) (*caller, error) {
	if err := h.enter(); err != nil {
		return nil, err
	}
	defer h.leave()
	if need == operator {
		return h.byOperatorKey(r)
	}
	who, err := h.authenticate(ctx, r)
	if err != nil {
		return nil, err
	}
	return who, h.admit(ctx, who, need, team)
}

var (
	errAnonymous = errors.New("this path needs an API token or a session that has not expired")
	errOperator  = errors.New("this path needs an operator key that begins with fso_")
	errOrigin    = errors.New("a change from a browser needs the Origin header of the same site")
	errSession   = errors.New("this path needs a session and takes no API token")
	errRole      = errors.New("the role in the team is too low")
)

// authenticate returns the caller of a request. A request with an Authorization header is judged by it alone. Errors: errAnonymous, errOrigin,
// those of Token and Session.
func (h *Handler) authenticate(ctx context.Context, r *http.Request) (*caller, error) {
	if text := r.Header.Get("Authorization"); text != "" {
		return h.byToken(ctx, r, text)
	}
	cookie, err := r.Cookie(SessionCookie)
	if err != nil || cookie.Value == "" || len(cookie.Value) > maxCookie {
		return nil, errAnonymous
	}
	if changes(r) && (r.Header.Get("Origin") == "" || h.sameOrigin.Check(r) != nil) {
		return nil, errOrigin
	}
	secret := accesskey.HashOf(cookie.Value)
	s, err := h.cfg.Registry.Session(ctx, secret)
	if err != nil {
		return nil, anonymous(err)
	}
	return &caller{account: s.Account, secret: secret, address: h.addressOf(r)}, nil
}

// byToken returns the caller of a request with an Authorization header.
func (h *Handler) byToken(ctx context.Context, r *http.Request, header string) (*caller, error) {
	scheme, text, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") || !accesskey.ValidToken(text) {
		return nil, errAnonymous
	}
	secret := accesskey.HashOf(text)
	t, err := h.cfg.Registry.Token(ctx, secret)
	if err != nil {
		return nil, anonymous(err)
	}
	if h.cfg.Now().Sub(t.Used) >= registry.UsedEvery {
		if err := h.cfg.Registry.TokenUsed(ctx, secret); err != nil {
			h.cfg.Logger.Warn("store last use of API token", zap.Stringer("token", secret), zap.Error(err))
		}
	}
	return &caller{account: t.Account, token: t, secret: secret, address: h.addressOf(r)}, nil
}

// byOperatorKey returns the caller of a request with an operator key. It takes only keys of 256 random bits, because anyone can try keys here.
func (h *Handler) byOperatorKey(r *http.Request) (*caller, error) {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || !accesskey.ValidOperatorKey(key) || h.cfg.Operator == nil || !h.cfg.Operator(key) {
		return nil, errOperator
	}
	secret := accesskey.HashOf(key)
	return &caller{account: "operator key " + secret.String(), secret: secret, address: h.addressOf(r)}, nil
}

// anonymous returns errAnonymous for a token or session that does not exist.
func anonymous(err error) error {
	if errors.Is(err, registry.ErrNotFound) {
		return errAnonymous
	}
	return err
}

// admit checks the caller's right in a team, and sets the caller's role. Errors: registry.ErrNotFound for a team without the caller, errRole, errSession.
func (h *Handler) admit(ctx context.Context, who *caller, need access, team string) error {
	switch {
	case need == session && who.token != nil:
		return errSession
	case need == session:
		return nil
	case who.token != nil && who.token.Team != team:
		return registry.ErrNotFound
	case who.token != nil:
		who.role = who.token.Role
	default:
		m, err := h.cfg.Registry.Member(ctx, team, who.account)
		if err != nil {
			return err
		}
		who.role = m.Role
	}
	if role, ok := roleOf[need]; !ok || !who.role.Includes(role) {
		return errRole
	}
	return nil
}

// outlives reports whether a new token of the caller would be valid after the caller's own token. Zero never expires.
func (c *caller) outlives(expires time.Time) bool {
	return c.token != nil && !c.token.Expires.IsZero() && (expires.IsZero() || expires.After(c.token.Expires))
}
