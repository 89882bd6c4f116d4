package registry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestBounds_OfTeams: two Registries together create as many records as each bound allows.
func TestBounds_OfTeams(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	team, a := f.team(t, "ada")
	require.Equal(t, MaxClusters, f.race(t, MaxClusters+10, bound("clusters of a team"), func(r *Registry, i int) error {
		return r.CreateCluster(ctx, by, team.ID, id.NewCluster(), fmt.Sprintf("vc-%02d", i))
	}))
	clusters, err := f.Clusters(ctx, team.ID)
	require.NoError(t, err)
	require.Len(t, clusters.Records, MaxClusters)
	require.Equal(t, MaxAgentKeys, f.race(t, MaxAgentKeys+10, bound("agent keys of a team"), func(r *Registry, i int) error {
		return r.CreateAgentKey(ctx, by, clusters.Records[i%MaxClusters].ID, "key", "fsk_", hash(fmt.Sprint(i)))
	}))
	require.Equal(t, MaxTokens, f.race(t, MaxTokens+10, bound("API tokens of a team"), func(r *Registry, i int) error {
		return r.CreateToken(ctx, by, NewToken{Team: team.ID, Account: a.ID, Role: Owner, Name: "ci"}, hash(fmt.Sprint(i)))
	}))
	accounts := make([]*Account, MaxMembers/2)
	for i := range accounts {
		accounts[i] = f.account(t, fmt.Sprint("a", i))
	}
	require.Equal(t, MaxMembers-1, f.race(t, MaxMembers+10, bound("members and invitations of a team"), func(r *Registry, i int) error {
		if i < len(accounts) {
			return r.AddMember(ctx, by, team.ID, accounts[i].ID, ReadOnly)
		}
		return r.Invite(ctx, by, team.ID, fmt.Sprintf("b%d@example.com", i), ReadOnly, hash(fmt.Sprint(i)), start.Add(time.Hour))
	}))
	require.Len(t, append(f.keys(t, "/members/"), f.keys(t, "/invitations/")...), MaxMembers)
	f.auditMatches(t, team.ID)

	tokens, err := f.Tokens(ctx, team.ID)
	require.NoError(t, err)
	require.Len(t, tokens.Records, MaxTokens)
	secret, ok := accesskey.ParseHash(tokens.Records[0].SHA256)
	require.True(t, ok)
	require.NoError(t, f.RevokeToken(ctx, by, team.ID, a.ID, secret))
	require.NoError(t, f.CreateToken(ctx, by, NewToken{Team: team.ID, Account: a.ID, Role: Owner, Name: "ci"}, secret), "in the place of the former")
}

// auditMatches fails the test if a team's entries are not numbered without gaps.
func (f *fixture) auditMatches(t *testing.T, teamID string) []*Entry {
	t.Helper()
	team, err := f.Team(t.Context(), teamID)
	require.NoError(t, err)
	var all []*Entry
	for before := uint64(0); ; {
		page, next, err := f.Audit(t.Context(), teamID, before)
		require.NoError(t, err)
		require.Empty(t, page.Faults)
		require.LessOrEqual(t, len(page.Records), MaxAuditPage)
		all = append(all, page.Records...)
		if before = next; next == 0 {
			break
		}
	}
	for i, e := range all {
		require.Equal(t, entryNumber(team.Audited-uint64(i)), e.Number)
	}
	require.Len(t, all, int(min(team.Audited, team.auditRoom())))
	require.Len(t, f.keys(t, "/audit/"+teamID), len(all))
	return all
}

// TestAudit keeps the newest MaxAuditEntries entries.
func TestAudit(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	team, a := f.team(t, "ada")
	for i := range MaxAuditEntries + 5 {
		require.NoError(t, f.RenameTeam(ctx, by, team.ID, fmt.Sprint("n", i)))
	}
	all := f.auditMatches(t, team.ID)
	require.Equal(t, &Entry{
		Head: all[0].Head, Team: team.ID, Number: entryNumber(MaxAuditEntries + 6), Actor: "test", Address: "192.0.2.1", Action: "team.rename", Subject: team.ID,
		Time: start,
	}, all[0])
	page, next, err := f.Audit(ctx, team.ID, 7)
	require.NoError(t, err)
	require.Empty(t, page.Records, "below the oldest")
	require.Zero(t, next)
	page, next, err = f.Audit(ctx, team.ID, 8)
	require.NoError(t, err)
	require.Len(t, page.Records, 1)
	require.Zero(t, next)
	require.ErrorIs(t, f.RenameTeam(ctx, Actor{}, team.ID, "x"), ErrInvalid, "no change without its entry")
	require.ErrorIs(t, f.RenameTeam(ctx, by, team.ID, ""), ErrInvalid)
	require.ErrorIs(t, f.RemoveMember(ctx, by, team.ID, a.ID), ErrLastOwner)
	require.Len(t, f.auditMatches(t, team.ID), MaxAuditEntries)
}

// TestAudit_Unapproved: a team that is not approved keeps MaxUnapprovedAuditEntries entries, also if it had more. After the approval it keeps more.
func TestAudit_Unapproved(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	_, team := f.signedUp(t, "ada")
	_, err := f.dir.Client.Put(ctx, f.key(auditKind, team, entryNumber(0)), "left by an earlier release")
	require.NoError(t, err)
	rename := func() { require.NoError(t, f.RenameTeam(ctx, by, team, "n")) }
	for range MaxUnapprovedAuditEntries + 5 {
		rename()
	}
	require.Len(t, f.auditMatches(t, team), MaxUnapprovedAuditEntries)
	require.NoError(t, f.ApproveTeam(ctx, by, team))
	rename()
	require.Len(t, f.keys(t, "/audit/"+team), MaxUnapprovedAuditEntries+2)
	var listed int
	for before := uint64(0); ; {
		page, next, err := f.Audit(ctx, team, before)
		require.NoError(t, err)
		listed += len(page.Records)
		if before = next; next == 0 {
			break
		}
	}
	require.Equal(t, MaxUnapprovedAuditEntries+2, listed)
}

// TestMembers_LastOwner: if two owners leave or step down at once, one of them stays an owner.
func TestMembers_LastOwner(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	for _, name := range []string{"leave", "demote", "delete"} {
		team, one := f.team(t, name)
		two := f.account(t, name+"2")
		require.NoError(t, f.AddMember(ctx, by, team.ID, two.ID, Ordinary))
		require.ErrorIs(t, f.SetRole(ctx, by, team.ID, one.ID, Admin), ErrLastOwner)
		require.NoError(t, f.SetRole(ctx, by, team.ID, two.ID, Owner))
		require.ErrorIs(t, f.SetRole(ctx, by, team.ID, two.ID, "king"), ErrInvalid)
		require.Equal(t, 1, f.race(t, 2, is(ErrLastOwner), func(r *Registry, i int) error {
			account := []string{one.ID, two.ID}[i]
			switch name {
			case "leave":
				return r.RemoveMember(ctx, by, team.ID, account)
			case "demote":
				return r.SetRole(ctx, by, team.ID, account, ReadOnly)
			}
			return r.DeleteAccount(ctx, by, account)
		}), name)
		members, err := f.Members(ctx, team.ID)
		require.NoError(t, err)
		owners := 0
		for _, m := range members.Records {
			if m.Role == Owner {
				owners++
			}
		}
		require.Equal(t, 1, owners, name)
	}
	require.True(t, Admin.Includes(Ordinary) && Admin.Includes(Admin) && !Admin.Includes(Owner) && !Role("king").Includes(ReadOnly))
}

// TestMembers_TeamsOfAccount: an account is in at most MaxTeams teams.
func TestMembers_TeamsOfAccount(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	a := f.account(t, "ada")
	require.Equal(t, MaxTeams, f.race(t, MaxTeams+5, bound("teams of an account"), func(r *Registry, i int) error {
		_, err := r.CreateTeam(ctx, by, fmt.Sprint("team ", i), a.ID)
		return err
	}))
	require.Len(t, f.keys(t, "/teams/"), MaxTeams)
	got, err := f.Account(ctx, a.ID)
	require.NoError(t, err)
	require.ErrorIs(t, f.AddMember(ctx, by, got.Teams[0], a.ID, Admin), ErrTaken)
}

// TestInvitations: an invitation is taken once, by the invited account, before it expires.
func TestInvitations(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	team, _ := f.team(t, "ada")
	bob, eve := f.account(t, "bob"), f.account(t, "eve")
	invite := func(secret string) {
		t.Helper()
		require.NoError(t, f.Invite(ctx, by, team.ID, "Bob@example.com", Admin, hash(secret), start.Add(time.Hour)))
	}
	invite("one")
	invite("two")
	_, err := f.Invitation(ctx, team.ID, hash("one"))
	require.ErrorIs(t, err, ErrNotFound, "replaced")
	require.ErrorIs(t, f.Accept(ctx, by, team.ID, eve.ID, hash("two")), ErrOtherEmail)
	late := func(err error) bool { return errors.Is(err, ErrNotFound) || errors.Is(err, ErrTaken) }
	require.Equal(t, 1, f.race(t, 4, late, func(r *Registry, _ int) error { return r.Accept(ctx, by, team.ID, bob.ID, hash("two")) }))
	m, err := f.Member(ctx, team.ID, bob.ID)
	require.NoError(t, err)
	require.Equal(t, Admin, m.Role)
	require.Empty(t, f.keys(t, "/invitations/"))

	invite("three")
	require.ErrorIs(t, f.Accept(ctx, by, team.ID, bob.ID, hash("three")), ErrTaken)
	f.pass(time.Hour)
	require.ErrorIs(t, f.Accept(ctx, by, team.ID, bob.ID, hash("three")), ErrNotFound)
	require.NoError(t, f.Withdraw(ctx, by, team.ID, hash("three")))
	require.ErrorIs(t, f.Withdraw(ctx, by, team.ID, hash("three")), ErrNotFound)
	all, err := f.Invitations(ctx, team.ID)
	require.NoError(t, err)
	require.Empty(t, all)
}

// TestClusters_Names: no two clusters of a team have one name, under concurrent creations and renames.
func TestClusters_Names(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	team, _ := f.team(t, "ada")
	other, _ := f.team(t, "bob")
	require.Equal(t, 1, f.race(t, 8, is(ErrTaken), func(r *Registry, _ int) error {
		return r.CreateCluster(ctx, by, team.ID, id.NewCluster(), "orders")
	}))
	one, two := id.NewCluster(), id.NewCluster()
	require.NoError(t, f.CreateCluster(ctx, by, other.ID, one, "orders"))
	require.ErrorIs(t, f.CreateCluster(ctx, by, team.ID, one, "mine"), ErrTaken, "the ID of another team's")
	require.NoError(t, f.CreateCluster(ctx, by, other.ID, two, "two"))
	require.Equal(t, 1, f.race(t, 2, is(ErrTaken), func(r *Registry, i int) error {
		return r.UpdateCluster(ctx, by, []string{one, two}[i], func(c *Cluster) error { c.Name = "new"; return nil })
	}))
	require.ErrorIs(t, f.UpdateCluster(ctx, by, one, func(c *Cluster) error { c.Name = "a/b"; return nil }), ErrInvalid)
	require.Len(t, f.keys(t, "/cluster-names/"+other.ID), 2)

	to := func(state directory.State) error {
		return f.UpdateCluster(ctx, by, one, func(c *Cluster) error { c.State = state; return nil })
	}
	require.ErrorIs(t, f.RemoveCluster(ctx, by, one, directory.Removal{}), ErrNotDeleted)
	require.NoError(t, to(directory.Deleted))
	f.pass(time.Minute)
	require.NoError(t, to(directory.Deleted))
	c, err := f.Cluster(ctx, one)
	require.NoError(t, err)
	require.Equal(t, start, c.Deleted, "of the first deletion")
	require.NoError(t, to(directory.Suspended))
	c, err = f.Cluster(ctx, one)
	require.NoError(t, err)
	require.Zero(t, c.Deleted)
	require.NoError(t, to(directory.Deleted))
	require.NoError(t, f.CreateAgentKey(ctx, by, one, "key", "fsk_", hash("k")))
	require.NoError(t, f.RemoveCluster(ctx, by, one, f.dir.Removal(one, one, 0)))
	require.Empty(t, f.keys(t, "/agent-keys/"))
	require.Len(t, f.keys(t, "/cluster-names/"+other.ID), 1)
	require.ErrorIs(t, f.CreateAgentKey(ctx, by, one, "key", "fsk_", hash("k")), ErrNotFound)
}

// TestUsed: the last use is written once an hour, and never brings a revoked token back.
func TestUsed(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	team, a := f.team(t, "ada")
	cluster := id.NewCluster()
	require.NoError(t, f.CreateCluster(ctx, by, team.ID, cluster, "orders"))
	require.NoError(t, f.CreateAgentKey(ctx, by, cluster, "key", "fsk_", hash("k")))
	require.ErrorIs(t, f.CreateAgentKey(ctx, by, cluster, "key", "fsk_", hash("k")), ErrTaken)
	require.ErrorIs(t, f.CreateAgentKey(ctx, by, cluster, "key", "fsk_AAAAAAAAA", hash("l")), ErrInvalid)
	n := NewToken{Team: team.ID, Account: a.ID, Role: Owner, Name: "ci", Expires: start.Add(5 * time.Hour)}
	require.NoError(t, f.CreateToken(ctx, by, n, hash("t")))
	require.ErrorIs(t, f.CreateToken(ctx, by, n, hash("t")), ErrTaken)
	f.client.txns.Store(0)
	for i := range 5 {
		require.NoError(t, f.TokenUsed(ctx, hash("t")))
		require.EqualValues(t, []int64{1, 1, 2, 2, 3}[i], f.client.txns.Load())
		f.pass(UsedEvery / 2)
	}
	all, err := f.Tokens(ctx, team.ID)
	require.NoError(t, err)
	require.Equal(t, start.Add(2*time.Hour), all.Records[0].Used)
	n.Name = "next"
	require.NoError(t, f.CreateToken(ctx, by, n, hash("u")))
	u, err := f.Token(ctx, hash("u"))
	require.NoError(t, err)
	require.NoError(t, f.second.RevokeToken(ctx, by, team.ID, a.ID, hash("u")))
	require.NoError(t, f.used(ctx, u), "read before, written after")
	require.ErrorIs(t, f.TokenUsed(ctx, hash("u")), ErrNotFound)
	require.NoError(t, f.second.RevokeAgentKey(ctx, by, cluster, hash("k")))
	require.Empty(t, f.keys(t, "/agent-keys/"))
	require.ErrorIs(t, f.RevokeAgentKey(ctx, by, cluster, hash("k")), ErrNotFound)
	f.pass(time.Hour)
	f.pass(2 * time.Hour)
	_, err = f.Token(ctx, hash("t"))
	require.ErrorIs(t, err, ErrNotFound, "expired")
}

// TestToken_Role: a token has at most the role of its member, and ends with the membership.
func TestToken_Role(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	team, _ := f.team(t, "ada")
	bob := f.account(t, "bob")
	n := NewToken{Team: team.ID, Account: bob.ID, Role: Admin, Name: "ci"}
	require.ErrorIs(t, f.CreateToken(ctx, by, n, hash("t")), ErrNotFound)
	require.NoError(t, f.AddMember(ctx, by, team.ID, bob.ID, Ordinary))
	require.ErrorIs(t, f.CreateToken(ctx, by, n, hash("t")), ErrInvalid)
	require.NoError(t, f.SetRole(ctx, by, team.ID, bob.ID, Admin))
	require.NoError(t, f.CreateToken(ctx, by, n, hash("t")))
	require.NoError(t, f.SetRole(ctx, by, team.ID, bob.ID, ReadOnly))
	token, err := f.second.Token(ctx, hash("t"))
	require.NoError(t, err)
	require.Equal(t, ReadOnly, token.Role)
	require.NoError(t, f.TokenUsed(ctx, hash("t")))
	require.NoError(t, f.SetRole(ctx, by, team.ID, bob.ID, Owner))
	token, err = f.Token(ctx, hash("t"))
	require.NoError(t, err)
	require.Equal(t, Admin, token.Role, "a use does not store the lower role")
	require.NoError(t, f.RemoveMember(ctx, by, team.ID, bob.ID))
	_, err = f.Token(ctx, hash("t"))
	require.ErrorIs(t, err, ErrNotFound)
	require.Empty(t, f.keys(t, hash("t").Digits()))
}

// TestDeleteTeam: deletion that stops before any transaction can be repeated, and leaves nothing. Until then, the team does not change.
func TestDeleteTeam(t *testing.T) {
	for limit := int64(1); ; limit++ {
		f := open(t)
		ctx := t.Context()
		team, a := f.team(t, "ada")
		bob := f.account(t, "bob")
		require.NoError(t, f.AddMember(ctx, by, team.ID, bob.ID, Admin))
		require.NoError(t, f.Invite(ctx, by, team.ID, "eve@example.com", Admin, hash("i"), start.Add(time.Hour)))
		for i := range purgeTokens + 1 {
			require.NoError(t, f.CreateToken(ctx, by, NewToken{Team: team.ID, Account: a.ID, Role: Admin, Name: "ci"}, hash(fmt.Sprint(i))))
		}
		cluster := id.NewCluster()
		require.NoError(t, f.CreateCluster(ctx, by, team.ID, cluster, "orders"))
		require.NoError(t, f.CreateAgentKey(ctx, by, cluster, "key", "fsk_", hash("k")))
		require.ErrorIs(t, f.DeleteTeam(ctx, by, team.ID), ErrClusters)
		require.NoError(t, f.UpdateCluster(ctx, by, cluster, func(c *Cluster) error { c.State = directory.Deleted; return nil }))

		f.client.txns.Store(0)
		f.client.limit.Store(limit)
		err := f.DeleteTeam(ctx, by, team.ID)
		if err != nil {
			require.ErrorIs(t, err, errCut)
			require.ErrorIs(t, f.second.RenameTeam(ctx, by, team.ID, "x"), ErrDeleting)
			require.ErrorIs(t, f.second.AddMember(ctx, by, team.ID, bob.ID, Admin), ErrDeleting)
			if limit == 1 {
				require.NoError(t, f.second.DeleteAccount(ctx, by, a.ID), "an owner can go")
			}
			require.NoError(t, f.second.DeleteTeam(ctx, by, team.ID))
		}
		require.Empty(t, f.keys(t, team.ID))
		require.Empty(t, f.keys(t, "/token-places/"))
		require.Empty(t, f.keys(t, "/clusters/"))
		require.ErrorIs(t, f.second.DeleteTeam(ctx, by, team.ID), ErrNotFound)
		if err == nil {
			require.EqualValues(t, 6, limit, "mark, two members, two batches of tokens, team")
			return
		}
	}
}

// TestRevoke_Subject: the audit entry of a revocation has the name of the key or token, unless its record cannot be read.
func TestRevoke_Subject(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	team, a := f.team(t, "owner")
	cluster := "0MP4Kxjfr8KpC_OLjGQtgg"
	require.NoError(t, f.CreateCluster(ctx, by, team.ID, cluster, "main"))
	for _, malformed := range []bool{false, true} {
		require.NoError(t, f.CreateAgentKey(ctx, by, cluster, "agents", "fsk_", hash("k")))
		require.NoError(t, f.CreateToken(ctx, by, NewToken{Team: team.ID, Account: a.ID, Role: ReadOnly, Name: "ci"}, hash("t")))
		keyName, tokenName := " agents", " ci"
		if malformed {
			keyName, tokenName = "", ""
			for _, key := range []string{f.key(agentKeyKind, team.ID, cluster, hash("k").Digits()), f.key(tokenKind, team.ID, a.ID, hash("t").Digits())} {
				_, err := f.client.Put(ctx, key, "malformed")
				require.NoError(t, err)
			}
		}
		require.NoError(t, f.RevokeAgentKey(ctx, by, cluster, hash("k")))
		require.NoError(t, f.RevokeToken(ctx, by, team.ID, a.ID, hash("t")))
		page, _, err := f.Audit(ctx, team.ID, 0)
		require.NoError(t, err)
		require.Equal(t, hash("t").String()+tokenName, page.Records[0].Subject)
		require.Equal(t, hash("k").String()+keyName, page.Records[1].Subject)
	}
}

// TestBlockCluster_CutOff: a block whose transaction fails at etcd, or whose answer is lost, changes the record and the Spec together or neither.
func TestBlockCluster_CutOff(t *testing.T) {
	f := open(t)
	team, _ := f.team(t, "ada")
	c := id.NewCluster()
	require.NoError(t, f.CreateCluster(t.Context(), by, team.ID, c, "orders"))
	require.NoError(t, f.dir.Create(t.Context(), &directory.Spec{ID: c, Name: c, State: directory.Active, Memory: directory.DefaultMemory, DefaultPartitions: 1}))
	states := func() []directory.State {
		spec, _, err := f.dir.Get(t.Context(), c)
		require.NoError(t, err)
		record, err := f.Cluster(t.Context(), c)
		require.NoError(t, err)
		return []directory.State{record.State, spec.State}
	}
	for _, to := range []struct {
		set  func(context.Context, Actor, directory.Directory, string) error
		from directory.State
		to   directory.State
	}{{f.BlockCluster, directory.Active, directory.Suspended}, {f.UnblockCluster, directory.Suspended, directory.Active}} {
		f.client.limit.Store(f.client.txns.Load())
		require.ErrorIs(t, to.set(t.Context(), by, f.dir, c), errCut)
		require.Equal(t, []directory.State{to.from, to.from}, states())
		f.client.limit.Store(0)
		f.client.deaf.Store(true)
		require.ErrorIs(t, to.set(t.Context(), by, f.dir, c), errCut)
		f.client.deaf.Store(false)
		require.Equal(t, []directory.State{to.to, to.to}, states())
	}
}
