package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/controlplane/registry/mail"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/metadata/id"
)

// errNoMail is returned for a request for a mail without --smtp-url.
var errNoMail = errors.New("this control plane sends no mail: ask its operator")

// Mailed is the answer to a request for a mail. It does not show whether the address has an account.
type Mailed struct {
	Email string `json:"email" doc:"E-mail address to which the server sends a mail."`
}

type mailedOutput struct{ Body Mailed }

type verifyInput struct {
	Body struct {
		Token    string `json:"token" minLength:"1" maxLength:"64" doc:"Token in the mail. It is valid once."`
		Password string `json:"password" minLength:"10" maxLength:"256" doc:"Password of the sign-up."`
	}
}

type requestResetInput struct {
	Body struct {
		Email string `json:"email" minLength:"3" maxLength:"254" doc:"E-mail address of the account."`
	}
}

type resetInput struct {
	Body struct {
		Token    string `json:"token" minLength:"1" maxLength:"64" doc:"Token in the mail. It is valid once."`
		Password string `json:"password" minLength:"10" maxLength:"256" doc:"Next password of the account, at least 10 characters."`
	}
}

func (h *Handler) routeMails(r *router) {
	handle(h, r, "verify-sign-up", h.verifySignUp)
	handle(h, r, "request-password-reset", h.requestReset)
	handle(h, r, "reset-password", h.resetPassword)
}

// describeSignUp adds both answers to a sign-up.
func describeSignUp(all *huma.OpenAPI) {
	answers := all.Paths["/v1/signup"].Post.Responses
	answers["201"] = all.Paths["/v1/signup/verify"].Post.Responses["201"]
	answers["202"] = all.Paths["/v1/password-resets"].Post.Responses["202"]
}

// Errors of a confirmation. The caller of the last two has the token of the mail, so they may depend on the account.
var (
	errNoSignUp       = errors.New("the token is wrong, was used or has expired: log in if you have an account already, or sign up again")
	errSignUpPassword = errors.New("the password is not that of the sign-up: use that one, or sign up again")
	errConfirmed      = errors.New("the e-mail address has an account: log in, or reset its password")
)

// errNoToken is returned for the token of a reset that is not stored.
var errNoToken = errors.New("the token is wrong, was used or has expired: ask for another mail")

// newSecret returns the secret of a mail or a session: 52 characters with 260 random bits.
func newSecret() string { return rand.Text() + rand.Text() }

// mailTo returns the attempts of a request for a mail to an address. Sign-ups and resets have rates of their own.
func (c *caller) mailTo(email string, rate registry.AttemptKind) []registry.Attempt {
	return append(c.fromHere(), registry.Attempt{Kind: registry.MailsTo, Subject: email}, registry.Attempt{Kind: rate})
}

// requestSignUp stores a sign-up and queues its mail. It does the same work whether or not the address has an account: the mail finds out.
func (h *Handler) requestSignUp(ctx context.Context, who *caller, in signUpBody) (*signUpOutput, error) {
	email, err := registry.NormalizeEmail(in.Email)
	if err != nil {
		return nil, field(err, "body.email", emailRequirement)
	}
	attempts := who.mailTo(email, registry.SignUps)
	if err := h.cfg.Registry.Attempt(ctx, attempts...); err != nil {
		return nil, err
	}
	hash, err := h.passwords.Hash(in.Password)
	if err != nil {
		h.forgive(ctx, attempts...)
		return nil, err
	}
	secret := newSecret()
	pending := registry.PendingSignUp{Email: email, PasswordHash: hash, Team: in.Team, Cluster: in.Cluster, Demo: in.Demo}
	if err := h.cfg.Registry.RequestSignUp(ctx, pending, accesskey.HashOf(secret)); err != nil {
		return nil, err
	}
	h.cfg.Logger.Info("sign-up waits for its confirmation by mail", zap.String("address", who.address))
	return &signUpOutput{Status: http.StatusAccepted, Body: Mailed{email}}, h.cfg.Mail.Add(func(ctx context.Context) (*mail.Message, error) {
		_, err := h.cfg.Registry.AccountByEmail(ctx, email)
		switch {
		case errors.Is(err, registry.ErrNotFound):
			return h.signUpMail(email, secret), nil
		case err != nil:
			return nil, err
		}
		return h.knownMail(email), nil
	})
}

// verifySignUp makes the sign-up of a mail. If the answer is lost, the account can log in. The password is needed too: otherwise, the
// owner of an e-mail address could confirm the sign-up of a stranger, and both would have the account.
func (h *Handler) verifySignUp(ctx context.Context, who *caller, in *verifyInput) (*signedUpOutput, error) {
	if err := h.checkOpen(); err != nil {
		return nil, err
	}
	if h.cfg.Mail == nil {
		return nil, errNoMail
	}
	if err := h.checkRoom(); err != nil {
		return nil, err
	}
	p, err := h.cfg.Registry.PendingSignUp(ctx, accesskey.HashOf(in.Body.Token))
	if err != nil {
		return nil, notFoundAs(err, errNoSignUp)
	}
	// Sign-ups of the address do not delay their confirmations. Strangers have no token, so no rate of all is needed.
	attempts := who.passwordFromHere()
	if err := h.cfg.Registry.Attempt(ctx, attempts...); err != nil {
		return nil, err
	}
	err = h.verify(who, nil, p.PasswordHash, in.Body.Password)
	if errors.Is(err, errPassword) {
		return nil, errSignUpPassword
	}
	h.forgive(ctx, attempts...)
	if err != nil {
		return nil, err
	}
	n := registry.NewSignUp{
		NewAccount: registry.NewAccount{Email: p.Email, Name: nameOf(p.Email), PasswordHash: p.PasswordHash}, Address: host(who.address),
		Team: p.Team, ClusterID: id.NewCluster(), Cluster: p.Cluster, Demo: p.Demo, Pending: p,
	}
	out, err := h.signUpNew(ctx, who, n)
	if errors.Is(err, registry.ErrTaken) {
		return nil, errConfirmed
	}
	return out, err
}

// requestReset queues a mail. It does nothing else, so the answer takes the same time whether or not the address has an account.
func (h *Handler) requestReset(ctx context.Context, who *caller, in *requestResetInput) (*mailedOutput, error) {
	if h.cfg.Mail == nil {
		return nil, errNoMail
	}
	email, err := registry.NormalizeEmail(in.Body.Email)
	if err != nil {
		return nil, field(err, "body.email", emailRequirement)
	}
	if err := h.cfg.Registry.Attempt(ctx, who.mailTo(email, registry.Resets)...); err != nil {
		return nil, err
	}
	h.cfg.Logger.Info("reset of a password was requested", zap.String("address", who.address))
	return &mailedOutput{Mailed{email}}, h.cfg.Mail.Add(func(ctx context.Context) (*mail.Message, error) {
		a, err := h.cfg.Registry.AccountByEmail(ctx, email)
		if errors.Is(err, registry.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		secret := newSecret()
		if err := h.cfg.Registry.RequestReset(ctx, a, accesskey.HashOf(secret)); err != nil {
			return nil, err
		}
		return h.resetMail(email, secret), nil
	})
}

// resetPassword replaces the password of the account of a mail.
func (h *Handler) resetPassword(ctx context.Context, who *caller, in *resetInput) (*struct{}, error) {
	secret := accesskey.HashOf(in.Body.Token)
	if err := h.cfg.Registry.Resettable(ctx, secret); err != nil { // before the work of a hash, because a secret cannot be guessed
		return nil, notFoundAs(err, errNoToken)
	}
	hash, err := h.passwords.Hash(in.Body.Password)
	if err != nil {
		return nil, err
	}
	account, err := h.cfg.Registry.ResetPassword(ctx, secret, hash)
	if err != nil {
		return nil, notFoundAs(err, errNoToken)
	}
	h.cfg.Logger.Info("password was reset by mail", zap.String("account", account), zap.String("address", who.address))
	return nil, nil
}

// Texts of mails. They have no text of the request, which a stranger may have made, and name the configured address, never that of the request.

func (h *Handler) signUpMail(email, secret string) *mail.Message {
	return &mail.Message{To: email, Subject: "Confirm your e-mail address", Text: "Someone has signed up at " + h.cfg.URL + " with this e-mail address. If it was you, create the account within 24 hours, with the password of the sign-up:\n\n" +
		"    FRESHET_PASSWORD=... freshet ctl verify --url " + h.cfg.URL + " " + secret + "\n\nOtherwise, ignore this mail. No account is created.\n"}
}

func (h *Handler) knownMail(email string) *mail.Message {
	return &mail.Message{To: email, Subject: "You have an account already", Text: "Someone has signed up at " + h.cfg.URL + " with this e-mail address, which has an account already. If it was you, log in:\n\n" +
		"    FRESHET_PASSWORD=... freshet ctl login --url " + h.cfg.URL + " EMAIL\n\nIf you have forgotten the password:\n\n" +
		"    freshet ctl request-reset --url " + h.cfg.URL + " EMAIL\n\nOtherwise, ignore this mail. Nothing has changed.\n"}
}

func (h *Handler) resetMail(email, secret string) *mail.Message {
	return &mail.Message{To: email, Subject: "Reset your password", Text: "Someone has asked " + h.cfg.URL + " to reset the password of this e-mail address. If it was you, set another one within an hour:\n\n" +
		"    FRESHET_NEW_PASSWORD=... freshet ctl reset-password --url " + h.cfg.URL + " " + secret + "\n\nOtherwise, ignore this mail. The password stays.\n"}
}
