package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// sample has a request of a route that succeeds for a caller with the required role. It creates the objects of the request.
type sample func(t *testing.T, f *fixture, who *person) (path, body string)

// rest returns a sample with a fixed path below the team.
func rest(path, body string) sample {
	return func(*testing.T, *fixture, *person) (string, string) { return path, body }
}

var unique int

func name(prefix string) string {
	unique++
	return fmt.Sprintf("%s-%d", prefix, unique)
}

// newCluster creates a cluster and returns its path. Earlier ones are removed, because of the bound of a team.
func (f *fixture) newCluster(t *testing.T) (id, path string) {
	t.Helper()
	f.clear(t)
	f.calm(t) // the rate of new clusters
	a := f.as(t, registry.Owner, http.MethodPost, "/clusters", `{"name":"`+name("c")+`"}`, http.StatusCreated)
	id = a.body(t)["id"].(string)
	return id, "/clusters/" + id
}

func (f *fixture) clear(t *testing.T) {
	t.Helper()
	all, err := f.reg.Clusters(t.Context(), f.team)
	require.NoError(t, err)
	for _, c := range all.Records {
		if c.Purged.IsZero() {
			require.NoError(t, f.reg.UpdateCluster(t.Context(), by, c.ID, func(c *registry.Cluster) error { c.State = "deleted"; return nil }))
		}
		require.NoError(t, f.reg.RemoveCluster(t.Context(), by, c.ID, directory.Removal{}))
	}
}

func onCluster(suffix, body string) sample {
	return func(t *testing.T, f *fixture, _ *person) (string, string) {
		t.Helper()
		_, path := f.newCluster(t)
		return path + suffix, body
	}
}

// onMember creates a member with the role read-only.
func onMember(body string) sample {
	return func(t *testing.T, f *fixture, _ *person) (string, string) {
		t.Helper()
		return "/members/" + f.temporary(t), body
	}
}

// temporary creates a read-only member, in place of an earlier temporary one.
func (f *fixture) temporary(t *testing.T) string {
	t.Helper()
	all, err := f.reg.Members(t.Context(), f.team)
	require.NoError(t, err)
	for _, m := range all.Records {
		fixed := false
		for _, p := range f.accounts {
			fixed = fixed || p.id == m.Account
		}
		if !fixed {
			require.NoError(t, f.reg.RemoveMember(t.Context(), by, f.team, m.Account))
		}
	}
	a, err := f.reg.CreateAccount(t.Context(), registry.NewAccount{Email: name("temporary") + "@example.com", Name: "temporary"})
	require.NoError(t, err)
	require.NoError(t, f.reg.AddMember(t.Context(), by, f.team, a.ID, registry.ReadOnly))
	return a.ID
}

// pathOf returns the path of a request of a route. rest is the path of its sample.
func (f *fixture) pathOf(r route, rest string) string {
	switch {
	case strings.HasPrefix(r.path, teamPath):
		return "/v1/teams/" + f.team + rest
	case rest != "":
		return "/v1" + rest
	}
	return r.path
}

// samples has a sample of each route.
var samples = map[string]sample{
	"create-team": func(t *testing.T, f *fixture, _ *person) (string, string) {
		t.Helper()
		return "", `{"name":"` + name("team") + `","email":"` + name("first") + `@example.com"}`
	},
	"list-all-clusters": rest("", ""),
	"limit-cluster":     onCluster("/limits", `{"partitions":10}`),
	"block-cluster":     onCluster("/block", ""),
	"unblock-cluster":   onCluster("/unblock", ""),
	"approve-team":      rest("/approve", ""),
	"sign-up": func(t *testing.T, f *fixture, _ *person) (string, string) {
		t.Helper()
		f.calm(t)
		f.handlers[0].cfg.Mail = nil
		return "", `{"email":"` + name("new") + `@example.com","password":"` + rightPassword + `","team":"team","cluster":"main"}`
	},
	"verify-sign-up": func(t *testing.T, f *fixture, _ *person) (string, string) {
		t.Helper()
		f.handlers[0].cfg.Mail = &mailbox{}
		f.calm(t)
		secret := name("secret")
		hash, err := f.handlers[0].passwords.Hash(rightPassword)
		require.NoError(t, err)
		p := registry.PendingSignUp{Email: name("new") + "@example.com", PasswordHash: hash, Team: "team", Cluster: "main"}
		require.NoError(t, f.reg.RequestSignUp(t.Context(), p, accesskey.HashOf(secret)))
		return "", tokenBody(secret)
	},
	"request-password-reset": func(t *testing.T, f *fixture, _ *person) (string, string) {
		t.Helper()
		f.calm(t)
		f.handlers[0].cfg.Mail = &mailbox{}
		return "", `{"email":"` + name("reset") + `@example.com"}`
	},
	"reset-password": func(t *testing.T, f *fixture, _ *person) (string, string) {
		t.Helper()
		a, err := f.reg.CreateAccount(t.Context(), registry.NewAccount{Email: name("reset") + "@example.com", Name: "reset"})
		require.NoError(t, err)
		secret := name("secret")
		require.NoError(t, f.reg.RequestReset(t.Context(), a, accesskey.HashOf(secret)))
		return "", `{"token":"` + secret + `","password":"another horse"}`
	},
	"sign-up-invited": func(t *testing.T, f *fixture, _ *person) (string, string) {
		t.Helper()
		f.calm(t)
		secret, email := name("secret"), name("invited")+"@example.com"
		require.NoError(t, f.reg.Invite(t.Context(), by, f.team, email, registry.ReadOnly, accesskey.HashOf(secret), start.Add(time.Hour)))
		return "/invitations/signup", `{"email":"` + email + `","password":"` + rightPassword + `","secret":"` + secret + `"}`
	},
	"log-in": func(t *testing.T, f *fixture, who *person) (string, string) {
		t.Helper()
		f.calm(t)
		f.setPassword(t, who.id)
		return "", `{"email":"` + who.email + `","password":"` + rightPassword + `"}`
	},
	"change-password": func(t *testing.T, f *fixture, who *person) (string, string) {
		t.Helper()
		f.calm(t)
		f.setPassword(t, who.id)
		return "", `{"old":"` + rightPassword + `","new":"another horse"}`
	},
	"log-out":       rest("", ""),
	"get-team":      rest("", ""),
	"rename-team":   rest("", `{"name":"new name"}`),
	"list-members":  rest("/members", ""),
	"set-role":      onMember(`{"role":"member"}`),
	"remove-member": onMember(""),
	"leave-team": func(t *testing.T, f *fixture, _ *person) (string, string) {
		t.Helper()
		require.NoError(t, f.reg.SetRole(t.Context(), by, f.team, f.temporary(t), registry.Owner)) // or the only owner could not leave
		return "/membership", ""
	},
	"list-invitations": rest("/invitations", ""),
	"create-invitation": func(*testing.T, *fixture, *person) (string, string) {
		return "/invitations", `{"email":"invited@example.com","role":"member"}`
	},
	"revoke-invitation": func(t *testing.T, f *fixture, _ *person) (string, string) {
		t.Helper()
		secret := accesskey.HashOf(name("secret"))
		require.NoError(t, f.reg.Invite(t.Context(), by, f.team, "invited@example.com", registry.Ordinary, secret, start.Add(time.Hour)))
		return "/invitations/" + secret.Digits(), ""
	},
	"accept-invitation": func(t *testing.T, f *fixture, who *person) (string, string) {
		t.Helper()
		secret := name("secret")
		require.NoError(t, f.reg.Invite(t.Context(), by, f.team, who.email, registry.ReadOnly, accesskey.HashOf(secret), start.Add(time.Hour)))
		return "/invitations/accept", `{"secret":"` + secret + `"}`
	},
	"list-clusters": rest("/clusters", ""),
	"create-cluster": func(t *testing.T, f *fixture, _ *person) (string, string) {
		t.Helper()
		f.clear(t)
		return "/clusters", `{"name":"` + name("c") + `"}`
	},
	"get-cluster":      onCluster("", ""),
	"rename-cluster":   onCluster("", `{"name":"renamed"}`),
	"suspend-cluster":  onCluster("/suspend", ""),
	"resume-cluster":   onCluster("/resume", ""),
	"delete-cluster":   onCluster("", ""),
	"undelete-cluster": onCluster("/undelete", ""),
	"purge-cluster": func(t *testing.T, f *fixture, _ *person) (string, string) {
		t.Helper()
		_, path := f.newCluster(t)
		f.as(t, registry.Owner, http.MethodDelete, path, "", http.StatusOK)
		return path + "/purge", ""
	},
	"list-agent-keys":  onCluster("/agent-keys", ""),
	"create-agent-key": onCluster("/agent-keys", `{"name":"key"}`),
	"revoke-agent-key": func(t *testing.T, f *fixture, _ *person) (string, string) {
		t.Helper()
		_, path := f.newCluster(t)
		a := f.as(t, registry.Owner, http.MethodPost, path+"/agent-keys", `{"name":"key"}`, http.StatusCreated)
		return path + "/agent-keys/" + a.body(t)["id"].(string), ""
	},
	"list-tokens":  rest("/tokens", ""),
	"create-token": rest("/tokens", `{"name":"token","role":"read-only"}`),
	"revoke-token": func(t *testing.T, f *fixture, who *person) (string, string) {
		t.Helper()
		token := name("token")
		if who.team != f.team {
			who = f.accounts[registry.Owner]
		}
		f.newToken(t, who, registry.ReadOnly, token, time.Time{})
		return "/tokens/" + accesskey.HashOf(token).Digits(), ""
	},
	"list-audit": rest("/audit", ""),
}

// TestMatrix makes the request of each route as each kind of caller, and compares the status with the one that the table of routes requires.
func TestMatrix(t *testing.T) {
	f := open(t)
	owner := f.accounts[registry.Owner]
	expired, revoked := accesskey.NewToken(), accesskey.NewToken()
	f.newToken(t, owner, registry.Owner, expired, start.Add(time.Minute))
	f.newToken(t, owner, registry.Owner, revoked, time.Time{})
	f.clock.Add(time.Minute.Milliseconds())
	require.NoError(t, f.reg.RevokeToken(t.Context(), by, f.team, owner.id, accesskey.HashOf(revoked)))
	unknownOperator, err := accesskey.New(accesskey.OperatorPrefix, "")
	require.NoError(t, err)

	type identity struct {
		name     string
		who      *person
		role     registry.Role // "" for a caller outside of the team
		sign     func(request) request
		unknown  bool
		token    bool
		operator bool
	}
	identities := []identity{
		{name: "anonymous", who: owner, unknown: true, sign: func(r request) request { return r }},
		{name: "expired token", who: owner, unknown: true, sign: func(r request) request { return r.bearer(expired) }},
		{name: "revoked token", who: owner, unknown: true, sign: func(r request) request { return r.bearer(revoked) }},
		{name: "unknown session", who: owner, unknown: true, sign: func(r request) request { return r.cookie("unknown") }},
		{name: "operator key", who: owner, operator: true, sign: func(r request) request { return r.bearer(operatorKey) }},
		{name: "unknown operator key", who: owner, unknown: true, sign: func(r request) request { return r.bearer(unknownOperator) }},
		{name: "free-form operator key", who: owner, unknown: true, sign: func(r request) request { return r.bearer(freeFormOperator) }},
		{name: "token of another team", who: f.other, token: true, sign: func(r request) request { return r.bearer(f.other.token) }},
		{name: "session of another team", who: f.other, sign: func(r request) request { return r.cookie(f.other.session) }},
	}
	for _, role := range roles {
		p := f.accounts[role]
		identities = append(identities,
			identity{name: string(role) + " by token", who: p, role: role, token: true, sign: func(r request) request { return r.bearer(p.token) }},
			identity{name: string(role) + " by session", who: p, role: role, sign: func(r request) request { return r.cookie(p.session) }})
	}
	expected := func(r route, i identity) int {
		switch {
		case r.access == public:
			return r.status
		case i.operator && r.access == operator:
			return r.status
		case i.unknown || i.operator || r.access == operator:
			return http.StatusUnauthorized
		case r.access == session && i.token:
			return http.StatusForbidden
		case r.access == session && i.role != "" && r.id == "accept-invitation":
			return http.StatusConflict // a member already
		case r.access == session:
			return r.status
		case i.role == "":
			return http.StatusNotFound
		case !i.role.Includes(roleOf[r.access]):
			return http.StatusForbidden
		}
		return r.status
	}
	for _, r := range routes {
		for _, i := range identities {
			t.Run(r.id+" as "+i.name, func(t *testing.T) {
				path, body := "", ""
				create, ok := samples[r.id]
				require.True(t, ok || r.method == http.MethodGet && r.access == public, "the route has no sample")
				if ok {
					path, body = create(t, f, i.who)
				}
				a := f.do(t, i.sign(request{method: r.method, path: f.pathOf(r, path), body: body}))
				require.Equal(t, expected(r, i), a.status, a.text)
				if a.status >= http.StatusBadRequest {
					require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
					require.EqualValues(t, a.status, a.body(t)["status"])
				}
				require.Equal(t, a.status == http.StatusUnauthorized, a.header.Get("WWW-Authenticate") != "")
				if r.id == "log-out" && a.status == http.StatusNoContent {
					f.logIn(t, i.who)
				}
				if r.id == "leave-team" && a.status == http.StatusNoContent {
					require.NoError(t, f.reg.AddMember(t.Context(), by, f.team, i.who.id, i.role))
					f.newToken(t, i.who, i.role, i.who.token, time.Time{})
				}
			})
		}
		if r.id == "accept-invitation" { // the other team's owner is a member now
			require.NoError(t, f.reg.RemoveMember(t.Context(), by, f.team, f.other.id))
		}
	}
}

// TestNew_NeedsRows removes each row of the table in turn, and adds one without a handler.
func TestNew_NeedsRows(t *testing.T) {
	_, err := New(Config{})
	require.NoError(t, err)
	for i, r := range routes {
		_, err := newHandler(Config{}, append(append([]route{}, routes[:i]...), routes[i+1:]...))
		require.ErrorContains(t, err, "route "+r.id+" has no row")
	}
	_, err = newHandler(Config{}, append(append([]route{}, routes...), route{id: "further"}))
	require.ErrorContains(t, err, "row further of the table of routes has no handler")
}

// TestRoutes_NameTeams checks that each path with a role names a team, so that authorize can judge it.
func TestRoutes_NameTeams(t *testing.T) {
	for _, r := range routes {
		require.True(t, r.access == public || r.access == operator || r.access == session || strings.HasPrefix(r.path, teamPath), r.id)
		require.True(t, r.access == public || r.access == operator || r.access == session || roleOf[r.access] != "", r.id)
	}
}
