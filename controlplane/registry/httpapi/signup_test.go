package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/controlplane/registry/password"
	"github.com/freshet-io/freshet/internal/accesskey"
)

func signUpBodyOf(email, password, team, cluster string) string {
	return `{"email":"` + email + `","password":"` + password + `","team":"` + team + `","cluster":"` + cluster + `"}`
}

// post makes a request without credentials on a replica, and requires a status.
func (f *fixture) post(t *testing.T, replica int, path, body string, status int) answer {
	t.Helper()
	a := f.doOn(t, replica, request{method: http.MethodPost, path: path, body: body})
	require.Equal(t, status, a.status, a.text)
	require.NotContains(t, a.text, rightPassword)
	return a
}

func (f *fixture) signUp(t *testing.T, replica int, body string) (s SignedUp) {
	t.Helper()
	f.calm(t)
	require.NoError(t, json.Unmarshal([]byte(f.post(t, replica, "/v1/signup", body, http.StatusCreated).text), &s))
	return s
}

// opens reports whether an agent key opens a cluster.
func (f *fixture) opens(t *testing.T, clusterID, key string) bool {
	t.Helper()
	spec, _, err := f.dir.Get(t.Context(), clusterID)
	require.NoError(t, err)
	if spec == nil {
		return false
	}
	for _, k := range spec.Keys {
		if k.Hash == accesskey.HashOf(key) {
			return spec.State == directory.Active
		}
	}
	return false
}

// TestSignUp signs up, and again with the same input as if the answer was lost. Each key opens the cluster.
func TestSignUp(t *testing.T) {
	f := open(t)
	body := signUpBodyOf("Ada@example.com", rightPassword, "data", "main")
	first := f.signUp(t, 0, body)
	require.Equal(t, "data", first.Team.Name)
	require.Equal(t, "main", first.Cluster.Name)
	require.Equal(t, "active", first.Cluster.State)
	require.Equal(t, "cp.example.com:7050", first.ControlPlane)
	require.Equal(t, "freshet agent --control-plane cp.example.com:7050 --control-plane-tls --agent-key "+first.AgentKey.Key+
		" --bucket 's3://BUCKET/PREFIX?region=REGION' --zone ZONE", first.AgentCommand)
	require.Nil(t, first.Cluster.Expires)
	require.True(t, f.opens(t, first.Cluster.ID, first.AgentKey.Key))
	clusterID, err := accesskey.ClusterOf(accesskey.AgentPrefix, first.AgentKey.Key)
	require.NoError(t, err)
	require.Equal(t, first.Cluster.ID, clusterID)
	require.Equal(t, accesskey.HashOf(first.AgentKey.Key).Digits(), first.AgentKey.ID)
	m, err := f.reg.Member(t.Context(), first.Team.ID, first.Account)
	require.NoError(t, err)
	require.Equal(t, registry.Owner, m.Role)

	f.signUp(t, 0, signUpBodyOf(strings.Repeat("a", 240)+"@example.com", rightPassword, "data", "main"))
	f.handlers[1].cfg.ControlPlanes = func() []string { return []string{"cp-2.example.com:443", "cp-1.example.com:443"} }
	second := f.signUp(t, 1, body)
	require.Equal(t, "cp-2.example.com:443,cp-1.example.com:443", second.ControlPlane)
	require.Contains(t, second.AgentCommand, " --control-plane cp-2.example.com:443,cp-1.example.com:443 ")
	require.NotEqual(t, first.AgentKey.Key, second.AgentKey.Key)
	require.Equal(t, []string{first.Account, first.Team.ID, first.Cluster.ID}, []string{second.Account, second.Team.ID, second.Cluster.ID})
	require.True(t, f.opens(t, first.Cluster.ID, first.AgentKey.Key))
	require.True(t, f.opens(t, first.Cluster.ID, second.AgentKey.Key))

	for name, other := range map[string]string{
		"wrong password":  signUpBodyOf("ada@example.com", "wrong "+rightPassword, "data", "main"),
		"another team":    signUpBodyOf("ada@example.com", rightPassword, "other", "main"),
		"another cluster": signUpBodyOf("ada@example.com", rightPassword, "data", "other"),
	} {
		t.Run(name, func(t *testing.T) {
			f.calm(t)
			require.Equal(t, errKnownAddress.Error(), f.post(t, 0, "/v1/signup", other, http.StatusConflict).body(t)["detail"])
		})
	}
	require.NoError(t, f.reg.UpdateCluster(t.Context(), by, first.Cluster.ID, func(c *registry.Cluster) error { c.State = directory.Suspended; return nil }))
	f.calm(t)
	f.post(t, 0, "/v1/signup", body, http.StatusConflict)
}

// TestSignUp_Demo: the answers have the time at which the demo ends.
func TestSignUp_Demo(t *testing.T) {
	f := open(t)
	body := strings.Replace(signUpBodyOf("ada@example.com", rightPassword, "data", "main"), "}", `,"demo":true}`, 1)
	for range 2 {
		require.Equal(t, start.Add(registry.DemoLife), f.signUp(t, 0, body).Cluster.Expires.UTC())
	}
}

// silent does not answer reads of a Spec.
type silent struct{ clientv3.KV }

func (silent) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return nil, context.DeadlineExceeded
}

// TestSignUp_Interrupted repeats a sign-up that ended before the Spec.
func TestSignUp_Interrupted(t *testing.T) {
	f := open(t)
	body := signUpBodyOf("ada@example.com", rightPassword, "data", "main")
	dir := f.handlers[0].cfg.Directory
	f.handlers[0].cfg.Directory.Client = clientv3.NewCtxClient(t.Context())
	f.handlers[0].cfg.Directory.Client.KV = silent{f.etcd.Client().KV}
	f.post(t, 0, "/v1/signup", body, http.StatusServiceUnavailable)
	f.handlers[0].cfg.Directory = dir
	a, err := f.reg.AccountByEmail(t.Context(), "ada@example.com")
	require.NoError(t, err)
	done := f.signUp(t, 0, body)
	require.Equal(t, a.ID, done.Account)
	require.True(t, f.opens(t, done.Cluster.ID, done.AgentKey.Key))
	all, err := f.reg.Clusters(t.Context(), done.Team.ID)
	require.NoError(t, err)
	require.Len(t, all.Records, 1)
}

// TestSignUp_AtOnce: of sign-ups of one e-mail address at once, each that succeeds has a key that opens one cluster.
func TestSignUp_AtOnce(t *testing.T) {
	f := open(t)
	body := signUpBodyOf("ada@example.com", rightPassword, "data", "main")
	answers := make([]answer, 4)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			answers[i] = f.doOn(t, i%2, request{method: http.MethodPost, path: "/v1/signup", body: body})
		})
	}
	all.Wait()
	clusters := map[string]bool{}
	for _, a := range answers {
		if a.status != http.StatusCreated {
			require.Equal(t, http.StatusConflict, a.status, a.text)
			continue
		}
		var s SignedUp
		require.NoError(t, json.Unmarshal([]byte(a.text), &s))
		require.True(t, f.opens(t, s.Cluster.ID, s.AgentKey.Key))
		clusters[s.Cluster.ID] = true
	}
	require.Len(t, clusters, 1)
}

func TestSignUp_Closed(t *testing.T) {
	f := open(t)
	for _, mode := range []SignUpMode{"", SignUpClosed} {
		f.handlers[0].cfg.SignUp = mode
		a := f.post(t, 0, "/v1/signup", signUpBodyOf("ada@example.com", rightPassword, "data", "main"), http.StatusForbidden)
		require.Contains(t, a.text, "this sign-up is closed")
	}
	f.handlers[0].cfg.SignUp = SignUpInvited
	a := f.post(t, 0, "/v1/signup", signUpBodyOf("ada@example.com", rightPassword, "data", "main"), http.StatusForbidden)
	require.Contains(t, a.text, "ask a member of a team for one")
	_, err := f.reg.AccountByEmail(t.Context(), "ada@example.com")
	require.ErrorIs(t, err, registry.ErrNotFound)
}

// TestSignUpInvited: an invitation creates one account of its e-mail address, in the modes that allow it.
func TestSignUpInvited(t *testing.T) {
	f := open(t)
	a := f.as(t, registry.Admin, http.MethodPost, "/invitations", `{"email":"ada@example.com","role":"member"}`, http.StatusCreated)
	secret := a.body(t)["secret"].(string)
	path := "/v1/teams/" + f.team + "/invitations/signup"
	body := func(email, secret string) string {
		return `{"email":"` + email + `","password":"` + rightPassword + `","secret":"` + secret + `"}`
	}
	f.handlers[0].cfg.SignUp = SignUpClosed
	f.post(t, 0, path, body("ada@example.com", secret), http.StatusForbidden)
	f.handlers[0].cfg.SignUp = SignUpInvited
	f.post(t, 0, "/v1/signup", signUpBodyOf("bob@example.com", rightPassword, "data", "main"), http.StatusForbidden)
	f.post(t, 0, path, body("ada@example.com", "unknown"), http.StatusNotFound)
	f.post(t, 0, path, body("bob@example.com", secret), http.StatusForbidden)
	require.Contains(t, f.post(t, 0, path, body("bob", secret), http.StatusUnprocessableEntity).text, `"location":"body.email"`)
	made := f.post(t, 0, path, body("Ada@example.com", secret), http.StatusCreated).body(t)
	require.Equal(t, []any{f.team, "member"}, []any{made["id"], made["role"]})
	f.post(t, 0, path, body("ada@example.com", secret), http.StatusNotFound)
	require.Equal(t, http.StatusCreated, f.logInFrom(t, 1, "ada@example.com", rightPassword, "192.0.2.9").status)

	secret = f.as(t, registry.Admin, http.MethodPost, "/invitations", `{"email":"`+f.other.email+`","role":"member"}`, http.StatusCreated).body(t)["secret"].(string)
	known := f.post(t, 0, path, body(f.other.email, secret), http.StatusConflict)
	require.Contains(t, known.body(t)["detail"], "the e-mail address has an account")
}

// TestSignUp_Errors: faults name the field and never repeat the password.
func TestSignUp_Errors(t *testing.T) {
	f := open(t)
	const email = "ada@example.com"
	for _, c := range []struct {
		name, body string
		status     int
		location   string
	}{
		{"short password", signUpBodyOf(email, "123456789", "data", "main"), http.StatusUnprocessableEntity, "body.password"},
		{"long password", signUpBodyOf(email, strings.Repeat(rightPassword, 20), "data", "main"), http.StatusUnprocessableEntity, "body.password"},
		{"password of another type", `{"email":"a@b","password":["` + rightPassword + `"],"team":"data","cluster":"main"}`, http.StatusUnprocessableEntity, "body.password"},
		{"unknown field", strings.Replace(signUpBodyOf(email, rightPassword, "data", "main"), `"team"`, `"teams"`, 1), http.StatusUnprocessableEntity, "body.teams"},
		{"missing field", `{"password":"` + rightPassword + `"}`, http.StatusUnprocessableEntity, "body"},
		{"malformed JSON", `{"password":"` + rightPassword, http.StatusBadRequest, "body"},
		{"e-mail address", signUpBodyOf("ada", rightPassword, "data", "main"), http.StatusUnprocessableEntity, "body.email"},
		{"team, with a long name of the account", signUpBodyOf(strings.Repeat("a", 240)+"@example.com", rightPassword, " data", "main"), http.StatusUnprocessableEntity, "body.team"},
		{"team", signUpBodyOf(email, rightPassword, " data", "main"), http.StatusUnprocessableEntity, "body.team"},
		{"cluster", signUpBodyOf(email, rightPassword, "data", "a/b"), http.StatusUnprocessableEntity, "body.cluster"},
		{"large body", signUpBodyOf(email, rightPassword+strings.Repeat("x", maxBody), "data", "main"), http.StatusRequestEntityTooLarge, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.calm(t)
			a := f.post(t, 0, "/v1/signup", c.body, c.status)
			if c.location != "" {
				require.Contains(t, a.text, `"location":"`+c.location+`"`)
			}
		})
	}
	_, err := f.reg.AccountByEmail(t.Context(), email)
	require.ErrorIs(t, err, registry.ErrNotFound)
}

// TestSignUp_Busy: beyond the bound of passwords that are checked at once, the answer is 429, for known and unknown accounts.
func TestSignUp_Busy(t *testing.T) {
	f := open(t)
	f.handlers[0].passwords = &password.Hasher{} // without slots
	for range 2 * registry.FreeAttempts {        // such an attempt does not count
		for _, path := range []string{"/v1/signup", "/v1/sessions"} {
			for _, email := range []string{"ada@example.com", f.other.email} {
				body := signUpBodyOf(email, rightPassword, "data", "main")
				if path == "/v1/sessions" {
					body = logInBody(email, rightPassword)
				}
				a := f.post(t, 0, path, body, http.StatusTooManyRequests)
				require.Equal(t, "1", a.header.Get("Retry-After"))
			}
		}
	}
	_, err := f.reg.AccountByEmail(t.Context(), "ada@example.com")
	require.ErrorIs(t, err, registry.ErrNotFound)
}

// TestSignUp_Pauses: sign-ups of one network are paused over all replicas.
func TestSignUp_Pauses(t *testing.T) {
	f := open(t)
	for i := range registry.FreeAttempts {
		f.post(t, i%2, "/v1/signup", signUpBodyOf(name("ada")+"@example.com", rightPassword, "data", "main"), http.StatusCreated)
	}
	a := f.post(t, 1, "/v1/signup", signUpBodyOf("last@example.com", rightPassword, "data", "main"), http.StatusTooManyRequests)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Equal(t, "too many sign-ups or requests for mails from this IP address: try again in 1 s", a.body(t)["detail"])
	elsewhere := request{method: http.MethodPost, path: "/v1/signup", body: signUpBodyOf("last@example.com", rightPassword, "data", "main"), remote: "192.0.2.2:1"}
	require.Equal(t, http.StatusCreated, f.do(t, elsewhere).status)
}

// TestSignUp_NameBeforeAccount: a name that is refused shows nothing about the account.
func TestSignUp_NameBeforeAccount(t *testing.T) {
	f := open(t)
	var texts []string
	for _, email := range []string{"ada@example.com", f.other.email} {
		texts = append(texts, f.post(t, 0, "/v1/signup", signUpBodyOf(email, rightPassword, " data", "main"), http.StatusUnprocessableEntity).text)
	}
	require.Equal(t, texts[0], texts[1])
}

// TestCreateCluster_Unapproved: a team of a sign-up reaches its bound, and the answer names it. An operator lifts the bound.
func TestCreateCluster_Unapproved(t *testing.T) {
	f := open(t)
	made := f.signUp(t, 0, signUpBodyOf("ada@example.com", rightPassword, "data", "main"))
	session := f.logInFrom(t, 0, "ada@example.com", rightPassword, "192.0.2.9").body(t)["session"].(string)
	create := func(name string) answer {
		return f.do(t, request{method: http.MethodPost, path: "/v1/teams/" + made.Team.ID + "/clusters", body: `{"name":"` + name + `"}`}.cookie(session))
	}
	require.Equal(t, http.StatusCreated, create("second").status)
	a := create("third")
	require.Equal(t, http.StatusForbidden, a.status)
	require.Equal(t, "limit of 2 clusters of a team that no operator has approved reached", a.body(t)["detail"])
	require.False(t, made.Team.Approved)
	a = f.do(t, request{method: http.MethodPost, path: "/v1/teams/data/approve"}.bearer(operatorKey))
	require.Equal(t, http.StatusNotFound, a.status)
	require.Contains(t, a.text, "want an id of `freshet ctl cluster list-all`", "the name of the team")
	a = f.do(t, request{method: http.MethodPost, path: "/v1/teams/" + made.Team.ID + "/approve"}.bearer(operatorKey))
	require.Equal(t, http.StatusOK, a.status, a.text)
	require.Equal(t, true, a.body(t)["approved"])
	require.Equal(t, http.StatusCreated, create("third").status)
}
