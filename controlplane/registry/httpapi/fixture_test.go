package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/etcdserver"
)

// freeFormOperator is an operator key without the prefix.
const freeFormOperator = "operator"

func isOperator(key string) bool { return key == operatorKey || key == freeFormOperator }

var (
	start          = time.Date(2026, 11, 28, 6, 30, 0, 0, time.UTC)
	by             = registry.Actor{Name: "test"}
	operatorKey, _ = accesskey.New(accesskey.OperatorPrefix, "")
	roles          = []registry.Role{registry.ReadOnly, registry.Ordinary, registry.Admin, registry.Owner}
)

// fixture is two Handlers on one etcd with one clock, and two teams. The team has a member of each role.
type fixture struct {
	reg      *registry.Registry
	dir      directory.Directory
	handlers [2]*Handler
	clock    *atomic.Int64 // ms
	etcd     *etcdserver.Server
	team     string
	accounts map[registry.Role]*person
	other    *person // owner of another team
}

// person is an account with a session and an API token of its role in its team.
type person struct {
	id, team, email, session, token string
}

func open(t *testing.T) *fixture {
	t.Helper()
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: t.TempDir()}, zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)))
	require.NoError(t, err)
	t.Cleanup(etcd.Close)
	f := &fixture{etcd: etcd, clock: &atomic.Int64{}, accounts: map[registry.Role]*person{}}
	f.clock.Store(start.UnixMilli())
	now := func() time.Time { return time.UnixMilli(f.clock.Load()) }
	f.reg = registry.New(registry.Config{Client: etcd.Client(), Prefix: "/p", Now: now})
	f.dir = directory.Directory{Client: etcd.Client(), Prefix: "/p"}
	for i := range f.handlers {
		f.handlers[i], err = New(Config{
			Registry: f.reg, Directory: f.dir, Logger: zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)), Now: now, Operator: isOperator,
			SignUp: SignUpOpen, ControlPlanes: func() []string { return []string{"cp.example.com:7050"} }, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		})
		require.NoError(t, err)
	}
	f.accounts[registry.Owner] = f.person(t, "owner", "", registry.Owner)
	f.team = f.accounts[registry.Owner].team
	for _, role := range roles[:3] {
		f.accounts[role] = f.person(t, string(role), f.team, role)
	}
	f.other = f.person(t, "other", "", registry.Owner)
	return f
}

// person creates an account, as a member of a team or as the owner of a new one.
func (f *fixture) person(t *testing.T, name, team string, role registry.Role) *person {
	t.Helper()
	a, err := f.reg.CreateAccount(t.Context(), registry.NewAccount{Email: name + "@example.com", Name: name})
	require.NoError(t, err)
	p := &person{id: a.ID, team: team, email: a.Email, session: "session of " + name, token: accesskey.NewToken()}
	if team == "" {
		created, err := f.reg.CreateTeam(t.Context(), by, name, a.ID)
		require.NoError(t, err)
		p.team = created.ID
	} else {
		require.NoError(t, f.reg.AddMember(t.Context(), by, team, a.ID, role))
	}
	f.newToken(t, p, role, p.token, time.Time{})
	p.session = strings.ReplaceAll(p.session, " ", "-")
	f.logIn(t, p)
	return p
}

func (f *fixture) logIn(t *testing.T, p *person) {
	t.Helper()
	_, err := f.reg.StartSession(t.Context(), p.id, accesskey.HashOf(p.session), "192.0.2.1", start.Add(30*24*time.Hour))
	require.NoError(t, err)
}

const rightPassword = "correct horse"

func (f *fixture) setPassword(t *testing.T, account string) {
	t.Helper()
	hash, err := f.handlers[0].passwords.Hash(rightPassword)
	require.NoError(t, err)
	require.NoError(t, f.reg.UpdateAccount(t.Context(), account, func(a *registry.Account) error { a.PasswordHash = hash; return nil }))
}

// calm forgets all attempts.
func (f *fixture) calm(t *testing.T) {
	t.Helper()
	_, err := f.etcd.Client().Delete(t.Context(), "/p/+registry/attempts/", clientv3.WithPrefix())
	require.NoError(t, err)
}

func (f *fixture) newToken(t *testing.T, p *person, role registry.Role, token string, expires time.Time) {
	t.Helper()
	n := registry.NewToken{Team: p.team, Account: p.id, Role: role, Name: "token", Expires: expires}
	require.NoError(t, f.reg.CreateToken(t.Context(), by, n, accesskey.HashOf(token)))
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	text   string
}

// body decodes the answer as JSON.
func (a answer) body(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.text), &v), a.text)
	return v
}

// request is a request with its credentials.
type request struct {
	method, path, body string
	header             http.Header
	remote             string // host:port, default that of httptest
}

func (r request) bearer(token string) request {
	r.header = http.Header{"Authorization": {"Bearer " + token}}
	return r
}

// cookie adds a session as a browser on a page of the console sends it.
func (r request) cookie(session string) request {
	r.header = http.Header{"Cookie": {SessionCookie + "=" + session}, "Origin": {"https://example.com"}}
	return r
}

func (f *fixture) do(t *testing.T, r request) answer {
	t.Helper()
	return f.doOn(t, 0, r)
}

func (f *fixture) doOn(t *testing.T, replica int, r request) answer {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), r.method, "https://example.com"+r.path, strings.NewReader(r.body))
	for name, values := range r.header {
		req.Header[name] = values
	}
	if r.body != "" && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.remote != "" {
		req.RemoteAddr = r.remote
	}
	w := httptest.NewRecorder()
	f.handlers[replica].ServeHTTP(w, req)
	return answer{status: w.Code, header: w.Header(), text: w.Body.String()}
}

// as makes a request with the token of a role, and requires a status.
func (f *fixture) as(t *testing.T, role registry.Role, method, path, body string, status int) answer {
	t.Helper()
	a := f.do(t, request{method: method, path: "/v1/teams/" + f.team + path, body: body}.bearer(f.accounts[role].token))
	require.Equal(t, status, a.status, "%s %s: %s", method, path, a.text)
	return a
}
