package httpapi

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/registry"
)

// TestCrowded_RefusesNewClusters: a control plane without room refuses new clusters, and stores no record of them. Others can still change.
func TestCrowded_RefusesNewClusters(t *testing.T) {
	f := open(t)
	existing := f.signUp(t, 0, signUpBodyOf("ada@example.com", rightPassword, "data", "main"))
	crowded := errors.New("etcd uses 78 % of its quota")
	f.handlers[0].cfg.Crowded = func() error { return crowded }
	owner := f.accounts[registry.Owner]
	create := request{method: http.MethodPost, path: "/v1/teams/" + f.team + "/clusters", body: `{"name":"next"}`}.bearer(owner.token)
	for _, r := range []request{create, {method: http.MethodPost, path: "/v1/signup", body: signUpBodyOf("bob@example.com", rightPassword, "bobs", "main")}} {
		a := f.doOn(t, 0, r)
		require.Equal(t, http.StatusServiceUnavailable, a.status, a.text)
		require.Equal(t, "60", a.header.Get("Retry-After"))
		require.Contains(t, a.text, "the control plane has no room for new clusters: try again later")
		require.NotContains(t, a.text, "quota")
	}
	all, err := f.reg.Clusters(t.Context(), f.team)
	require.NoError(t, err)
	require.Empty(t, all.Records)
	spec, revision, err := f.dir.Get(t.Context(), existing.Cluster.ID)
	require.NoError(t, err)
	require.NoError(t, f.dir.Update(t.Context(), spec, revision))
	crowded = nil
	a := f.doOn(t, 0, create)
	require.Equal(t, http.StatusCreated, a.status, a.text)
}

// TestEtcdCrowded: while etcd has no room, requests that create records are refused, and all others work: users make room, and change their passwords.
// Secrets are created until etcd is full.
func TestEtcdCrowded(t *testing.T) {
	f := open(t)
	refused := []string{"create-team", "sign-up", "verify-sign-up", "sign-up-invited", "create-invitation", "create-cluster", "create-agent-key", "create-token"}
	owner := f.accounts[registry.Owner]
	var crowded, full bool
	f.handlers[0].cfg.EtcdCrowded, f.handlers[0].cfg.EtcdFull = func() bool { return crowded }, func() bool { return full }
	for _, r := range routes {
		t.Run(r.id, func(t *testing.T) {
			path, body, who := "", "", owner
			if r.id == "accept-invitation" {
				who = f.other
			}
			if create, ok := samples[r.id]; ok {
				path, body = create(t, f, who)
			}
			req := request{method: r.method, path: f.pathOf(r, path), body: body}.cookie(who.session)
			if r.access == operator {
				req = req.bearer(operatorKey)
			}
			crowded, full = true, true
			a := f.do(t, req)
			full = false
			if r.id == "create-agent-key" || r.id == "create-token" {
				require.Equal(t, http.StatusCreated, f.do(t, req).status, "below that")
			}
			crowded = false
			if slices.Contains(refused, r.id) {
				require.Equal(t, http.StatusServiceUnavailable, a.status, a.text)
				require.Equal(t, "60", a.header.Get("Retry-After"))
				require.Contains(t, a.text, "no room for new records")
			} else {
				require.Equal(t, r.status, a.status, a.text)
			}
			if r.id == "log-out" {
				f.logIn(t, who)
			}
			if r.id == "leave-team" {
				require.NoError(t, f.reg.AddMember(t.Context(), by, f.team, who.id, registry.Owner))
				f.newToken(t, who, registry.Owner, who.token, time.Time{})
			}
		})
	}
}
