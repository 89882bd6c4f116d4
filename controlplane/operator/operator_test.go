package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/controlplane/admin"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/operator"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asked is a handler beside an owner.
type asked struct {
	t *testing.T // the bubble's
	o *owner.Owner
	// topics changes topics for clients.
	topics *admin.APIs
	cfg    operator.Config
	ask    func(method, path, key string) (int, map[string]any)
}

// served returns the look-up of the virtual clusters by name.
func served(all map[string]operator.Cluster) func(name string) (operator.Cluster, error) {
	return func(name string) (operator.Cluster, error) {
		if c, ok := all[name]; ok {
			return c, nil
		}
		return operator.Cluster{}, session.ErrNotServed
	}
}

// owned runs fn with a handler beside an owner.
func owned(t *testing.T, fn func(x asked)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log, _, err := memlog.New().Open("a", metalog.Config{})
		require.NoError(t, err)
		ready := make(chan *owner.Owner, 1)
		r, err := replica.New(replica.Config{
			Replica: "a", Address: "a:7050", Log: log, Bucket: mem.New(), SnapshotPrefix: "vc/snapshots/",
			OnOwner: func(o *owner.Owner) func() { ready <- o; return func() {} },
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		o := <-ready
		topics := admin.New(admin.Config{}, o)
		cfg := operator.Config{
			Open: func(cluster, key string, readOnly bool) bool {
				return cluster == "vc" && (key == "secret" || key == "reader" && readOnly) || key == "both"
			},
			Cluster: served(map[string]operator.Cluster{
				"vc": {
					Owner:   func() *owner.Owner { return o },
					Topics:  func() *admin.APIs { return topics },
					Located: func() (string, string, error) { return "b", "b:7050", nil },
					Holds: func(b id.Bundle) (job.Holding, error) {
						if b != (id.Submission{Session: 5, N: 7}).Bundle() {
							return job.Holding{}, job.ErrNoRecords
						}
						return job.Holding{Bundle: b.String(), Partitions: 1}, nil
					},
					Cut: func(_ context.Context, b id.Bundle) (job.Holding, error) {
						return job.Holding{Bundle: b.String(), Job: 9}, nil
					},
					Zones:   func() (any, error) { return []map[string]string{{"zone": "a"}}, nil },
					Writers: func() (any, error) { return nil, owner.ErrNotOwner },
				},
				"away": {Owner: func() *owner.Owner { return nil }, Located: func() (string, string, error) { return "", "", nil }},
			}),
			List:      func() []operator.Listed { return nil },
			Forwarder: operator.NewForwarder(nil),
		}
		handler := operator.Handler(cfg)
		fn(asked{t, o, topics, cfg, func(method, path, key string) (int, map[string]any) {
			w := httptest.NewRecorder()
			q := httptest.NewRequestWithContext(t.Context(), method, "http://cp"+path, nil)
			q.Header.Set("Authorization", "Bearer "+key)
			handler.ServeHTTP(w, q)
			var body map[string]any
			if w.Header().Get("Content-Type") == "application/json" {
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
			}
			return w.Code, body
		}})
		cancel()
		require.NoError(t, <-ended)
	})
}

// TestHandler_ReadOnlyKeys: a read-only key suffices for zones, writers and jobs alone.
func TestHandler_ReadOnlyKeys(t *testing.T) {
	owned(t, func(x asked) {
		for _, route := range []struct {
			method, path string
			readOnly     bool
		}{
			{http.MethodGet, "zones", true},
			{http.MethodGet, "writers", true},
			{http.MethodGet, "jobs", true},
			{http.MethodGet, "deleted-topics", false},
			{http.MethodPost, "deleted-topics/t/undelete", false},
			{http.MethodPost, "deleted-topics/t/purge", false},
			{http.MethodGet, "bundles/5/7", false},
			{http.MethodPost, "bundles/5/7/cut", false},
			{http.MethodGet, "agents", false},
			{http.MethodGet, "status", false},
		} {
			code, body := x.ask(route.method, "/v1/clusters/vc/"+route.path, "reader")
			require.Equal(x.t, route.readOnly, code != http.StatusUnauthorized, "%s: %d %v", route.path, code, body)
			code, _ = x.ask(route.method, "/v1/clusters/vc/"+route.path, "agent")
			require.Equal(x.t, http.StatusUnauthorized, code, route.path)
		}
	})
}

func TestHandler_UndeletesTopics(t *testing.T) {
	owned(t, func(x asked) {
		const topics = "/v1/clusters/vc/deleted-topics"
		for _, c := range []metadata.Command{
			&metadata.CreateTopic{ID: id.Topic{1}, Name: "t", Partitions: 3},
			&metadata.DeleteTopic{ID: id.Topic{1}, KeepMs: 1000},
			&metadata.CreateTopic{ID: id.Topic{2}, Name: "taken", Partitions: 3},
		} {
			_, _, err := x.o.Propose(x.t.Context(), c)
			require.NoError(x.t, err)
		}
		code, body := x.ask(http.MethodGet, topics, "secret")
		require.Equal(x.t, http.StatusOK, code)
		require.Len(x.t, body["topics"], 1)
		require.Equal(x.t, "t", body["topics"].([]any)[0].(map[string]any)["name"])

		for _, c := range []struct {
			method, path string
			code         int
		}{
			{http.MethodGet, topics + "/t/undelete", http.StatusMethodNotAllowed},
			{http.MethodPost, topics + "/other/undelete", http.StatusNotFound},
			{http.MethodPost, topics + "/t/undelete?as=taken", http.StatusConflict},
			{http.MethodPost, topics + "/t/undelete?as=%2F", http.StatusBadRequest},
			{http.MethodPost, topics + "/t/undelete?as=back", http.StatusOK},
			{http.MethodPost, topics + "/t/undelete", http.StatusNotFound},
			{http.MethodGet, topics + "/t/purge", http.StatusMethodNotAllowed},
			{http.MethodPost, topics + "/t/purge", http.StatusNotFound},
		} {
			code, _ := x.ask(c.method, c.path, "secret")
			require.Equal(x.t, c.code, code, "%s %s", c.method, c.path)
		}
		_, err := x.o.Read(func(s *metadata.State) {
			_, ok := s.TopicByName("back")
			require.True(x.t, ok)
		})
		require.NoError(x.t, err)
	})
}

// A topic that comes back while a client creates one whose name Kafka's metrics could not tell from it: one of the two is refused.
func TestHandler_UndeletesBesideCreateTopics(t *testing.T) {
	owned(t, func(x asked) {
		for n := range byte(50) {
			deleted := id.Topic{n + 1}
			for _, c := range []metadata.Command{
				&metadata.CreateTopic{ID: deleted, Name: fmt.Sprint("t", n), Partitions: 1}, &metadata.DeleteTopic{ID: deleted, KeepMs: 1000},
			} {
				_, _, err := x.o.Propose(x.t.Context(), c)
				require.NoError(x.t, err)
			}
			create := kmsg.NewPtrCreateTopicsRequest()
			create.Version = 7
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = fmt.Sprint("back.", n), 1, 1
			create.Topics = append(create.Topics, topic)
			var both sync.WaitGroup
			both.Go(func() {
				_, err := x.topics.Handle(x.t.Context(), &api.Forward{
					ApiKey: int32(create.Key()), ApiVersion: int32(create.Version), Body: create.AppendTo(nil),
				})
				assert.NoError(x.t, err)
			})
			both.Go(func() {
				x.ask(http.MethodPost, fmt.Sprintf("/v1/clusters/vc/deleted-topics/t%d/undelete?as=back_%d", n, n), "secret")
			})
			both.Wait()
			_, err := x.o.Read(func(s *metadata.State) {
				_, dotted := s.TopicByName(fmt.Sprint("back.", n))
				_, undeleted := s.TopicByName(fmt.Sprint("back_", n))
				require.NotEqual(x.t, dotted, undeleted)
			})
			require.NoError(x.t, err)
		}
	})
}

func TestHandler_Bundles(t *testing.T) {
	owned(t, func(x asked) {
		code, body := x.ask(http.MethodGet, "/v1/clusters/vc/bundles/5/7", "secret")
		require.Equal(x.t, http.StatusOK, code)
		require.Equal(x.t, "5/7", body["bundle"])
		code, body = x.ask(http.MethodPost, "/v1/clusters/vc/bundles/5/7/cut", "secret")
		require.Equal(x.t, http.StatusOK, code)
		require.EqualValues(x.t, 9, body["job"])
		for _, c := range []struct {
			method, path, key string
			code              int
		}{
			{http.MethodGet, "5/8", "secret", http.StatusNotFound},
			{http.MethodGet, "5/x", "secret", http.StatusBadRequest},
			{http.MethodPost, "0/7/cut", "secret", http.StatusBadRequest},
			{http.MethodGet, "5/7/cut", "secret", http.StatusMethodNotAllowed},
			{http.MethodPost, "5/7/cut", "wrong", http.StatusUnauthorized},
		} {
			code, _ := x.ask(c.method, "/v1/clusters/vc/bundles/"+c.path, c.key)
			require.Equal(x.t, c.code, code, "%s %s", c.method, c.path)
		}
	})
}

func TestHandler_KeysAndOwners(t *testing.T) {
	owned(t, func(x asked) {
		for _, c := range []struct {
			path, key string
			code      int
		}{
			{"/v1/clusters/vc/deleted-topics", "", http.StatusUnauthorized},
			{"/v1/clusters/vc/deleted-topics", "wrong", http.StatusUnauthorized},
			{"/v1/clusters/away/deleted-topics", "secret", http.StatusUnauthorized},
			{"/v1/clusters/none/deleted-topics", "both", http.StatusUnauthorized},
			{"/v1/clusters/away/deleted-topics", "both", http.StatusServiceUnavailable},
			{"/v1/clusters/vc/jobs", "secret", http.StatusOK},
			{"/v1/clusters/vc/zones", "secret", http.StatusOK},
			{"/v1/clusters/vc/zones", "wrong", http.StatusUnauthorized},
			{"/v1/clusters/away/zones", "both", http.StatusServiceUnavailable},
		} {
			code, _ := x.ask(http.MethodGet, c.path, c.key)
			require.Equal(x.t, c.code, code, "%s with key %q", c.path, c.key)
		}
		code, body := x.ask(http.MethodGet, "/v1/clusters/vc/writers", "secret")
		require.Equal(x.t, http.StatusServiceUnavailable, code, "what lists them knows better")
		require.Equal(x.t, "the virtual cluster's owner has just changed: try again", body["error"])
		_, body = x.ask(http.MethodGet, "/v1/clusters/vc/zones", "secret")
		require.Equal(x.t, []any{map[string]any{"zone": "a"}}, body["zones"])
	})
}
