// Package operator is what operators ask of a virtual cluster beyond what Kafka has a request for, as JSON over the control
// plane's HTTP address. Every call carries an agent key of the virtual cluster ("Authorization: Bearer <key>"), and is
// answered by the owner alone; other replicas answer 421 and say where the owner is.
//
//	GET  /v1/clusters/{cluster}/deleted-topics                           topics whose deletion can be taken back
//	POST /v1/clusters/{cluster}/deleted-topics/{topic}/undelete?as=NAME  takes it back; topic is a name or an id
//	POST /v1/clusters/{cluster}/deleted-topics/{topic}/purge             gives it up at once; topic is a name or an id
//	GET  /v1/clusters/{cluster}/jobs                                     background jobs
//	GET  /v1/clusters/{cluster}/zones                                    how busy zones are, and how many agents they should have
//	GET  /v1/clusters/{cluster}/writers                                  what each agent writes
//
// A failure is {"error": "..."} with 400 (what was asked for cannot be), 401 (also for a virtual cluster that is not there), 404 (unknown topic), 409
// (the name is taken), 421 or 503 (try again).
package operator

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/admin"
	"github.com/freshet-io/freshet/controlplane/owner"
)

// Prefix is where all paths begin, for who mounts Handler.
const Prefix = "/v1/clusters/"

// Cluster is one virtual cluster on this replica.
type Cluster struct {
	// Log takes what operators change; nil for none.
	Log *zap.Logger
	// Owner gives the owner while this replica is it, else nil.
	Owner func() *owner.Owner
	// Located gives the owner's replica id and the address it serves agents at; "" if there is none at the moment.
	Located func() (replica, address string)
	// Jobs gives the background jobs; nil for none.
	Jobs func() (any, error)
	// Zones gives how many agents each zone should have; nil for none.
	Zones func() (any, error)
	// Writers gives what each agent writes; nil for none.
	Writers func() (any, error)
}

// Config of a Handler.
type Config struct {
	// Open tells whether a key opens a virtual cluster.
	Open     func(virtualCluster, key string) bool
	Clusters map[string]Cluster
}

// errNotOwner is answered with where the owner is.
var errNotOwner = errors.New("this replica is not the owner of the virtual cluster")

// Handler serves the paths of the package comment.
func Handler(cfg Config) http.Handler {
	mux := http.NewServeMux()
	on := func(pattern string, fn func(ctx context.Context, c Cluster, o *owner.Owner, r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { cfg.serve(w, r, fn) })
	}
	on("GET "+Prefix+"{cluster}/deleted-topics", func(_ context.Context, _ Cluster, o *owner.Owner, _ *http.Request) (any, error) {
		list, err := admin.DeletedTopics(o)
		return map[string]any{"topics": list}, err
	})
	on("POST "+Prefix+"{cluster}/deleted-topics/{topic}/undelete", func(ctx context.Context, _ Cluster, o *owner.Owner, r *http.Request) (any, error) {
		return admin.New(admin.Config{}, o).UndeleteTopic(ctx, r.PathValue("topic"), r.URL.Query().Get("as"))
	})
	on("POST "+Prefix+"{cluster}/deleted-topics/{topic}/purge", func(ctx context.Context, c Cluster, o *owner.Owner, r *http.Request) (any, error) {
		return admin.New(admin.Config{Log: c.Log}, o).PurgeTopic(ctx, r.PathValue("topic"))
	})
	on("GET "+Prefix+"{cluster}/jobs", func(_ context.Context, c Cluster, _ *owner.Owner, _ *http.Request) (any, error) {
		return listed("jobs", c.Jobs)
	})
	on("GET "+Prefix+"{cluster}/zones", func(_ context.Context, c Cluster, _ *owner.Owner, _ *http.Request) (any, error) {
		return listed("zones", c.Zones)
	})
	on("GET "+Prefix+"{cluster}/writers", func(_ context.Context, c Cluster, _ *owner.Owner, _ *http.Request) (any, error) {
		return listed("agents", c.Writers)
	})
	return mux
}

// listed is a list under its name; a nil one is empty.
func listed(name string, list func() (any, error)) (any, error) {
	if list == nil {
		return map[string]any{name: []string{}}, nil
	}
	all, err := list()
	return map[string]any{name: all}, err
}

// serve authenticates, finds the owner, and writes what fn gives.
func (c *Config) serve(
	w http.ResponseWriter, r *http.Request, fn func(context.Context, Cluster, *owner.Owner, *http.Request) (any, error),
) {
	name := r.PathValue("cluster")
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	cluster, ok := c.Clusters[name]
	if !c.Open(name, key) || !ok {
		answer(w, http.StatusUnauthorized, failure{Error: "no such virtual cluster, or not its key"})
		return
	}
	o := cluster.Owner()
	err := errNotOwner
	var value any
	if o != nil {
		value, err = fn(r.Context(), cluster, o, r)
	}
	if err != nil {
		status := statusOf(err)
		f := failure{Error: err.Error()}
		if status == http.StatusMisdirectedRequest {
			f.Owner, f.Address = cluster.Located()
		}
		answer(w, status, f)
		return
	}
	answer(w, http.StatusOK, value)
}

// failure is the body of an answer that is none.
type failure struct {
	Error   string `json:"error"`
	Owner   string `json:"owner,omitempty"`         // replica id
	Address string `json:"owner_address,omitempty"` // that it serves agents at
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, errNotOwner), errors.Is(err, owner.ErrNotOwner):
		return http.StatusMisdirectedRequest
	case errors.Is(err, admin.ErrNotDeleted):
		return http.StatusNotFound
	case errors.Is(err, admin.ErrNameTaken):
		return http.StatusConflict
	case errors.Is(err, admin.ErrAmbiguous), errors.Is(err, admin.ErrInvalidName):
		return http.StatusBadRequest
	default:
		return http.StatusServiceUnavailable
	}
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // who hung up hears nothing
}
