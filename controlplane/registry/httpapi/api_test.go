package httpapi

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// TestOpenAPI compares the document with openapi.json, and requires a description of each route, parameter and field.
func TestOpenAPI(t *testing.T) {
	h, err := New(Config{})
	require.NoError(t, err)
	f := &fixture{handlers: [2]*Handler{h}}
	a := f.do(t, request{method: http.MethodGet, path: "/v1/openapi.json"})
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	if flag.Lookup("golden").Value.String() == "true" { // the flag of metrictest
		require.NoError(t, os.WriteFile("openapi.json", []byte(a.text), 0o644))
	}
	want, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	require.Equal(t, string(want), a.text, "run the test with -golden")

	document := a.body(t)
	require.Equal(t, "3.1.0", document["openapi"])
	for path, item := range document["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			op := op.(map[string]any)
			require.NotEmpty(t, op["description"], "%s %s", method, path)
			parameters, _ := op["parameters"].([]any)
			for _, p := range parameters {
				require.NotEmpty(t, p.(map[string]any)["description"], "%s %s: %v", method, path, p)
			}
		}
	}
	for name, schema := range document["components"].(map[string]any)["schemas"].(map[string]any) {
		for property, p := range schema.(map[string]any)["properties"].(map[string]any) {
			require.NotEmpty(t, p.(map[string]any)["description"], "%s.%s", name, property)
		}
	}
}

// TestErrors makes requests that are malformed, and checks status, field and that no value is repeated.
func TestErrors(t *testing.T) {
	f := open(t)
	owner := f.accounts[registry.Owner]
	const secret = "do-not-repeat"
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		location                 string
	}{
		{"malformed JSON", http.MethodPatch, "", `{"name":"` + secret, http.StatusBadRequest, "body"},
		{"unknown field", http.MethodPatch, "", `{"name":"x","names":"` + secret + `"}`, http.StatusUnprocessableEntity, "body.names"},
		{"wrong type", http.MethodPatch, "", `{"name":["` + secret + `"]}`, http.StatusUnprocessableEntity, "body.name"},
		{"empty name", http.MethodPatch, "", `{"name":""}`, http.StatusUnprocessableEntity, "body.name"},
		{"name that does not print", http.MethodPatch, "", `{"name":"` + secret + `\u0007"}`, http.StatusUnprocessableEntity, "body.name"},
		{"missing field", http.MethodPatch, "", `{}`, http.StatusUnprocessableEntity, "body"},
		{"no body", http.MethodPatch, "", ``, http.StatusBadRequest, ""},
		{"cluster name", http.MethodPost, "/clusters", `{"name":"` + secret + `/"}`, http.StatusUnprocessableEntity, "body.name"},
		{"unknown role", http.MethodPatch, "/members/" + owner.id, `{"role":"` + secret + `"}`, http.StatusUnprocessableEntity, "body.role"},
		{"e-mail address", http.MethodPost, "/invitations", `{"email":"` + secret + `","role":"admin"}`, http.StatusUnprocessableEntity, "body.email"},
		{"time in the past", http.MethodPost, "/tokens", `{"name":"x","role":"admin","expires":"2020-01-01T00:00:00Z"}`, http.StatusUnprocessableEntity, "body.expires"},
		{"malformed time", http.MethodPost, "/tokens", `{"name":"x","role":"admin","expires":"` + secret + `"}`, http.StatusUnprocessableEntity, "body.expires"},
		{"secret", http.MethodPost, "/tokens", `{"name":"x","role":"admin","token":"` + secret + `"}`, http.StatusUnprocessableEntity, "body.token"},
		{"limit", http.MethodGet, "/members?limit=101", "", http.StatusUnprocessableEntity, "query.limit"},
		{"unknown parameter", http.MethodGet, "/members?secret=" + secret, "", http.StatusUnprocessableEntity, "query.secret"},
		{"cursor", http.MethodGet, "/members?cursor=" + secret, "", http.StatusBadRequest, ""},
		{"large body", http.MethodPatch, "", `{"name":"` + strings.Repeat("x", maxBody) + `"}`, http.StatusRequestEntityTooLarge, ""},
		{"last owner leaves", http.MethodDelete, "/members/" + owner.id, "", http.StatusConflict, ""},
		{"last owner changes role", http.MethodPatch, "/members/" + owner.id, `{"role":"admin"}`, http.StatusConflict, ""},
		{"no such cluster", http.MethodGet, "/clusters/" + secret, "", http.StatusNotFound, ""},
		{"no such path", http.MethodGet, "/nothing", "", http.StatusNotFound, ""},
		{"other method", http.MethodPut, "/members", "", http.StatusMethodNotAllowed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := f.as(t, registry.Owner, c.method, c.path, c.body, c.status)
			require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
			require.NotContains(t, a.text, secret)
			require.NotEmpty(t, a.body(t)["detail"])
			if c.location != "" {
				require.Contains(t, a.text, `"location":"`+c.location+`"`)
			}
		})
	}
	t.Run("body at its bound", func(t *testing.T) {
		body := `{"name":"at the bound"}`
		f.as(t, registry.Owner, http.MethodPatch, "", body+strings.Repeat(" ", maxBody-len(body)), http.StatusOK)
		f.as(t, registry.Owner, http.MethodPatch, "", body+strings.Repeat(" ", maxBody-len(body)+1), http.StatusRequestEntityTooLarge)
	})
}

func TestErrors_SecretOfAnInvitation(t *testing.T) {
	f := open(t)
	const secret = "do-not-repeat"
	path := "/v1/teams/" + f.team + "/invitations/accept"
	for body, status := range map[string]int{
		`{"secret":"` + secret + `"}`:                           http.StatusNotFound,
		`{"secret":"` + strings.Repeat(secret, 10) + `"}`:       http.StatusUnprocessableEntity,
		`{"secret":{"a":"` + secret + `"}}`:                     http.StatusUnprocessableEntity,
		`{"secret":"` + secret + `","x":"` + secret + `"}`:      http.StatusUnprocessableEntity,
		`{"secret":"` + secret + `","secret":"` + secret + `"`:  http.StatusBadRequest,
		`{"Secret":"` + strings.Repeat(secret, 10) + `","x":1}`: http.StatusUnprocessableEntity,
	} {
		a := f.do(t, request{method: http.MethodPost, path: path, body: body}.cookie(f.other.session))
		require.Equal(t, status, a.status, a.text)
		require.NotContains(t, a.text, secret)
	}
}

// TestAccept_DeletingTeam checks that a secret that is no invitation's finds nothing out about a team.
func TestAccept_DeletingTeam(t *testing.T) {
	f := open(t)
	accept := request{method: http.MethodPost, path: "/v1/teams/" + f.other.team + "/invitations/accept", body: `{"secret":"x"}`}.cookie(f.accounts[registry.Owner].session)
	none := f.do(t, request{method: accept.method, path: "/v1/teams/0MP4Kxjfr8KpC_OLjGQtgg/invitations/accept", body: accept.body, header: accept.header})
	require.Equal(t, http.StatusNotFound, none.status)
	require.Equal(t, none, f.do(t, accept))
	key := "/p/+registry/teams/" + f.other.team
	resp, err := f.etcd.Client().Get(t.Context(), key)
	require.NoError(t, err)
	marked := strings.Replace(string(resp.Kvs[0].Value), `"audited"`, `"deleting":true,"audited"`, 1)
	_, err = f.etcd.Client().Put(t.Context(), key, marked)
	require.NoError(t, err)
	require.Equal(t, none, f.do(t, accept))
	r := request{method: http.MethodPatch, path: "/v1/teams/" + f.other.team, body: `{"name":"x"}`}.bearer(f.other.token)
	require.Equal(t, http.StatusConflict, f.do(t, r).status, "the mark is read")
}

func TestBounds(t *testing.T) {
	f := open(t)
	for i := range registry.MaxClusters {
		f.as(t, registry.Ordinary, http.MethodPost, "/clusters", fmt.Sprintf(`{"name":"c%d"}`, i), http.StatusCreated)
	}
	a := f.as(t, registry.Ordinary, http.MethodPost, "/clusters", `{"name":"further"}`, http.StatusForbidden)
	require.Contains(t, a.text, "limit of 20 clusters of a team reached")
	a = f.as(t, registry.Ordinary, http.MethodPost, "/clusters", `{"name":"c1"}`, http.StatusConflict)
	require.Contains(t, a.text, errNameTaken.Error())
}

// TestServeHTTP_Slots fills all slots.
func TestServeHTTP_Slots(t *testing.T) {
	h, err := New(Config{})
	require.NoError(t, err)
	f := &fixture{handlers: [2]*Handler{h}}
	get := request{method: http.MethodGet, path: "/v1/openapi.json"}
	for range maxRequests {
		h.slots <- struct{}{}
	}
	a := f.do(t, get)
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.NotEmpty(t, a.header.Get("Retry-After"))
	<-h.slots
	require.Equal(t, http.StatusOK, f.do(t, get).status)
}

// TestEtcdAway stops etcd. The error is not answered.
func TestEtcdAway(t *testing.T) {
	f := open(t)
	f.etcd.Close()
	a := f.as(t, registry.Owner, http.MethodGet, "", "", http.StatusServiceUnavailable)
	require.NotEmpty(t, a.header.Get("Retry-After"))
	require.Equal(t, "the store is not available: try again", a.body(t)["detail"])
}

// TestCrossOrigin changes a team by a session from pages of several origins.
func TestCrossOrigin(t *testing.T) {
	f := open(t)
	session := f.accounts[registry.Owner].session
	change := request{method: http.MethodPatch, path: "/v1/teams/" + f.team, body: `{"name":"x"}`}
	for _, c := range []struct {
		name, origin, site string
		status             int
	}{
		{"same origin", "https://example.com", "same-origin", http.StatusOK},
		{"old browser", "https://example.com", "", http.StatusOK},
		{"other origin", "https://evil.example", "", http.StatusForbidden},
		{"other site", "https://example.com", "cross-site", http.StatusForbidden},
		{"opaque origin", "null", "", http.StatusForbidden},
		{"no origin", "", "", http.StatusForbidden},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := change.cookie(session)
			r.header.Del("Origin")
			if c.origin != "" {
				r.header.Set("Origin", c.origin)
			}
			if c.site != "" {
				r.header.Set("Sec-Fetch-Site", c.site)
			}
			require.Equal(t, c.status, f.do(t, r).status)
			r.method, r.body = http.MethodGet, ""
			require.Equal(t, http.StatusOK, f.do(t, r).status, "reads need no Origin")
		})
	}
	r := change.bearer(f.other.token)
	r.header.Set("Cookie", SessionCookie+"="+session)
	r.header.Set("Origin", "https://example.com")
	require.Equal(t, http.StatusNotFound, f.do(t, r).status, "the Authorization header decides")
}

// TestPages follows the cursors of each list with pages of one item.
func TestPages(t *testing.T) {
	f := open(t)
	id, path := f.newCluster(t)
	f.as(t, registry.Owner, http.MethodPost, "/clusters", `{"name":"another"}`, http.StatusCreated)
	for range 2 {
		f.as(t, registry.Owner, http.MethodPost, path+"/agent-keys", `{"name":"key"}`, http.StatusCreated)
		f.as(t, registry.Owner, http.MethodPost, "/invitations", `{"role":"admin","email":"`+name("i")+`@example.com"}`, http.StatusCreated)
	}
	cursors := map[string]string{}
	for list, count := range map[string]int{"/members": 4, "/clusters": 2, "/clusters/" + id + "/agent-keys": 2, "/invitations": 2, "/tokens": 4, "/audit": 14} {
		all := f.as(t, registry.Owner, http.MethodGet, list, "", http.StatusOK).body(t)
		require.Len(t, all["items"], count, list)
		require.NotContains(t, all, "next")
		var items []any
		next := ""
		for page := 0; page == 0 || next != ""; page++ {
			require.Less(t, page, count, list)
			part := f.as(t, registry.Owner, http.MethodGet, list+"?limit=1&cursor="+next, "", http.StatusOK).body(t)
			require.Len(t, part["items"], 1)
			items = append(items, part["items"].([]any)...)
			if next, _ = part["next"].(string); next != "" {
				cursors[list] = next
			}
		}
		require.Equal(t, all["items"], items)
	}
	for list := range cursors {
		for other, cursor := range cursors {
			if other != list {
				f.as(t, registry.Owner, http.MethodGet, list+"?cursor="+cursor, "", http.StatusBadRequest)
			}
		}
	}
}

// spec returns the Spec of a cluster.
func (f *fixture) spec(t *testing.T, id string) *directory.Spec {
	t.Helper()
	s, _, err := f.dir.Get(t.Context(), id)
	require.NoError(t, err)
	return s
}

// TestClusters takes a cluster and its agent keys through their lives, and compares the Spec.
func TestClusters(t *testing.T) {
	f := open(t)
	c := f.as(t, registry.Ordinary, http.MethodPost, "/clusters", `{"name":"logs"}`, http.StatusCreated).body(t)
	id := c["id"].(string)
	path := "/clusters/" + id
	require.Equal(t, directory.Active, f.spec(t, id).State)
	key := f.as(t, registry.Ordinary, http.MethodPost, path+"/agent-keys", `{"name":"a"}`, http.StatusCreated).body(t)
	cluster, err := accesskey.ClusterOf(accesskey.AgentPrefix, key["key"].(string))
	require.NoError(t, err)
	require.Equal(t, id, cluster)
	require.Len(t, f.spec(t, id).Keys, 1)
	require.Equal(t, accesskey.HashOf(key["key"].(string)), f.spec(t, id).Keys[0].Hash)
	require.NotContains(t, f.as(t, registry.Owner, http.MethodGet, path+"/agent-keys", "", http.StatusOK).text, key["key"])

	require.Equal(t, "events", f.as(t, registry.Ordinary, http.MethodPatch, path, `{"name":"events"}`, http.StatusOK).body(t)["name"])
	for range 2 { // a repeated request succeeds
		a := f.as(t, registry.Admin, http.MethodDelete, path, "", http.StatusOK).body(t)
		require.Equal(t, id+"/", a["prefix"])
		require.Equal(t, "aws s3 rm --recursive 's3://BUCKET/PREFIX/"+id+"/' && aws s3 rm 's3://BUCKET/PREFIX/clusters/"+id+"'", a["remove_objects"])
		require.Equal(t, start.Add(registry.UndeleteTime).Format(time.RFC3339), a["purge"])
		require.Equal(t, directory.Deleted, f.spec(t, id).State)
	}
	deleted := f.as(t, registry.Admin, http.MethodGet, path, "", http.StatusOK).body(t)
	require.Equal(t, "deleted", deleted["state"])
	require.NotEmpty(t, deleted["deleted"])
	for range 2 {
		require.Equal(t, "active", f.as(t, registry.Admin, http.MethodPost, path+"/undelete", "", http.StatusOK).body(t)["state"])
		require.Equal(t, directory.Active, f.spec(t, id).State)
	}
	f.as(t, registry.Ordinary, http.MethodDelete, path+"/agent-keys/"+key["id"].(string), "", http.StatusNoContent)
	require.Empty(t, f.spec(t, id).Keys)

	for range 2 {
		require.Equal(t, "suspended", f.as(t, registry.Admin, http.MethodPost, path+"/suspend", "", http.StatusOK).body(t)["state"])
		require.Equal(t, directory.Suspended, f.spec(t, id).State)
	}
	require.Equal(t, "suspended", f.as(t, registry.Admin, http.MethodPost, path+"/undelete", "", http.StatusOK).body(t)["state"])
	for range 2 {
		require.Equal(t, "active", f.as(t, registry.Admin, http.MethodPost, path+"/resume", "", http.StatusOK).body(t)["state"])
		require.Equal(t, directory.Active, f.spec(t, id).State)
	}
	f.as(t, registry.Admin, http.MethodPost, path+"/purge", "", http.StatusConflict)
	f.as(t, registry.Admin, http.MethodPost, path+"/suspend", "", http.StatusOK)
	f.as(t, registry.Admin, http.MethodDelete, path, "", http.StatusOK)
	f.as(t, registry.Admin, http.MethodPost, path+"/suspend", "", http.StatusConflict)
	f.as(t, registry.Admin, http.MethodPost, path+"/resume", "", http.StatusConflict)
	woken := 0
	f.handlers[0].cfg.Purge = func() { woken++ }
	for i := range 2 {
		require.Equal(t, id+"/", f.as(t, registry.Admin, http.MethodPost, path+"/purge", "", http.StatusAccepted).body(t)["prefix"])
		require.Equal(t, i+1, woken)
	}
	for _, change := range []string{"/undelete", "/suspend", "/resume"} {
		f.as(t, registry.Admin, http.MethodPost, path+change, "", http.StatusConflict)
	}

	theirs := request{method: http.MethodGet, path: "/v1/teams/" + f.other.team + path}
	require.Equal(t, http.StatusNotFound, f.do(t, theirs.bearer(f.other.token)).status, "the cluster of a team under another one")
}

// TestLists_NamePeople: audit entries and API tokens have the e-mail addresses of their accounts, unless the account cannot be read.
func TestLists_NamePeople(t *testing.T) {
	f := open(t)
	admin, ordinary := f.accounts[registry.Admin], f.accounts[registry.Ordinary]
	f.newToken(t, admin, registry.Admin, accesskey.NewToken(), time.Time{})
	f.as(t, registry.Admin, http.MethodPatch, "/members/"+ordinary.id, `{"role":"read-only"}`, http.StatusOK)
	newest := func() map[string]any {
		a := f.as(t, registry.Owner, http.MethodGet, "/audit?limit=1", "", http.StatusOK)
		return a.body(t)["items"].([]any)[0].(map[string]any)
	}
	e := newest()
	require.Equal(t, []any{admin.id + " token " + accesskey.HashOf(admin.token).String(), ordinary.id}, []any{e["actor"], e["subject"]})
	require.Equal(t, []any{admin.email, "token", ordinary.email}, []any{e["actor_email"], e["actor_token"], e["subject_email"]})
	tokens := f.as(t, registry.Owner, http.MethodGet, "/tokens", "", http.StatusOK).body(t)["items"].([]any)
	require.Len(t, tokens, 5)
	for _, item := range tokens {
		v := item.(map[string]any)
		a, err := f.reg.Account(t.Context(), v["account"].(string))
		require.NoError(t, err)
		require.Equal(t, a.Email, v["email"])
	}

	require.NoError(t, f.reg.RevokeToken(t.Context(), by, f.team, admin.id, accesskey.HashOf(admin.token)))
	e = newest()
	require.Equal(t, "test", e["actor"])
	require.NotContains(t, e, "actor_email")
	_, err := f.etcd.Client().Put(t.Context(), "/p/+registry/accounts/"+ordinary.id, "malformed")
	require.NoError(t, err)
	all := f.as(t, registry.Owner, http.MethodGet, "/audit?limit=2", "", http.StatusOK).body(t)["items"].([]any)
	e = all[1].(map[string]any)
	require.Equal(t, admin.email, e["actor_email"])
	require.NotContains(t, e, "actor_token")
	require.NotContains(t, e, "subject_email")
}

// TestClusters_NameOfADeletedOne: a deleted cluster keeps its name, and the answer has the remedies.
func TestClusters_NameOfADeletedOne(t *testing.T) {
	f := open(t)
	id := f.as(t, registry.Owner, http.MethodPost, "/clusters", `{"name":"logs"}`, http.StatusCreated).body(t)["id"].(string)
	other := f.as(t, registry.Owner, http.MethodPost, "/clusters", `{"name":"other"}`, http.StatusCreated).body(t)["id"].(string)
	requests := func(detail string) {
		t.Helper()
		for path, method := range map[string]string{"/clusters": http.MethodPost, "/clusters/" + other: http.MethodPatch} {
			require.Equal(t, detail, f.as(t, registry.Owner, method, path, `{"name":"logs"}`, http.StatusConflict).body(t)["detail"])
		}
	}
	requests(errNameTaken.Error())
	f.as(t, registry.Owner, http.MethodDelete, "/clusters/"+id, "", http.StatusOK)
	requests("a deleted cluster keeps this name: bring it back with `freshet ctl cluster undelete`, or free the name with `freshet ctl cluster purge`")
	f.as(t, registry.Owner, http.MethodPost, "/clusters/"+id+"/purge", "", http.StatusAccepted)
	requests("a cluster with this name is being purged: try again in a few seconds")
}

// TestClusters_Interrupted repeats requests that ended between the record and the Spec.
func TestClusters_Interrupted(t *testing.T) {
	f := open(t)
	id := "0MP4Kxjfr8KpC_OLjGQtgg"
	require.NoError(t, f.reg.CreateCluster(t.Context(), by, f.team, id, "logs"))
	require.Nil(t, f.spec(t, id))
	c := f.as(t, registry.Ordinary, http.MethodPost, "/clusters", `{"name":"logs"}`, http.StatusCreated).body(t)
	require.Equal(t, id, c["id"])
	require.NotNil(t, f.spec(t, id))
	f.as(t, registry.Ordinary, http.MethodPost, "/clusters", `{"name":"logs"}`, http.StatusConflict)

	path := "/clusters/" + id
	key := f.as(t, registry.Ordinary, http.MethodPost, path+"/agent-keys", `{"name":"a"}`, http.StatusCreated).body(t)
	require.NoError(t, f.reg.RevokeAgentKey(t.Context(), by, id, accesskey.HashOf(key["key"].(string))))
	require.Len(t, f.spec(t, id).Keys, 1)
	f.as(t, registry.Ordinary, http.MethodDelete, path+"/agent-keys/"+key["id"].(string), "", http.StatusNotFound)
	require.Empty(t, f.spec(t, id).Keys)

	require.NoError(t, f.reg.UpdateCluster(t.Context(), by, id, func(c *registry.Cluster) error { c.State = directory.Deleted; return nil }))
	require.Equal(t, directory.Active, f.spec(t, id).State)
	f.as(t, registry.Admin, http.MethodDelete, path, "", http.StatusOK)
	require.Equal(t, directory.Deleted, f.spec(t, id).State)
}

// TestSettle_LateWrite has a settle that read the records before a key was revoked, and writes afterwards. The write is refused although the Spec
// never had the key.
func TestSettle_LateWrite(t *testing.T) {
	f := open(t)
	id, path := f.newCluster(t)
	before, revision, err := f.dir.Get(t.Context(), id)
	require.NoError(t, err)
	secret := accesskey.HashOf("key")
	require.NoError(t, f.reg.CreateAgentKey(t.Context(), by, id, "key", "fsk_", secret))
	c, err := f.reg.Cluster(t.Context(), id)
	require.NoError(t, err)
	keys, err := f.reg.AgentKeys(t.Context(), c)
	require.NoError(t, err)
	require.Len(t, keys.Records, 1)

	f.as(t, registry.Owner, http.MethodDelete, path+"/agent-keys/"+secret.Digits(), "", http.StatusNoContent)
	require.ErrorIs(t, f.handlers[1].write(t.Context(), before, revision, c, keys.Records), directory.ErrChanged)
	require.Empty(t, f.spec(t, id).Keys)
}

// TestReplicas changes one cluster and its keys through two Handlers at once. The Spec has the keys that are left.
func TestReplicas(t *testing.T) {
	f := open(t)
	id, path := f.newCluster(t)
	token := f.accounts[registry.Owner].token
	const each = 8
	var all sync.WaitGroup
	for replica := range f.handlers {
		for i := range each {
			all.Go(func() {
				try := func(method, path, body string) answer {
					for range 100 {
						a := f.doOn(t, replica, request{method: method, path: "/v1/teams/" + f.team + path, body: body}.bearer(token))
						if a.status != http.StatusConflict {
							return a
						}
					}
					t.Error("conflicts only")
					return answer{}
				}
				a := try(http.MethodPost, path+"/agent-keys", `{"name":"key"}`)
				if a.status != http.StatusCreated {
					t.Errorf("create: %d %s", a.status, a.text)
					return
				}
				if i%2 == 0 {
					key := a.body(t)["id"].(string)
					if a := try(http.MethodDelete, path+"/agent-keys/"+key, ""); a.status != http.StatusNoContent && a.status != http.StatusNotFound {
						t.Errorf("revoke: %d %s", a.status, a.text)
					}
				}
				if a := try(http.MethodPatch, path, fmt.Sprintf(`{"name":"name-%d-%d"}`, replica, i)); a.status != http.StatusOK {
					t.Errorf("rename: %d %s", a.status, a.text)
				}
			})
		}
	}
	all.Wait()
	c, err := f.reg.Cluster(t.Context(), id)
	require.NoError(t, err)
	require.Regexp(t, `^name-[01]-[0-7]$`, c.Name)
	records, err := f.reg.AgentKeys(t.Context(), c)
	require.NoError(t, err)
	left := map[string]bool{}
	for _, k := range f.spec(t, id).Keys {
		left[k.Hash.Digits()] = true
	}
	require.Len(t, left, len(records.Records))
	for _, k := range records.Records {
		require.True(t, left[k.SHA256])
	}
}

// TestReplicas_Create creates one name through both Handlers at once: the team has one cluster of the name, with its Spec.
func TestReplicas_Create(t *testing.T) {
	f := open(t)
	var all sync.WaitGroup
	answers := make([]answer, 8)
	for i := range answers {
		all.Go(func() {
			answers[i] = f.doOn(t, i%2, request{method: http.MethodPost, path: "/v1/teams/" + f.team + "/clusters", body: `{"name":"one"}`}.bearer(f.accounts[registry.Owner].token))
		})
	}
	all.Wait()
	list, err := f.reg.Clusters(t.Context(), f.team)
	require.NoError(t, err)
	require.Len(t, list.Records, 1)
	created := 0
	for _, a := range answers {
		if a.status == http.StatusCreated {
			created++
			require.Equal(t, list.Records[0].ID, a.body(t)["id"])
		} else {
			require.Equal(t, http.StatusConflict, a.status, a.text)
		}
	}
	require.Positive(t, created)
	require.NotNil(t, f.spec(t, list.Records[0].ID))
}

// TestRoles has callers that would give or remove more than their role.
func TestRoles(t *testing.T) {
	f := open(t)
	owner, member := f.accounts[registry.Owner], f.accounts[registry.Ordinary]
	f.as(t, registry.Admin, http.MethodPatch, "/members/"+member.id, `{"role":"owner"}`, http.StatusForbidden)
	f.as(t, registry.Admin, http.MethodPatch, "/members/"+owner.id, `{"role":"member"}`, http.StatusForbidden)
	f.as(t, registry.Admin, http.MethodDelete, "/members/"+owner.id, "", http.StatusForbidden)
	f.as(t, registry.Admin, http.MethodPost, "/invitations", `{"email":"a@example.com","role":"owner"}`, http.StatusForbidden)
	f.as(t, registry.Ordinary, http.MethodPost, "/tokens", `{"name":"x","role":"admin"}`, http.StatusForbidden)

	low := accesskey.NewToken()
	f.newToken(t, owner, registry.ReadOnly, low, start.Add(time.Hour))
	create := request{method: http.MethodPost, path: "/v1/teams/" + f.team + "/tokens"}.bearer(low)
	for body, status := range map[string]int{
		`{"name":"x","role":"owner","expires":"2026-11-28T07:00:00Z"}`:     http.StatusForbidden,
		`{"name":"x","role":"read-only"}`:                                  http.StatusForbidden,
		`{"name":"x","role":"read-only","expires":"2026-11-28T08:00:00Z"}`: http.StatusForbidden,
		`{"name":"x","role":"read-only","expires":"2026-11-28T07:00:00Z"}`: http.StatusCreated,
	} {
		create.body = body
		a := f.do(t, create)
		require.Equal(t, status, a.status, "%s: %s", body, a.text)
	}
}

// TestTokens creates a token, uses it and revokes it. Its secret is in no record, and other members neither see nor revoke it.
func TestTokens(t *testing.T) {
	f := open(t)
	created := f.as(t, registry.Ordinary, http.MethodPost, "/tokens", `{"name":"ci","role":"member"}`, http.StatusCreated).body(t)
	secret, id := created["token"].(string), created["id"].(string)
	use := request{method: http.MethodGet, path: "/v1/teams/" + f.team}.bearer(secret)
	require.Equal(t, http.StatusOK, f.do(t, use).status)
	require.NotContains(t, f.as(t, registry.ReadOnly, http.MethodGet, "/tokens", "", http.StatusOK).text, id)
	f.as(t, registry.ReadOnly, http.MethodDelete, "/tokens/"+id, "", http.StatusNotFound)
	seen := f.as(t, registry.Admin, http.MethodGet, "/tokens", "", http.StatusOK).text
	require.Contains(t, seen, id)
	require.Contains(t, seen, `"used":"2026-11-28T06:30:00Z"`)
	resp, err := f.etcd.Client().Get(t.Context(), "", clientv3.WithPrefix())
	require.NoError(t, err)
	for _, kv := range resp.Kvs {
		require.NotContains(t, string(kv.Key)+string(kv.Value), secret)
	}
	rename := request{method: http.MethodPost, path: "/v1/teams/" + f.team + "/clusters", body: `{"name":"by-token"}`}.bearer(secret)
	require.Equal(t, http.StatusCreated, f.do(t, rename).status)
	audit := f.as(t, registry.Admin, http.MethodGet, "/audit?limit=1", "", http.StatusOK).text
	require.Contains(t, audit, `"actor":"`+f.accounts[registry.Ordinary].id+` token `+id[:8]+`","address":"192.0.2.1","action":"cluster.create"`)
	f.as(t, registry.Ordinary, http.MethodDelete, "/tokens/"+id, "", http.StatusNoContent)
	require.Equal(t, http.StatusUnauthorized, f.do(t, use).status)
}

func TestProblemOf_Unreadable(t *testing.T) {
	h := &Handler{cfg: Config{Logger: zap.NewNop()}}
	p := h.problemOf("get-team", fmt.Errorf("etcd key secret: %w", registry.ErrNewer))
	require.Equal(t, http.StatusInternalServerError, p.Status)
	require.NotContains(t, p.Detail, "secret")
}
