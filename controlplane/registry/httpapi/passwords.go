package httpapi

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/registry"
)

// errPassword is returned for an unknown e-mail address or a wrong password.
var errPassword = errors.New("the e-mail address or the password is wrong")

// errOldPassword is returned for a change of the password with a wrong old one.
var errOldPassword = errors.New("the old password is wrong")

type changePasswordInput struct {
	Body struct {
		Old string `json:"old" minLength:"1" maxLength:"256" doc:"Password of the account."`
		New string `json:"new" minLength:"10" maxLength:"256" doc:"Next password of the account, at least 10 characters."`
	}
}

func (h *Handler) routePassword(r *router) {
	handle(h, r, "change-password", h.changePassword)
}

// changePassword counts a wrong old password like a failed login, so that a stolen session cannot guess the password.
func (h *Handler) changePassword(ctx context.Context, who *caller, in *changePasswordInput) (*struct{}, error) {
	a, err := h.cfg.Registry.Account(ctx, who.account)
	if err != nil {
		return nil, err
	}
	if err := h.checkPassword(ctx, who, a.Email, a, in.Body.Old); err != nil {
		if errors.Is(err, errPassword) {
			err = errOldPassword
		}
		return nil, err
	}
	next, err := h.passwords.Hash(in.Body.New)
	if err != nil {
		return nil, err
	}
	if err := h.cfg.Registry.ChangePassword(ctx, a.ID, a.PasswordHash, next, who.secret); err != nil {
		return nil, err
	}
	h.cfg.Logger.Info("password changed", zap.String("account", a.ID), zap.String("address", who.address))
	return nil, nil
}

// checkPassword returns errPassword unless a password is that of an account, which is nil for an unknown e-mail address. An unknown address takes the time of a
// known one. Errors: errPassword, registry.PausedError, password.ErrBusy.
func (h *Handler) checkPassword(ctx context.Context, who *caller, email string, a *registry.Account, text string) error {
	if a != nil && a.Familiar(host(who.address)) {
		return h.checkFamiliar(ctx, who, a, text)
	}
	attempts := who.logIn(email)
	if err := h.cfg.Registry.Attempt(ctx, attempts...); err != nil {
		return err
	}
	hash := ""
	if a != nil {
		hash = a.PasswordHash
	}
	err := h.verify(who, a, hash, text)
	switch {
	case err == nil:
		h.forgive(ctx, attempts[:len(attempts)-1]...) // the rate of all logins stays, because the work was done
	case !errors.Is(err, errPassword):
		h.forgive(ctx, attempts...)
	}
	return err
}

// checkFamiliar is checkPassword for an address from which the account has logged in before. Such an address has a count of its own. So neither attempts from
// elsewhere nor the rate of all logins lock the account out.
func (h *Handler) checkFamiliar(ctx context.Context, who *caller, a *registry.Account, text string) error {
	from := host(who.address)
	if err := h.cfg.Registry.AttemptFamiliar(ctx, a.ID, from); err != nil {
		return err
	}
	err := h.verify(who, a, a.PasswordHash, text)
	if errors.Is(err, errPassword) {
		return err
	}
	if err := h.cfg.Registry.ForgiveFamiliar(ctx, a.ID, from); err != nil {
		h.cfg.Logger.Warn("an attempt was not taken back", zap.Error(err))
	}
	return err
}

// verify returns errPassword unless a password has a hash. Errors: errPassword, password.ErrBusy.
func (h *Handler) verify(who *caller, a *registry.Account, hash, text string) error {
	ok, err := h.passwords.Verify(hash, text)
	if err == nil && !ok {
		h.cfg.Logger.Info("password refused", zap.Bool("account_exists", a != nil), zap.String("address", who.address))
		err = errPassword
	}
	return err
}

// logIn returns the attempts of a login into the account of an e-mail address.
func (c *caller) logIn(email string) []registry.Attempt {
	return append(c.passwordFromHere(), registry.Attempt{Kind: registry.LoginsOfAccount, Subject: email}, registry.Attempt{Kind: registry.Logins})
}

// passwordFromHere returns the attempts of a password that count for the address alone.
func (c *caller) passwordFromHere() []registry.Attempt {
	return []registry.Attempt{
		{Kind: registry.LoginsFromHost, Subject: host(c.address)},
		{Kind: registry.LoginsFromNetwork, Subject: network(c.address)},
	}
}

// signUp returns the attempts of a sign-up.
func (c *caller) signUp() []registry.Attempt {
	return append(c.fromHere(), registry.Attempt{Kind: registry.SignUps})
}

// fromHere returns the attempts of a sign-up or reset that count for the address alone.
func (c *caller) fromHere() []registry.Attempt {
	return []registry.Attempt{
		{Kind: registry.SignUpsFromHost, Subject: host(c.address)},
		{Kind: registry.SignUpsFromNetwork, Subject: network(c.address)},
	}
}

// forgive takes attempts back, because they have succeeded, or were refused before their password was looked at.
func (h *Handler) forgive(ctx context.Context, attempts ...registry.Attempt) {
	if err := h.cfg.Registry.Forgive(ctx, attempts...); err != nil {
		h.cfg.Logger.Warn("an attempt was not taken back", zap.Error(err))
	}
}
