package registry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCreateAccount_UniqueEmail: one of many Registries that create an account with one e-mail address at once succeeds.
func TestCreateAccount_UniqueEmail(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	emails := []string{"ada@example.com", " Ada@Example.com"}
	require.Equal(t, 1, f.race(t, 8, is(ErrTaken), func(r *Registry, i int) error {
		_, err := r.CreateAccount(ctx, NewAccount{Email: emails[i/2%2], Name: "Ada"})
		return err
	}))
	a, err := f.AccountByEmail(ctx, "ADA@example.com")
	require.NoError(t, err)
	require.Equal(t, &Account{Head: a.Head, ID: a.ID, Email: "ada@example.com", Name: "Ada", Created: start}, a)
	require.Len(t, f.keys(t, "+registry/"), 2)
	_, err = f.CreateAccount(ctx, NewAccount{Email: "x", Name: "x"})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = f.CreateAccount(ctx, NewAccount{Email: "x@y", Name: ""})
	require.ErrorIs(t, err, ErrInvalid)
	_, err = f.AccountByEmail(ctx, "x@y")
	require.ErrorIs(t, err, ErrNotFound)
}

// TestUpdateAccount: two Registries change one account at once, and each change is kept.
func TestUpdateAccount(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	a := f.account(t, "ada")
	require.Equal(t, 16, f.race(t, 16, is(nil), func(r *Registry, i int) error {
		return r.UpdateAccount(ctx, a.ID, func(a *Account) error {
			a.Name += "x"
			a.Teams, a.Created, a.ID = []string{"x"}, time.Time{}, "x" // not the caller's
			return nil
		})
	}))
	got, err := f.Account(ctx, a.ID)
	require.NoError(t, err)
	require.Equal(t, "adaxxxxxxxxxxxxxxxx", got.Name)
	require.Empty(t, got.Teams)

	f.account(t, "bob")
	to := func(email string) func(*Account) error {
		return func(a *Account) error { a.Email = email; return nil }
	}
	require.ErrorIs(t, f.UpdateAccount(ctx, a.ID, to("BOB@example.com")), ErrTaken)
	require.Equal(t, 8, f.race(t, 8, is(nil), func(r *Registry, i int) error {
		return r.UpdateAccount(ctx, a.ID, to(fmt.Sprintf("ada%d@example.com", i)))
	}))
	require.Len(t, f.keys(t, "/emails/"), 2, "no e-mail address stays taken")
	stop := errors.New("stop")
	require.ErrorIs(t, f.UpdateAccount(ctx, a.ID, func(*Account) error { return stop }), stop)
	require.ErrorIs(t, f.UpdateAccount(ctx, "x", nil), ErrNotFound)
}

// comeSecond changes an account after other changes came first a number of times, and returns the number of attempts.
func (f *fixture) comeSecond(ctx context.Context, accountID string, times int) (attempts int, err error) {
	err = f.UpdateAccount(ctx, accountID, func(a *Account) error {
		a.Name = "second"
		if attempts++; attempts > times {
			return nil
		}
		return f.second.UpdateAccount(context.WithoutCancel(ctx), accountID, func(a *Account) error { a.Name = fmt.Sprint("first ", attempts); return nil })
	})
	return attempts, err
}

// TestUpdateAccount_Conflict: the change that comes second is made at the last attempt. One that always comes second is refused after maxAttempts.
func TestUpdateAccount_Conflict(t *testing.T) {
	f := open(t)
	a := f.account(t, "ada")
	for _, times := range []int{maxAttempts - 1, maxAttempts} {
		began := time.Now()
		attempts, err := f.comeSecond(t.Context(), a.ID, times)
		t.Log("time", time.Since(began))
		require.Equal(t, maxAttempts, attempts)
		got, readErr := f.Account(t.Context(), a.ID)
		require.NoError(t, readErr)
		if times < maxAttempts {
			require.NoError(t, err)
			require.Equal(t, "second", got.Name)
			continue
		}
		require.ErrorIs(t, err, ErrConflict)
		require.Equal(t, fmt.Sprint("first ", maxAttempts), got.Name)
	}
}

// TestRetry_End: the end of the context ends the attempts.
func TestRetry_End(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	require.ErrorIs(t, retry(ctx, func() (bool, error) {
		if calls++; calls == 3 {
			cancel()
		}
		return false, nil
	}), ErrConflict)
	require.Less(t, calls, maxAttempts)
}

// TestSessions: the newest MaxSessions sessions of an account stay, also if two Registries start them at once.
func TestSessions(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	a := f.account(t, "ada")
	const n = MaxSessions + 5
	require.Equal(t, n, f.race(t, n, is(nil), func(r *Registry, i int) error {
		_, err := r.StartSession(ctx, a.ID, hash(fmt.Sprint(i)), "192.0.2.1", start.Add(2*time.Hour))
		return err
	}))
	a, err := f.Account(ctx, a.ID)
	require.NoError(t, err)
	require.Len(t, a.Sessions, MaxSessions)
	require.Len(t, f.keys(t, "/sessions/"), MaxSessions)
	oldest := a.Sessions[0].SHA256
	familiar, err := f.StartSession(ctx, a.ID, hash("last"), "192.0.2.2", start.Add(time.Hour))
	require.NoError(t, err)
	require.False(t, familiar)
	require.Empty(t, f.keys(t, "/sessions/"+oldest))
	s, err := f.second.Session(ctx, hash("last"))
	require.NoError(t, err)
	require.Equal(t, &Session{Head: s.Head, SHA256: hash("last").Digits(), Account: a.ID, Created: start, Expires: start.Add(time.Hour)}, s)

	f.pass(time.Hour)
	_, err = f.Session(ctx, hash("last"))
	require.ErrorIs(t, err, ErrNotFound, "expired, and etcd still has it")
	for i := range MaxAddresses + 1 {
		familiar, err = f.StartSession(ctx, a.ID, hash(fmt.Sprint("more", i)), fmt.Sprint("192.0.2.", i+1), start.Add(3*time.Hour))
		require.NoError(t, err)
		require.Equal(t, i < 2, familiar)
	}
	a, err = f.Account(ctx, a.ID)
	require.NoError(t, err)
	require.Len(t, a.Addresses, MaxAddresses)
	require.Equal(t, "192.0.2.11", a.Addresses[MaxAddresses-1].Address)

	require.NoError(t, f.EndSession(ctx, hash("more0")))
	require.NoError(t, f.EndSession(ctx, hash("more0")), "again")
	_, err = f.Session(ctx, hash("more0"))
	require.ErrorIs(t, err, ErrNotFound)
	_, err = f.Session(ctx, hash("more1"))
	require.NoError(t, err)
	require.NoError(t, f.EndSessions(ctx, a.ID))
	require.Len(t, f.keys(t, "/sessions/"), 1, "the expired one, by its lease")
	for _, expires := range []time.Duration{time.Hour, time.Hour + MaxLifetime + time.Millisecond} { // now is start plus an hour
		_, err = f.StartSession(ctx, a.ID, hash("x"), "192.0.2.1", start.Add(expires))
		require.ErrorIs(t, err, ErrInvalid)
	}
}

// TestLeases: records that end in one hour share a lease, which a new Registry finds, and end with it.
func TestLeases(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	now := func() time.Time { return time.UnixMilli(f.clock.Load()) }
	short := func() *Registry { return New(Config{Client: f.client, Prefix: "/p", Now: now, Hour: time.Second}) }
	team, a := f.team(t, "ada")
	f.race(t, 8, is(nil), func(_ *Registry, i int) error {
		_, err := short().StartSession(ctx, a.ID, hash(fmt.Sprint(i)), "192.0.2.1", start.Add(time.Second))
		return err
	})
	expires := start.Add(1500 * time.Millisecond)
	require.NoError(t, short().CreateToken(ctx, by, NewToken{Team: team.ID, Account: a.ID, Role: Admin, Name: "ci", Expires: expires}, hash("t")))
	require.NoError(t, short().Invite(ctx, by, team.ID, "bob@example.com", Admin, hash("i"), expires))
	require.NoError(t, short().TokenUsed(ctx, hash("t")), "which keeps the lease")
	leases := map[int64]int{}
	for _, key := range f.keys(t, "") {
		resp, err := f.client.Get(ctx, key)
		require.NoError(t, err)
		leases[resp.Kvs[0].Lease]++
	}
	require.Len(t, leases, 2)
	delete(leases, 0)
	for _, keys := range leases {
		require.Equal(t, 8+2+1+1, keys, "sessions, token and its place, invitation, lease")
	}
	require.Eventually(t, func() bool { return len(f.keys(t, hash("t").Digits())) == 0 }, 30*time.Second, 50*time.Millisecond)
	require.Empty(t, f.keys(t, "/leases/"))
	require.Empty(t, f.keys(t, "/sessions/"))
	require.Empty(t, f.keys(t, "/invitations/"))
	_, err := short().StartSession(ctx, a.ID, hash("next"), "192.0.2.1", start.Add(time.Second))
	require.NoError(t, err, "the hour gets another lease")
}

// TestDeleteAccount: deletion that stops before any transaction can be repeated, and leaves nothing.
func TestDeleteAccount(t *testing.T) {
	for limit := int64(1); ; limit++ {
		f := open(t)
		ctx := t.Context()
		one, owner := f.team(t, "one")
		two, _ := f.team(t, "two")
		a := f.account(t, "ada")
		for _, team := range []*Team{one, two} {
			require.NoError(t, f.AddMember(ctx, by, team.ID, a.ID, Admin))
			require.NoError(t, f.CreateToken(ctx, by, NewToken{Team: team.ID, Account: a.ID, Role: Admin, Name: "ci"}, hash(team.ID)))
		}
		_, err := f.StartSession(ctx, a.ID, hash("s"), "192.0.2.1", start.Add(time.Hour))
		require.NoError(t, err)
		require.ErrorIs(t, f.DeleteAccount(ctx, by, owner.ID), ErrLastOwner)

		f.client.txns.Store(0)
		f.client.limit.Store(limit)
		cut := f.DeleteAccount(ctx, by, a.ID)
		if cut != nil {
			require.ErrorIs(t, cut, errCut)
			_, err = f.second.AccountByEmail(ctx, a.Email)
			require.NoError(t, err, "the account can still be found")
			require.NoError(t, f.second.DeleteAccount(ctx, by, a.ID))
		}
		require.Empty(t, f.keys(t, "/accounts/"+a.ID))
		for _, part := range []string{"/members/" + one.ID + "/" + a.ID, "/members/" + two.ID + "/" + a.ID, "/tokens/", "/token-places/", "/sessions/", "/emails/ada"} {
			require.Empty(t, f.keys(t, part), part)
		}
		if cut == nil {
			require.EqualValues(t, 3, limit, "two teams and the account")
			return
		}
	}
}
