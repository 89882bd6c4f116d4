package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/metadata"
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

// limitCluster makes a request for limits with the operator key, and requires a status.
func (f *fixture) limitCluster(t *testing.T, id, body string, status int) answer {
	t.Helper()
	a := f.do(t, request{method: http.MethodPatch, path: "/v1/clusters/" + id + "/limits", body: body}.bearer(operatorKey))
	require.Equal(t, status, a.status, a.text)
	return a
}

// TestLimitCluster changes limits one after the other. Absent ones stay, 0 is the default, and the team sees the limits and an audit entry of each change.
func TestLimitCluster(t *testing.T) {
	f := open(t)
	id, path := f.newCluster(t)
	defaults := map[string]any{"memory_bytes": float64(directory.DefaultMemory), "log_bytes": float64(directory.DefaultLogBytes), "warm": false}
	limits := func() any {
		return f.as(t, registry.ReadOnly, http.MethodGet, path, "", http.StatusOK).body(t)["limits"]
	}
	newest := func() map[string]any {
		a := f.as(t, registry.Admin, http.MethodGet, "/audit?limit=1", "", http.StatusOK)
		return a.body(t)["items"].([]any)[0].(map[string]any)
	}
	require.Equal(t, defaults, limits())
	keys := f.spec(t, id).Keys

	a := f.limitCluster(t, id, `{"memory_bytes":67108864,"log_bytes":16777216,"warm":true,"topics":1,"partitions":2,"groups":3,"group_members":4,`+
		`"transactional_ids":5,"offset_bytes":6,"text_bytes":7}`, http.StatusOK)
	all := map[string]any{
		"memory_bytes": 67108864., "log_bytes": 16777216., "warm": true, "topics": 1., "partitions": 2., "groups": 3., "group_members": 4.,
		"transactional_ids": 5., "offset_bytes": 6., "text_bytes": 7.,
	}
	require.Equal(t, all, a.body(t)["limits"])
	require.Equal(t, f.team, a.body(t)["team"])
	require.Equal(t, all, limits())
	spec := f.spec(t, id)
	require.Equal(t, &directory.Spec{
		ID: id, Stored: true, Name: id, State: directory.Active, Memory: 64 << 20, LogBytes: 16 << 20, Warm: true, Limits: metadata.Limits{1, 2, 3, 4, 5, 6, 7},
		DefaultPartitions: 1, Keys: keys,
	}, spec)
	e := newest()
	require.Equal(t, []any{"cluster.limit", id + " memory_bytes 134217728 -> 67108864, log_bytes 33554432 -> 16777216, topics 0 -> 1, partitions 0 -> 2, groups 0 -> 3, " +
		"group_members 0 -> 4, transactional_ids 0 -> 5, offset_bytes 0 -> 6, text_bytes 0 -> 7, warm false -> true"}, []any{e["action"], e["subject"]})
	require.Regexp(t, "^operator key [0-9a-f]{8}$", e["actor"])

	for _, same := range []string{`{}`, `{"partitions":2}`} {
		f.limitCluster(t, id, same, http.StatusOK)
		require.Equal(t, e, newest(), "no entry without a change")
	}
	f.limitCluster(t, id, `{"partitions":20}`, http.StatusOK)
	require.Equal(t, id+" partitions 2 -> 20", newest()["subject"])
	all["partitions"] = 20.
	require.Equal(t, all, limits())
	f.as(t, registry.Admin, http.MethodPost, path+"/suspend", "", http.StatusOK)
	require.Equal(t, all, f.as(t, registry.Admin, http.MethodPost, path+"/resume", "", http.StatusOK).body(t)["limits"])
	list := f.do(t, request{method: http.MethodGet, path: "/v1/clusters"}.bearer(operatorKey)).body(t)["items"].([]any)
	require.Equal(t, all, list[0].(map[string]any)["limits"])

	f.limitCluster(t, id, `{"memory_bytes":0,"log_bytes":0,"warm":false,"topics":0,"partitions":0,"groups":0,"group_members":0,"transactional_ids":0,`+
		`"offset_bytes":0,"text_bytes":0}`, http.StatusOK)
	require.Equal(t, defaults, limits())

	f.as(t, registry.Owner, http.MethodPatch, "/clusters/"+id+"/limits", `{"partitions":1}`, http.StatusNotFound)
	require.Contains(t, f.limitCluster(t, "none", `{"partitions":1}`, http.StatusNotFound).text, "want an id of `freshet ctl cluster list-all`")
	f.as(t, registry.Admin, http.MethodDelete, path, "", http.StatusOK)
	f.limitCluster(t, id, `{"partitions":1}`, http.StatusOK)
	f.as(t, registry.Admin, http.MethodPost, path+"/purge", "", http.StatusAccepted)
	f.limitCluster(t, id, `{"partitions":2}`, http.StatusConflict)
}

// TestLimitCluster_Bounds: each limit has a minimum and a maximum, which its error names. A request with one fault changes nothing.
func TestLimitCluster_Bounds(t *testing.T) {
	f := open(t)
	id, _ := f.newCluster(t)
	before := f.spec(t, id)
	body := func(name string, value int64) string { return fmt.Sprintf(`{"warm":true,%q:%d}`, name, value) }
	for _, l := range new(Limits).each(new(directory.Spec)) {
		for _, value := range []int64{-1, l.least - 1, l.most + 1, math.MaxInt64} {
			if value == 0 {
				continue
			}
			a := f.limitCluster(t, id, body(l.name, value), http.StatusUnprocessableEntity)
			require.Equal(t, []any{map[string]any{"location": "body." + l.name, "message": fmt.Sprintf("expected %d to %d, or 0 for the default", l.least, l.most)}}, a.body(t)["errors"])
			require.Equal(t, before, f.spec(t, id))
		}
	}
	f.limitCluster(t, id, `{"partition":1}`, http.StatusUnprocessableEntity)
	f.limitCluster(t, id, `{"partitions":1.5}`, http.StatusUnprocessableEntity)
	for _, l := range new(Limits).each(new(directory.Spec)) {
		for _, value := range []int64{l.least, l.most} {
			require.EqualValues(t, value, f.limitCluster(t, id, body(l.name, value), http.StatusOK).body(t)["limits"].(map[string]any)[l.name])
		}
	}
}

// TestLimitCluster_LongestEntry changes all limits of a description that a person wrote with the largest numbers. The audit entry has room for them.
func TestLimitCluster_LongestEntry(t *testing.T) {
	f := open(t)
	id, _ := f.newCluster(t)
	spec, revision, err := f.dir.Get(t.Context(), id)
	require.NoError(t, err)
	most := Limits{Warm: new(true)}
	for _, l := range most.each(spec) {
		*l.stored, *l.field = math.MaxInt64, &l.most
	}
	require.NoError(t, f.dir.Update(t.Context(), spec, revision))
	text, err := json.Marshal(most)
	require.NoError(t, err)
	f.limitCluster(t, id, string(text), http.StatusOK)
	entry := f.as(t, registry.Admin, http.MethodGet, "/audit?limit=1", "", http.StatusOK).body(t)["items"].([]any)[0].(map[string]any)
	require.Contains(t, entry["subject"], "warm false -> true")
	t.Logf("%d bytes of %d", len(entry["subject"].(string)), registry.MaxSubjectBytes)
}

// TestLimitCluster_AtOnce: changes of limits, keys and the state at the same time by two replicas are all made.
func TestLimitCluster_AtOnce(t *testing.T) {
	f := open(t)
	id, path := f.newCluster(t)
	var all errgroup.Group
	all.SetLimit(2)
	for i, body := range []string{`{"topics":11}`, `{"groups":12}`, `{"partitions":13}`, `{"log_bytes":16777216}`} {
		all.Go(func() error {
			a := f.doOn(t, i%2, request{method: http.MethodPatch, path: "/v1/clusters/" + id + "/limits", body: body}.bearer(operatorKey))
			if a.status != http.StatusOK {
				return errors.New(a.text)
			}
			a = f.doOn(t, i%2, request{method: http.MethodPost, path: "/v1/teams/" + f.team + path + "/agent-keys", body: `{"name":"key"}`}.bearer(f.accounts[registry.Owner].token))
			if a.status != http.StatusCreated {
				return errors.New(a.text)
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	spec := f.spec(t, id)
	require.Equal(t, metadata.Limits{metadata.LimitTopics: 11, metadata.LimitGroups: 12, metadata.LimitPartitions: 13}, spec.Limits)
	require.EqualValues(t, 16<<20, spec.LogBytes)
	require.Len(t, spec.Keys, 4)
}

// TestLimitCluster_Unreadable: a cluster whose description cannot be read is listed without limits, and one without a description has no limits yet.
func TestLimitCluster_Unreadable(t *testing.T) {
	f := open(t)
	id, path := f.newCluster(t)
	_, err := f.etcd.Client().Put(t.Context(), f.dir.SpecKey(id), "malformed")
	require.NoError(t, err)
	require.NotContains(t, f.as(t, registry.ReadOnly, http.MethodGet, path, "", http.StatusOK).text, "limits")
	f.limitCluster(t, id, `{"partitions":1}`, http.StatusInternalServerError)
	_, err = f.etcd.Client().Delete(t.Context(), f.dir.SpecKey(id))
	require.NoError(t, err)
	require.NotContains(t, f.as(t, registry.ReadOnly, http.MethodGet, path, "", http.StatusOK).text, "limits")
	require.Contains(t, f.limitCluster(t, id, `{"partitions":1}`, http.StatusConflict).text, "the creation of the cluster was interrupted")
}

// mute is an etcd client whose reads of Specs fail after a number of them.
type mute struct {
	clientv3.KV
	left atomic.Int64
}

func (m *mute) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if strings.Contains(key, "/+specs/") && m.left.Add(-1) < 0 {
		return nil, rpctypes.ErrNoLeader
	}
	return m.KV.Get(ctx, key, opts...)
}

// TestLimitCluster_EtcdAway: a cluster whose Spec etcd does not answer is shown without limits. The other clusters of a page, and the answer to a change that
// is complete, do not fail.
func TestLimitCluster_EtcdAway(t *testing.T) {
	f := open(t)
	first, path := f.newCluster(t)
	f.as(t, registry.Owner, http.MethodPost, "/clusters", `{"name":"second"}`, http.StatusCreated)
	etcd := &mute{KV: f.etcd.Client().KV}
	f.handlers[0].cfg.Directory.Client = &clientv3.Client{KV: etcd}
	limits := func(list answer) (shown int) {
		for _, item := range list.body(t)["items"].([]any) {
			if item.(map[string]any)["limits"] != nil {
				shown++
			}
		}
		return shown
	}
	all := request{method: http.MethodGet, path: "/v1/clusters"}.bearer(operatorKey)
	for left := range int64(3) {
		etcd.left.Store(left)
		require.EqualValues(t, left, limits(f.do(t, all)))
		etcd.left.Store(left)
		require.EqualValues(t, left, limits(f.as(t, registry.ReadOnly, http.MethodGet, "/clusters", "", http.StatusOK)))
	}
	etcd.left.Store(1)
	require.NotContains(t, f.limitCluster(t, first, `{"partitions":7}`, http.StatusOK).body(t), "limits")
	require.EqualValues(t, 7, f.spec(t, first).Limits[metadata.LimitPartitions])
	etcd.left.Store(1)
	f.operate(t, first, "/block", http.StatusOK)
	etcd.left.Store(1)
	require.NotContains(t, f.as(t, registry.Owner, http.MethodDelete, path, "", http.StatusOK).body(t), "limits")
	etcd.left.Store(0)
	f.operate(t, first, "/unblock", http.StatusServiceUnavailable)
}

// operate makes a change of a cluster with the operator key, and requires a status.
func (f *fixture) operate(t *testing.T, id, change string, status int) answer {
	t.Helper()
	a := f.do(t, request{method: http.MethodPost, path: "/v1/clusters/" + id + change}.bearer(operatorKey))
	require.Equal(t, status, a.status, a.text)
	return a
}

// TestBlockCluster_UnreadableKey: a record of an agent key that cannot be read keeps no operator from stopping the cluster, and from resuming it.
func TestBlockCluster_UnreadableKey(t *testing.T) {
	f := open(t)
	id, path := f.newCluster(t)
	f.as(t, registry.Owner, http.MethodPost, path+"/agent-keys", `{"name":"key"}`, http.StatusCreated)
	before := f.spec(t, id)
	found, err := f.etcd.Client().Get(t.Context(), "/p/+registry/agent-keys/"+f.team+"/"+id+"/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, found.Kvs, 1)
	_, err = f.etcd.Client().Put(t.Context(), string(found.Kvs[0].Key), `{"version":2}`)
	require.NoError(t, err)
	f.operate(t, id, "/block", http.StatusOK)
	require.Equal(t, directory.Suspended, f.spec(t, id).State)
	f.operate(t, id, "/unblock", http.StatusOK)
	require.Equal(t, before, f.spec(t, id))
}

// TestBlockCluster_OtherState: a block repairs a Spec that an interrupted change of the record left behind, and so does a repeated one.
func TestBlockCluster_OtherState(t *testing.T) {
	f := open(t)
	id, path := f.newCluster(t)
	f.as(t, registry.Owner, http.MethodPost, path+"/suspend", "", http.StatusOK)
	set := func(state directory.State) {
		spec, revision, err := f.dir.Get(t.Context(), id)
		require.NoError(t, err)
		spec.State = state
		require.NoError(t, f.dir.Update(t.Context(), spec, revision))
	}
	for range 2 {
		set(directory.Active)
		f.operate(t, id, "/block", http.StatusOK)
		require.Equal(t, directory.Suspended, f.spec(t, id).State)
	}
	f.as(t, registry.Owner, http.MethodDelete, path, "", http.StatusOK)
	set(directory.Active)
	f.operate(t, id, "/unblock", http.StatusOK)
	require.Equal(t, directory.Deleted, f.spec(t, id).State)
}

// TestBlockCluster_NoSpec: a cluster whose creation was interrupted is blocked too. Its Spec is not active once it is created.
func TestBlockCluster_NoSpec(t *testing.T) {
	f := open(t)
	id, path := f.newCluster(t)
	_, err := f.etcd.Client().Txn(t.Context()).Then(clientv3.OpDelete(f.dir.SpecKey(id)), clientv3.OpDelete("/p/+clusters/"+id)).Commit()
	require.NoError(t, err)
	f.operate(t, id, "/block", http.StatusOK)
	f.as(t, registry.Owner, http.MethodPost, path+"/agent-keys", `{"name":"key"}`, http.StatusCreated)
	require.Equal(t, directory.Suspended, f.spec(t, id).State)
}

// TestBlockCluster: a team sees that an operator suspended its cluster, and cannot end that: neither by a resumption nor by a deletion and an undeletion.
func TestBlockCluster(t *testing.T) {
	f := open(t)
	id, path := f.newCluster(t)
	state := func(a answer) []any {
		c := a.body(t)
		return []any{c["state"], c["blocked"] != nil, f.spec(t, id).State}
	}
	byTeam := func(method, change string) []any {
		return state(f.as(t, registry.Owner, method, path+change, "", http.StatusOK))
	}
	blocked := []any{"suspended", true, directory.Suspended}
	for range 2 {
		require.Equal(t, blocked, state(f.operate(t, id, "/block", http.StatusOK)))
	}
	require.Equal(t, blocked, byTeam(http.MethodGet, ""))
	for range 2 {
		for _, change := range []string{"/resume", "/suspend"} {
			require.Contains(t, f.as(t, registry.Owner, http.MethodPost, path+change, "", http.StatusForbidden).text, "an operator of the control plane has suspended the cluster")
		}
		f.as(t, registry.Owner, http.MethodDelete, path, "", http.StatusOK)
		require.Equal(t, []any{"deleted", true, directory.Deleted}, byTeam(http.MethodGet, ""))
		require.Equal(t, blocked, byTeam(http.MethodPost, "/undelete"))
	}
	f.as(t, registry.Owner, http.MethodPatch, path, `{"name":"renamed"}`, http.StatusOK)
	require.Equal(t, blocked, byTeam(http.MethodGet, ""))
	for range 2 {
		require.Equal(t, []any{"active", false, directory.Active}, state(f.operate(t, id, "/unblock", http.StatusOK)))
	}
	var actions []any
	for _, item := range f.as(t, registry.Admin, http.MethodGet, "/audit?limit=7", "", http.StatusOK).body(t)["items"].([]any) {
		actions = append(actions, item.(map[string]any)["action"])
	}
	require.Equal(t, []any{"cluster.unblock", "cluster.rename", "cluster.suspended", "cluster.deleted", "cluster.suspended", "cluster.deleted", "cluster.block"}, actions)

	require.Equal(t, []any{"suspended", false, directory.Suspended}, byTeam(http.MethodPost, "/suspend"))
	require.Equal(t, []any{"suspended", false, directory.Suspended}, state(f.operate(t, id, "/unblock", http.StatusOK)), "the team's own suspension")
	require.Equal(t, blocked, state(f.operate(t, id, "/block", http.StatusOK)))
	f.as(t, registry.Owner, http.MethodDelete, path, "", http.StatusOK)
	require.Equal(t, blocked, byTeam(http.MethodPost, "/undelete"))
	require.Equal(t, []any{"suspended", false, directory.Suspended}, state(f.operate(t, id, "/unblock", http.StatusOK)), "the team's own suspension before the block")
	require.Equal(t, []any{"active", false, directory.Active}, byTeam(http.MethodPost, "/resume"))
	f.as(t, registry.Owner, http.MethodDelete, path, "", http.StatusOK)
	require.Equal(t, []any{"deleted", true, directory.Deleted}, state(f.operate(t, id, "/block", http.StatusOK)))
	require.Equal(t, blocked, byTeam(http.MethodPost, "/undelete"))
	f.as(t, registry.Owner, http.MethodDelete, path, "", http.StatusOK)
	require.Equal(t, []any{"deleted", false, directory.Deleted}, state(f.operate(t, id, "/unblock", http.StatusOK)))
	require.Equal(t, []any{"active", false, directory.Active}, byTeam(http.MethodPost, "/undelete"))
	f.as(t, registry.Owner, http.MethodDelete, path, "", http.StatusOK)
	f.as(t, registry.Owner, http.MethodPost, path+"/purge", "", http.StatusAccepted)
	f.operate(t, id, "/block", http.StatusConflict)
	id = "none"
	f.operate(t, id, "/block", http.StatusNotFound)
	f.operate(t, id, "/unblock", http.StatusNotFound)
}
