package httpapi

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/registry"
)

// TestCreateTeam creates the first team of an empty registry, and a second one of the same owner. The token opens its own team alone.
func TestCreateTeam(t *testing.T) {
	f := open(t)
	create := func(name, email string, status int) answer {
		t.Helper()
		a := f.do(t, request{method: http.MethodPost, path: "/v1/teams", body: `{"name":"` + name + `","email":"` + email + `"}`}.bearer(operatorKey))
		require.Equal(t, status, a.status, a.text)
		return a
	}
	var teams, tokens, owners []string
	for _, name := range []string{"first", "second"} {
		body := create(name, "First@Example.com", http.StatusCreated).body(t)
		teams = append(teams, body["team"].(map[string]any)["id"].(string))
		tokens = append(tokens, body["token"].(map[string]any)["token"].(string))
		owners = append(owners, body["owner"].(string))
	}
	require.Equal(t, owners[0], owners[1])
	require.NotEqual(t, teams[0], teams[1])
	for i, team := range teams {
		for j, token := range tokens {
			a := f.do(t, request{method: http.MethodGet, path: "/v1/teams/" + team + "/audit"}.bearer(token))
			if i != j {
				require.Equal(t, http.StatusNotFound, a.status, a.text)
				continue
			}
			require.Equal(t, http.StatusOK, a.status, a.text)
			require.Regexp(t, `"actor":"operator key [0-9a-f]{8}","address":"192.0.2.1","action":"token.create"`, a.text)
			require.NotContains(t, a.text, operatorKey)
		}
	}
	a, err := f.reg.Account(t.Context(), owners[0])
	require.NoError(t, err)
	require.Equal(t, "first@example.com", a.Email)
	require.Equal(t, "First", a.Name)

	require.Contains(t, create("x", "none", http.StatusUnprocessableEntity).text, `"location":"body.email"`)
	require.Contains(t, create(` x`, "x@example.com", http.StatusUnprocessableEntity).text, `"location":"body.name"`)
	for range registry.MaxTeams - len(teams) {
		create("further", "first@example.com", http.StatusCreated)
	}
	require.Contains(t, create("beyond", "first@example.com", http.StatusForbidden).text, "limit of 20 teams of an account reached")
}

// TestListAllClusters has clusters of two teams over several pages. One whose team cannot be read has no name of the team.
func TestListAllClusters(t *testing.T) {
	f := open(t)
	want := map[string][]any{}
	create := func(name string, by *person, teamName string) {
		a := f.do(t, request{method: http.MethodPost, path: "/v1/teams/" + by.team + "/clusters", body: `{"name":"` + name + `"}`}.bearer(by.token))
		require.Equal(t, http.StatusCreated, a.status, a.text)
		want[a.body(t)["id"].(string)] = []any{name, by.team, teamName}
	}
	create("main", f.accounts[registry.Owner], "owner")
	create("logs", f.accounts[registry.Owner], "owner")
	create("main", f.other, "other")
	list := func() map[string][]any {
		got, query := map[string][]any{}, "?limit=2"
		for {
			a := f.do(t, request{method: http.MethodGet, path: "/v1/clusters" + query}.bearer(operatorKey))
			require.Equal(t, http.StatusOK, a.status, a.text)
			for _, item := range a.body(t)["items"].([]any) {
				c := item.(map[string]any)
				got[c["id"].(string)] = []any{c["name"], c["team"], c["team_name"]}
			}
			next, more := a.body(t)["next"].(string)
			if !more {
				return got
			}
			query = "?limit=2&cursor=" + next
		}
	}
	require.Equal(t, want, list())
	_, err := f.etcd.Client().Put(t.Context(), "/p/+registry/teams/"+f.other.team, "malformed")
	require.NoError(t, err)
	for id, c := range want {
		if c[1] == f.other.team {
			want[id] = []any{"main", f.other.team, nil}
		}
	}
	require.Equal(t, want, list())
}

// TestCreateTeam_OfAnUnverifiedAccount: an account that signed up with an e-mail address, which was not verified, gets no team of an operator.
func TestCreateTeam_OfAnUnverifiedAccount(t *testing.T) {
	f := open(t)
	f.signUp(t, 0, signUpBodyOf("ada@example.com", rightPassword, "data", "main"))
	create := request{method: http.MethodPost, path: "/v1/teams", body: `{"name":"orders","email":"Ada@example.com"}`}.bearer(operatorKey)
	a := f.do(t, create)
	require.Equal(t, http.StatusConflict, a.status, a.text)
	require.Contains(t, a.text, "the address was not verified")
}
