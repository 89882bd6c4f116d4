package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
)

// TestRequestSignUp_Bound: sign-ups that are not confirmed have a bound.
func TestRequestSignUp_Bound(t *testing.T) {
	f := open(t)
	p := PendingSignUp{Email: "ada@example.com", PasswordHash: "$argon2id$", Team: "data", Cluster: "main"}
	require.NoError(t, f.RequestSignUp(t.Context(), p, hash("first")))
	last := f.fill(t, pendingKind, MaxPendingSignUps-1)
	err := f.RequestSignUp(t.Context(), p, hash("further"))
	require.True(t, bound("sign-ups that are not confirmed")(err), "%v", err)
	_, err = f.client.Delete(t.Context(), last)
	require.NoError(t, err)
	require.NoError(t, f.RequestSignUp(t.Context(), p, hash("further")))
}

// TestSignUp_Pending: one confirmation at once makes an account, and ends the request.
func TestSignUp_Pending(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	require.NoError(t, f.RequestSignUp(ctx, PendingSignUp{Email: "Ada@example.com", PasswordHash: "$argon2id$", Team: "data", Cluster: "main"}, hash("secret")))
	p, err := f.PendingSignUp(ctx, hash("secret"))
	require.NoError(t, err)
	require.Equal(t, "ada@example.com", p.Email)
	require.Equal(t, 1, f.race(t, 4, is(ErrTaken), func(r *Registry, i int) error {
		_, err := r.SignUp(ctx, NewSignUp{
			NewAccount: NewAccount{Email: p.Email, Name: "ada", PasswordHash: p.PasswordHash}, Team: p.Team, ClusterID: id.NewCluster(), Cluster: p.Cluster,
			KeyName: "sign-up", KeyShown: "fsk_AAAAAAAA", Key: hash(fmt.Sprint(i)), Pending: p,
		})
		return err
	}))
	require.Empty(t, f.keys(t, "/sign-ups/"))
	require.Len(t, f.keys(t, "/clusters/"), 1)
	a, err := f.AccountByEmail(ctx, "ada@example.com")
	require.NoError(t, err)
	require.Equal(t, start, a.Verified)
}

// TestResetPassword: one of several resets at once succeeds.
func TestResetPassword(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	a, err := f.CreateAccount(ctx, NewAccount{Email: "ada@example.com", Name: "ada"})
	require.NoError(t, err)
	_, err = f.StartSession(ctx, a.ID, hash("session"), "192.0.2.1", start.Add(time.Hour))
	require.NoError(t, err)
	require.NoError(t, f.RequestReset(ctx, a, hash("secret")))
	require.NoError(t, f.Resettable(ctx, hash("secret")))
	require.Equal(t, 1, f.race(t, 4, is(ErrNotFound), func(r *Registry, i int) error {
		_, err := r.ResetPassword(ctx, hash("secret"), fmt.Sprint("hash", i))
		return err
	}))
	require.Empty(t, f.keys(t, "/password-resets/"))
	require.Empty(t, f.keys(t, "/sessions/"))
	require.NoError(t, f.RequestReset(ctx, a, hash("old")), "of the account before the reset")
	_, err = f.ResetPassword(ctx, hash("old"), "other")
	require.ErrorIs(t, err, ErrNotFound)
	f.pass(ResetLife)
	require.ErrorIs(t, f.Resettable(ctx, hash("old")), ErrNotFound)
}
