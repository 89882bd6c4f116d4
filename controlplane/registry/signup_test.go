package registry

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/metadata/id"
)

func newSignUp(email string) NewSignUp {
	return NewSignUp{
		NewAccount: NewAccount{Email: email, Name: "ada", PasswordHash: "$argon2id$"}, Address: "192.0.2.1",
		Team: "team", ClusterID: id.NewCluster(), Cluster: "main", KeyName: "sign-up", KeyShown: "fsk_AAAAAAAA", Key: hash(email),
	}
}

// TestSignUp: all records or none are stored, also if the answer of etcd is lost.
func TestSignUp(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	for name, change := range map[string]func(*NewSignUp){
		"e-mail":   func(n *NewSignUp) { n.Email = "ada" },
		"team":     func(n *NewSignUp) { n.Team = "" },
		"cluster":  func(n *NewSignUp) { n.Cluster = "a/b" },
		"key name": func(n *NewSignUp) { n.KeyName = strings.Repeat("x", MaxNameBytes+1) },
	} {
		n := newSignUp("ada@example.com")
		change(&n)
		_, err := f.SignUp(ctx, n)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	f.client.limit.Store(1)
	f.client.txns.Store(1)
	_, err := f.SignUp(ctx, newSignUp("ada@example.com"))
	require.ErrorIs(t, err, errCut)
	require.Empty(t, f.keys(t, "/p/"))

	f.client.limit.Store(0)
	f.client.deaf.Store(true)
	_, err = f.SignUp(ctx, newSignUp(" Ada@example.com"))
	require.ErrorIs(t, err, errCut)
	f.client.deaf.Store(false)
	_, err = f.second.SignUp(ctx, newSignUp("ada@example.com"))
	require.ErrorIs(t, err, ErrTaken)

	a, err := f.second.AccountByEmail(ctx, "ada@example.com")
	require.NoError(t, err)
	require.Equal(t, []Familiar{{Address: "192.0.2.1"}}, a.Addresses)
	require.Len(t, a.Teams, 1)
	m, err := f.second.Member(ctx, a.Teams[0], a.ID)
	require.NoError(t, err)
	require.Equal(t, Owner, m.Role)
	clusters, err := f.second.Clusters(ctx, a.Teams[0])
	require.NoError(t, err)
	require.Len(t, clusters.Records, 1)
	agentKeys, err := f.second.AgentKeys(ctx, clusters.Records[0])
	require.NoError(t, err)
	require.Len(t, agentKeys.Records, 1)
	page, _, err := f.second.Audit(ctx, a.Teams[0], 0)
	require.NoError(t, err)
	require.Empty(t, page.Faults)
	var actions []string
	for _, e := range page.Records {
		require.Equal(t, a.ID, e.Actor)
		actions = append(actions, e.Action)
	}
	require.Equal(t, []string{"agent-key.create", "cluster.create", "team.create"}, actions)
	require.Len(t, f.keys(t, "/p/"), 10, "account, e-mail, team, member, cluster, its name, agent key, three audit entries")
}

// TestSignUp_Race: one of many Registries that sign one e-mail address up at once succeeds, and the others leave nothing.
func TestSignUp_Race(t *testing.T) {
	f := open(t)
	require.Equal(t, 1, f.race(t, 8, is(ErrTaken), func(r *Registry, _ int) error {
		_, err := r.SignUp(t.Context(), newSignUp("ada@example.com"))
		return err
	}))
	require.Len(t, f.keys(t, "/p/"), 10)
}

// TestSignUp_BoundsOfTheAccount: a team of a sign-up is one of the account's teams.
func TestSignUp_BoundsOfTheAccount(t *testing.T) {
	f := open(t)
	a, err := f.SignUp(t.Context(), newSignUp("ada@example.com"))
	require.NoError(t, err)
	for range MaxTeams - 1 {
		_, err = f.CreateTeam(t.Context(), by, "further", a.ID)
		require.NoError(t, err)
	}
	_, err = f.CreateTeam(t.Context(), by, "beyond", a.ID)
	require.True(t, bound("teams of an account")(err), errors.Unwrap(err))
}

// TestSignUpInvited: an account and its membership are stored together, or the invitation stays.
func TestSignUpInvited(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	team, _ := f.team(t, "owner")
	require.NoError(t, f.Invite(ctx, by, team.ID, "ada@example.com", Admin, hash("invitation"), start.Add(time.Hour)))
	n := NewAccount{Email: "Ada@example.com", Name: "ada", PasswordHash: "$argon2id$"}
	join := func(n NewAccount, secret string) error {
		_, err := f.SignUpInvited(ctx, n, "192.0.2.1", team.ID, hash(secret))
		return err
	}
	before := f.keys(t, "/p/")
	require.ErrorIs(t, join(n, "another"), ErrNotFound)
	require.ErrorIs(t, join(NewAccount{Email: "bob@example.com", Name: "bob"}, "invitation"), ErrOtherEmail)
	require.ErrorIs(t, join(NewAccount{Email: "ada@example.com"}, "invitation"), ErrInvalid)
	f.client.limit.Store(1)
	f.client.txns.Store(1)
	require.ErrorIs(t, join(n, "invitation"), errCut)
	f.client.limit.Store(0)
	require.Equal(t, before, f.keys(t, "/p/"))

	require.Equal(t, 1, f.race(t, 8, func(err error) bool { return errors.Is(err, ErrTaken) || errors.Is(err, ErrNotFound) }, func(r *Registry, _ int) error {
		_, err := r.SignUpInvited(ctx, n, "192.0.2.1", team.ID, hash("invitation"))
		return err
	}))
	a, err := f.second.AccountByEmail(ctx, "ada@example.com")
	require.NoError(t, err)
	require.Equal(t, []string{team.ID}, a.Teams)
	m, err := f.second.Member(ctx, team.ID, a.ID)
	require.NoError(t, err)
	require.Equal(t, Admin, m.Role)
	require.Empty(t, f.keys(t, "/invitations/"))
	require.Len(t, f.keys(t, "/p/"), len(before)+3, "account, e-mail, member and audit entry, without the invitation")

	require.NoError(t, f.Invite(ctx, by, team.ID, "ada@example.com", Owner, hash("second"), start.Add(time.Hour)))
	require.ErrorIs(t, join(n, "second"), ErrTaken, "an account with this address accepts by a session")
}

// fill stores n empty records of a kind, and returns the key of one.
func (f *fixture) fill(t *testing.T, kind string, n int) (last string) {
	t.Helper()
	for filler := range slices.Chunk(make([]struct{}, n), 100) {
		var ops []clientv3.Op
		for range filler {
			last = f.key(kind, newID())
			ops = append(ops, clientv3.OpPut(last, ""))
		}
		_, err := f.client.Client.Txn(t.Context()).Then(ops...).Commit()
		require.NoError(t, err)
	}
	return last
}

// TestSignUp_Accounts has MaxAccounts accounts, and then one less.
func TestSignUp_Accounts(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	team, _ := f.team(t, "owner")
	require.NoError(t, f.Invite(ctx, by, team.ID, "bob@example.com", Admin, hash("invitation"), start.Add(time.Hour)))
	last := f.fill(t, accountKind, MaxAccounts-1)
	_, err := f.SignUp(ctx, newSignUp("ada@example.com"))
	require.True(t, bound("accounts")(err), "%v", err)
	_, err = f.SignUpInvited(ctx, NewAccount{Email: "bob@example.com", Name: "bob"}, "", team.ID, hash("invitation"))
	require.True(t, bound("accounts")(err), "%v", err)
	operators, err := f.CreateAccount(ctx, NewAccount{Email: "operator@example.com", Name: "of an operator"})
	require.NoError(t, err)
	require.NoError(t, f.DeleteAccount(ctx, by, operators.ID))
	_, err = f.client.Delete(ctx, last)
	require.NoError(t, err)
	_, err = f.SignUp(ctx, newSignUp("ada@example.com"))
	require.NoError(t, err)
}
