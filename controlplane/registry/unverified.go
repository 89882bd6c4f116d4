package registry

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Unverified reports whether an account has signed up by itself, and its e-mail address was not verified.
func (a *Account) Unverified() bool { return a.PasswordHash != "" && a.Verified.IsZero() }

// idle reports whether an account has neither logged in nor had a session since a time.
func (a *Account) idle(since time.Time) bool {
	open := slices.ContainsFunc(a.Sessions, func(s OpenSession) bool { return s.Expires.After(since) })
	return !open && a.Created.Before(since) && a.Passed.Last.Add(AccountLoginsWindow).Before(since)
}

// DeleteAbandoned deletes an account that has a password and is idle since a time, and its teams. It changes nothing if one of the teams is approved, or
// has a cluster, an API token that was used since then, or a member that has no password or is not idle. So accounts that are members of each other's
// teams do not keep each other.
// deleted reports whether the account is gone. If DeleteAbandoned ends early, call it again, and DeleteTeam for teams that are Deleting. Errors: those of
// DeleteTeam and DeleteAccount.
func (r *Registry) DeleteAbandoned(ctx context.Context, by Actor, a *Account, since time.Time) (deleted bool, err error) {
	left := func(a *Account) bool { return a.PasswordHash != "" && a.idle(since) }
	if !left(a) {
		return false, nil
	}
	for _, teamID := range a.Teams {
		if abandoned, err := r.abandoned(ctx, teamID, left, since); err != nil || !abandoned {
			return false, err
		}
	}
	for _, teamID := range a.Teams {
		if err := ignoreNotFound(r.DeleteTeam(ctx, by, teamID)); err != nil {
			return false, err
		}
	}
	err = r.deleteAccount(ctx, by, a.ID, func(a *Account) bool {
		deleted = left(a)
		return deleted
	})
	return deleted && err == nil, err
}

// abandoned reports whether a team is not approved, and has no clusters, no API token in use, and only members that left.
func (r *Registry) abandoned(ctx context.Context, teamID string, left func(*Account) bool, since time.Time) (bool, error) {
	t, err := r.Team(ctx, teamID)
	if err != nil || t.Approved() {
		return errors.Is(err, ErrNotFound), ignoreNotFound(err)
	}
	clusters, err := r.count(ctx, clusterNameKind, teamID)
	if err != nil || clusters > 0 {
		return false, err
	}
	tokens, err := r.Tokens(ctx, teamID)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(tokens.Records, func(t *Token) bool { return t.Created.After(since) || t.Used.After(since) }) {
		return false, nil
	}
	members, err := r.Members(ctx, teamID)
	if err != nil {
		return false, err
	}
	for _, m := range members.Records {
		switch a, err := r.Account(ctx, m.Account); {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return false, err
		case !left(a):
			return false, nil
		}
	}
	return true, errors.Join(append(members.Faults, tokens.Faults...)...)
}
