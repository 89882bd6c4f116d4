package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/metadata/id"
)

// signedUp signs an account up and returns it with its team.
func (f *fixture) signedUp(t *testing.T, name string) (*Account, string) {
	t.Helper()
	a, err := f.SignUp(t.Context(), newSignUp(name+"@example.com"))
	require.NoError(t, err)
	return a, a.Teams[0]
}

func (f *fixture) verify(t *testing.T, a *Account) {
	t.Helper()
	require.NoError(t, f.UpdateAccount(t.Context(), a.ID, func(a *Account) error { a.Verified = start; return nil }))
}

// TestCreateCluster_Unapproved: the team of a sign-up has MaxUnapprovedClusters clusters until it is approved, whether or not its owner is verified.
func TestCreateCluster_Unapproved(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	a, team := f.signedUp(t, "ada")
	member := f.account(t, "operators") // is no owner
	require.NoError(t, f.AddMember(ctx, by, team, member.ID, Admin))
	require.Equal(t, MaxUnapprovedClusters-1, f.race(t, 8, bound("clusters of a team that no operator has approved"), func(r *Registry, i int) error {
		return r.CreateCluster(ctx, by, team, id.NewCluster(), fmt.Sprint("vc-", i))
	}))
	f.verify(t, a)
	require.True(t, bound("clusters of a team that no operator has approved")(f.CreateCluster(ctx, by, team, id.NewCluster(), "further")))
	for range 2 {
		require.NoError(t, f.ApproveTeam(ctx, by, team))
	}
	require.NoError(t, f.CreateCluster(ctx, by, team, id.NewCluster(), "further"))
	page, _, err := f.Audit(ctx, team, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"cluster.create", "team.approve", "cluster.create"}, []string{page.Records[0].Action, page.Records[1].Action, page.Records[2].Action})
}

// TestApproved_TeamOfAnOperator: a team that an operator made stays approved after its only owner has signed up by an invitation.
func TestApproved_TeamOfAnOperator(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	team, first := f.team(t, "operators")
	require.NoError(t, f.Invite(ctx, by, team.ID, "ada@example.com", Owner, hash("i"), start.Add(time.Hour)))
	a, err := f.SignUpInvited(ctx, NewAccount{Email: "ada@example.com", Name: "ada", PasswordHash: "$argon2id$"}, "", team.ID, hash("i"))
	require.NoError(t, err)
	require.NoError(t, f.DeleteAccount(ctx, by, first.ID))
	require.True(t, a.Unverified())
	team, err = f.Team(ctx, team.ID)
	require.NoError(t, err)
	require.True(t, team.Approved())
	require.NoError(t, f.ApproveTeam(ctx, by, team.ID))
	require.Len(t, f.auditMatches(t, team.ID), int(team.Audited), "no further entry")
	f.pass(365 * 24 * time.Hour)
	require.False(t, f.deleteAbandoned(t, a, time.Hour))
}

// TestCreateCluster_Hosted: all teams together have MaxHosted clusters. Teams that are not approved leave a tenth.
func TestCreateCluster_Hosted(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	f.cfg.MaxHosted, f.second.cfg.MaxHosted = 10, 10
	team, _ := f.team(t, "operators")
	_, strangers := f.signedUp(t, "ada")
	create := func(team string, i int) error {
		return f.CreateCluster(ctx, by, team, id.NewCluster(), fmt.Sprint("vc-", i))
	}
	for i := range 7 {
		require.NoError(t, create(team.ID, i))
	}
	_, err := f.SignUp(ctx, newSignUp("bob@example.com"))
	require.NoError(t, err, "the ninth cluster")
	strangersBound := bound("clusters of all teams, for a team that no operator has approved,")
	require.True(t, strangersBound(create(strangers, 0)))
	_, err = f.SignUp(ctx, newSignUp("eve@example.com"))
	require.True(t, strangersBound(err), "%v", err)
	require.NoError(t, create(team.ID, 8))
	require.True(t, bound("clusters of all teams")(create(team.ID, 9)))
	all, err := f.Clusters(ctx, team.ID)
	require.NoError(t, err)
	gone := all.Records[0]
	require.NoError(t, f.UpdateCluster(ctx, by, gone.ID, func(c *Cluster) error { c.State = directory.Deleted; return nil }))
	require.True(t, bound("clusters of all teams")(create(team.ID, 9)), "deleted, and not removed")
	require.NoError(t, f.RemoveCluster(ctx, by, gone.ID, f.dir.Removal(gone.ID, gone.ID, 0)))
	require.NoError(t, create(team.ID, 9))
}

// TestCreateCluster_Rate: teams together create MaxNewClusters clusters in a window. A refused one does not count.
func TestCreateCluster_Rate(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	one, _ := f.team(t, "one")
	two, _ := f.team(t, "two")
	create := func(team *Team, i int) error {
		return f.CreateCluster(ctx, by, team.ID, id.NewCluster(), fmt.Sprint("vc-", i))
	}
	for i := range MaxClusters {
		require.NoError(t, create(one, i))
	}
	for i := range 10 {
		require.ErrorIs(t, create(one, i), ErrTaken)
	}
	for i := range MaxNewClusters - MaxClusters {
		require.NoError(t, create(two, i))
	}
	require.Equal(t, NewClustersWindow, pauseOf(t, create(two, MaxClusters)))
	f.pass(NewClustersWindow)
	require.NoError(t, create(two, MaxClusters))
}

// TestClusterContacted: a contact is written once in ContactEvery.
func TestClusterContacted(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	team, _ := f.team(t, "ada")
	clusterID := id.NewCluster()
	require.NoError(t, f.ClusterContacted(ctx, clusterID), "of no team")
	require.NoError(t, f.CreateCluster(ctx, by, team.ID, clusterID, "orders"))
	require.Equal(t, 8, f.race(t, 8, is(nil), func(r *Registry, _ int) error { return r.ClusterContacted(ctx, clusterID) }))
	first, err := f.Cluster(ctx, clusterID)
	require.NoError(t, err)
	require.Equal(t, start, first.Contacted)
	f.pass(ContactEvery - time.Millisecond)
	require.NoError(t, f.ClusterContacted(ctx, clusterID))
	again, err := f.Cluster(ctx, clusterID)
	require.NoError(t, err)
	require.Equal(t, first, again)
	f.pass(time.Millisecond)
	require.NoError(t, f.ClusterContacted(ctx, clusterID))
	require.NoError(t, f.UpdateCluster(ctx, by, clusterID, func(c *Cluster) error {
		c.Contacted, c.Restored = time.Time{}, time.Time{}
		c.State = directory.Deleted
		return nil
	}))
	require.NoError(t, f.UpdateCluster(ctx, by, clusterID, func(c *Cluster) error { c.State = directory.Active; return nil }))
	restored, err := f.Cluster(ctx, clusterID)
	require.NoError(t, err)
	require.Equal(t, []time.Time{start.Add(ContactEvery), start.Add(ContactEvery)}, []time.Time{restored.Contacted, restored.Restored})
}

// TestDeleteAbandoned: each reason for which an account stays, and the deletion of the others with all their records, also if it stops before any
// transaction.
func TestDeleteAbandoned(t *testing.T) {
	const life = 30 * 24 * time.Hour
	for name, stays := range map[string]func(f *fixture, a *Account, team string) error{
		"a login": func(f *fixture, a *Account, _ string) error {
			_, err := f.StartSession(t.Context(), a.ID, hash("s"), "192.0.2.1", time.UnixMilli(f.clock.Load()).Add(time.Hour))
			return err
		},
		"an approved team": func(f *fixture, _ *Account, team string) error { return f.ApproveTeam(t.Context(), by, team) },
		"a cluster": func(f *fixture, _ *Account, team string) error {
			return f.CreateCluster(t.Context(), by, team, id.NewCluster(), "further")
		},
		"an API token": func(f *fixture, a *Account, team string) error {
			return f.CreateToken(t.Context(), by, NewToken{Team: team, Account: a.ID, Role: Owner, Name: "ci"}, hash("t"))
		},
		"a member without a password": func(f *fixture, _ *Account, team string) error {
			return f.AddMember(t.Context(), by, team, f.account(t, "operators").ID, ReadOnly)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			a, team := f.withoutCluster(t, "ada")
			f.pass(life + AccountLoginsWindow)
			require.NoError(t, stays(f, a, team))
			require.False(t, f.deleteAbandoned(t, a, life))
			require.NotEmpty(t, f.keys(t, "/teams/"+team))
			_, err := f.AccountByEmail(t.Context(), a.Email)
			require.NoError(t, err)
		})
	}
	for limit := int64(1); ; limit++ {
		f := open(t)
		a, team := f.withoutCluster(t, "ada")
		bob, other := f.withoutCluster(t, "bob")
		require.NoError(t, f.AddMember(t.Context(), by, team, bob.ID, Owner))
		require.NoError(t, f.AddMember(t.Context(), by, other, a.ID, Owner))
		f.verify(t, bob)
		f.pass(life)
		require.False(t, f.deleteAbandoned(t, a, life), "not before the end of its life")
		f.pass(time.Millisecond)
		f.client.txns.Store(0)
		f.client.limit.Store(limit)
		a, err := f.Account(t.Context(), a.ID)
		require.NoError(t, err)
		_, cut := f.DeleteAbandoned(t.Context(), by, a, f.now().Add(-life))
		f.client.limit.Store(0)
		if cut != nil {
			require.ErrorIs(t, cut, errCut)
			require.True(t, f.deleteAbandoned(t, a, life))
			require.NoError(t, f.EachTeam(t.Context(), func(team *Team, err error) {
				require.NoError(t, err)
				if team.Deleting {
					require.NoError(t, f.DeleteTeam(t.Context(), by, team.ID))
				}
			}))
		}
		require.True(t, f.deleteAbandoned(t, bob, life))
		require.Empty(t, f.keys(t, "/p/"))
		_, err = f.SignUp(t.Context(), newSignUp("ada@example.com"))
		require.NoError(t, err, "the e-mail address is free")
		if cut == nil {
			return
		}
	}
}

// withoutCluster signs an account up and removes its cluster.
func (f *fixture) withoutCluster(t *testing.T, name string) (*Account, string) {
	t.Helper()
	a, team := f.signedUp(t, name)
	all, err := f.Clusters(t.Context(), team)
	require.NoError(t, err)
	c := all.Records[0]
	require.NoError(t, f.UpdateCluster(t.Context(), by, c.ID, func(c *Cluster) error { c.State = directory.Deleted; return nil }))
	require.NoError(t, f.RemoveCluster(t.Context(), by, c.ID, f.dir.Removal(c.ID, c.ID, 0)))
	return a, team
}

func (f *fixture) deleteAbandoned(t *testing.T, a *Account, life time.Duration) bool {
	t.Helper()
	a, err := f.Account(t.Context(), a.ID)
	require.NoError(t, err)
	deleted, err := f.DeleteAbandoned(t.Context(), by, a, f.now().Add(-life))
	require.NoError(t, err)
	return deleted
}
