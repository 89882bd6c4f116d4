// Package operator serves operators' calls for which Kafka has no request, as JSON over the control
// plane's HTTP address. Every call carries an operator key ("Authorization: Bearer <key>"). For the calls marked with r, a read-only key of the
// virtual cluster suffices. Every replica takes calls. The owner answers them, and the other replicas forward them to the owner over gRPC
// (forward.go). Every replica answers the list of virtual clusters and a status itself.
//
//	GET  /v1/clusters?after=CURSOR                                       all virtual clusters, 1,000 an answer, as the replica that is asked knows them
//	GET  /v1/clusters/{cluster}/deleted-topics                           topics whose deletion can be taken back
//	POST /v1/clusters/{cluster}/deleted-topics/{topic}/undelete?as=NAME  takes it back; topic is a name or an id
//	POST /v1/clusters/{cluster}/deleted-topics/{topic}/purge             gives it up at once; topic is a name or an id
//	GET  /v1/clusters/{cluster}/jobs                                   r background jobs
//	GET  /v1/clusters/{cluster}/bundles/{session}/{n}                    the partitions and offsets in a bundle
//	POST /v1/clusters/{cluster}/bundles/{session}/{n}/cut                starts a job that gives up the bundle's unreadable records
//	GET  /v1/clusters/{cluster}/zones                                  r how busy zones are, and how many agents they should have
//	GET  /v1/clusters/{cluster}/writers                                r what each agent writes
//	GET  /v1/clusters/{cluster}/agents                                   agents, also stopped ones
//	GET  /v1/clusters/{cluster}/status                                   the whole cluster, as the replica that is asked knows it (Status)
//	GET  /v1/status                                                      the control plane, as the replica that is asked knows it (Plane)
//
// A failure is {"error": "..."} with status 400 (invalid or ambiguous name), 401 (wrong key or unknown virtual cluster), 404 (no such
// deleted topic, or no records in the bundle), 409 (the name is taken, or the virtual cluster is suspended or deleted, which "state" beside "error" names), 414 (the call is too long to be forwarded), 500 (the answer
// cannot be encoded) or 503 (no answer at the moment). A GET may be repeated after 503. After a POST the change may have been made: list the topics first.
package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/freshet-io/freshet/controlplane/admin"
	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// Prefix is the path prefix under which Handler is to be mounted.
const Prefix = "/v1/clusters/"

// StatusPath is the path of the control plane's status, under which Handler is to be mounted too.
const StatusPath = "/v1/status"

// Cluster is one virtual cluster on this replica.
type Cluster struct {
	// Owner returns the owner while this replica is it, else nil.
	Owner func() *owner.Owner
	// Topics returns the Kafka APIs of topics of the owner. Operators and Kafka clients share them, so that one lock orders all
	// changes of topics. Topics does not return nil while Owner does not.
	Topics func() *admin.APIs
	// Located returns the owner's replica id and the gRPC address it serves; "" if there is none at the moment. An error is the cause.
	Located func() (replica, address string, err error)
	// Jobs returns the background jobs; nil for none.
	Jobs func() (any, error)
	// Holds returns the partitions and offsets in a bundle. Cut starts a job that gives up the bundle's unreadable records.
	Holds func(id.Bundle) (job.Holding, error)
	Cut   func(context.Context, id.Bundle) (job.Holding, error)
	// Zones returns how many agents each zone should have; nil for none.
	Zones func() (any, error)
	// Writers returns what each agent writes; nil for none.
	Writers func() (any, error)
	// Agents returns the agents as the owner knows them; ok is false if this replica is not the owner.
	Agents func() (list *session.AgentList, ok bool)
	// Status returns what this replica knows, owner or not.
	Status func(context.Context) *Status
}

// Config of a Handler.
type Config struct {
	// Open reports whether a key opens a virtual cluster to operators, or with readOnly one of its calls that read-only keys suffice for.
	Open func(virtualCluster, key string, readOnly bool) bool
	// Cluster returns a virtual cluster by name. Errors: session.ErrNotServed, or a reason for which the virtual cluster is not served now.
	Cluster func(name string) (Cluster, error)
	// List returns all virtual clusters.
	List func() []Listed
	// Plane returns the status of the control plane.
	Plane func(context.Context) *Plane
	// Forwarder takes calls to the owner; nil: the handler forwards none.
	Forwarder *Forwarder
}

var (
	errNoOwner = errors.New("the virtual cluster has no owner at the moment: try again")
	errMoved   = errors.New("the virtual cluster's owner has just changed: try again")
)

// Handler serves the paths of the package comment.
func Handler(cfg Config) http.Handler {
	mux := http.NewServeMux()
	type call = func(ctx context.Context, c Cluster, o *owner.Owner, r *http.Request) (any, error)
	on := func(pattern string, fn call) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { cfg.serve(w, r, false, fn) })
	}
	forReaders := func(pattern string, fn call) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { cfg.serve(w, r, true, fn) })
	}
	on("GET "+Prefix+"{cluster}/deleted-topics", func(_ context.Context, _ Cluster, o *owner.Owner, _ *http.Request) (any, error) {
		list, err := admin.DeletedTopics(o)
		return map[string]any{"topics": list}, err
	})
	on("POST "+Prefix+"{cluster}/deleted-topics/{topic}/undelete", func(ctx context.Context, c Cluster, _ *owner.Owner, r *http.Request) (any, error) {
		return c.Topics().UndeleteTopic(ctx, r.PathValue("topic"), r.URL.Query().Get("as"))
	})
	on("POST "+Prefix+"{cluster}/deleted-topics/{topic}/purge", func(ctx context.Context, c Cluster, _ *owner.Owner, r *http.Request) (any, error) {
		return c.Topics().PurgeTopic(ctx, r.PathValue("topic"))
	})
	forReaders("GET "+Prefix+"{cluster}/jobs", func(_ context.Context, c Cluster, o *owner.Owner, _ *http.Request) (any, error) {
		return listed("jobs", c.Jobs, o)
	})
	on("GET "+Prefix+"{cluster}/bundles/{session}/{n}", func(_ context.Context, c Cluster, _ *owner.Owner, r *http.Request) (any, error) {
		b, err := bundleOf(r)
		if err != nil {
			return nil, err
		}
		return c.Holds(b)
	})
	on("POST "+Prefix+"{cluster}/bundles/{session}/{n}/cut", func(ctx context.Context, c Cluster, _ *owner.Owner, r *http.Request) (any, error) {
		b, err := bundleOf(r)
		if err != nil {
			return nil, err
		}
		return c.Cut(ctx, b)
	})
	forReaders("GET "+Prefix+"{cluster}/zones", func(_ context.Context, c Cluster, o *owner.Owner, _ *http.Request) (any, error) {
		return listed("zones", c.Zones, o)
	})
	forReaders("GET "+Prefix+"{cluster}/writers", func(_ context.Context, c Cluster, o *owner.Owner, _ *http.Request) (any, error) {
		return listed("agents", c.Writers, o)
	})
	on("GET "+Prefix+"{cluster}/agents", func(_ context.Context, c Cluster, _ *owner.Owner, _ *http.Request) (any, error) {
		if list, ok := c.Agents(); ok {
			return list, nil
		}
		return nil, errMoved
	})
	mux.HandleFunc("GET "+strings.TrimSuffix(Prefix, "/"), cfg.list)
	mux.HandleFunc("GET "+StatusPath, func(w http.ResponseWriter, r *http.Request) {
		if cfg.opensAll(w, r) {
			encode(w, cfg.Plane(r.Context()))
		}
	})
	mux.HandleFunc("GET "+Prefix+"{cluster}/status", func(w http.ResponseWriter, r *http.Request) {
		if cluster, _, ok := cfg.open(w, r, false); ok {
			encode(w, cluster.Status(r.Context()))
		}
	})
	return mux
}

var errBundle = errors.New("invalid bundle")

func bundleOf(r *http.Request) (id.Bundle, error) {
	b, err := id.ParseBundle(r.PathValue("session") + "/" + r.PathValue("n"))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errBundle, err)
	}
	return b, nil
}

// listed returns a list under its name; a nil one is empty. It returns an error if o is not the owner afterwards.
func listed(name string, list func() (any, error), o *owner.Owner) (any, error) {
	var all any = []string{}
	if list != nil {
		var err error
		if all, err = list(); err != nil {
			return nil, err
		}
	}
	_, err := o.Read(func(*metadata.State) {})
	return map[string]any{name: all}, err
}

// serve authenticates, and writes the value of fn or the answer of the owner.
func (c *Config) serve(
	w http.ResponseWriter, r *http.Request, readOnly bool, fn func(context.Context, Cluster, *owner.Owner, *http.Request) (any, error),
) {
	cluster, key, ok := c.open(w, r, readOnly)
	if !ok {
		return
	}
	o := cluster.Owner()
	if o == nil {
		c.forward(w, r, cluster, key)
		return
	}
	value, err := fn(r.Context(), cluster, o, r)
	var unknown *owner.OutcomeUnknownError
	if errors.Is(err, owner.ErrNotOwner) && !errors.As(err, &unknown) {
		err = errMoved
	}
	if err != nil {
		refuse(w, statusOf(err), err)
		return
	}
	encode(w, value)
}

// open returns the virtual cluster that a call names, with the call's key. If the key is wrong, it refuses the call.
func (c *Config) open(w http.ResponseWriter, r *http.Request, readOnly bool) (cluster Cluster, key string, ok bool) {
	name := r.PathValue("cluster")
	key, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	cluster, err := c.Cluster(name)
	opens := c.Open(name, key, readOnly)
	if opens && err != nil {
		if state := c.inactive(name); state != "" {
			refuseInactive(w, state, fmt.Errorf("virtual cluster %s %w", name, err))
			return Cluster{}, "", false
		}
	}
	switch {
	case !opens, errors.Is(err, session.ErrNotServed):
		refuse(w, http.StatusUnauthorized, errWrongKey)
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("virtual cluster %s: %w", name, err))
	default:
		return cluster, key, true
	}
	return Cluster{}, "", false
}

// inactive returns the state of a virtual cluster that is suspended or deleted, "" for others and unknown ones.
func (c *Config) inactive(name string) string {
	for _, l := range c.List() {
		if l.VirtualCluster == name && l.State != string(directory.Active) {
			return l.State
		}
	}
	return ""
}

// encode answers with a value as JSON.
func encode(w http.ResponseWriter, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	answer(w, http.StatusOK, append(body, '\n'))
}

// forward writes the answer of the owner's replica.
func (c *Config) forward(w http.ResponseWriter, r *http.Request, cluster Cluster, key string) {
	replica, address, err := cluster.Located()
	switch {
	case c.Forwarder == nil: // another replica took this one for the owner
		refuse(w, http.StatusServiceUnavailable, errMoved)
		return
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%w (%w)", errNoOwner, err))
		return
	case replica == "":
		refuse(w, http.StatusServiceUnavailable, errNoOwner)
		return
	}
	status, body, err := c.Forwarder.ask(r.Context(), address, key, r.Method, r.URL.RequestURI())
	switch {
	case errors.Is(err, errWrongKey):
		refuse(w, http.StatusUnauthorized, err)
	case errors.Is(err, errLongURI):
		refuse(w, http.StatusRequestURITooLong, err)
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("cannot forward to the owner, replica %s at %s: %w", replica, address, err))
	default:
		answer(w, status, body)
	}
}

var errWrongKey = errors.New("no such virtual cluster, or no key for this call: it takes an operator key (--operator-key)")

func statusOf(err error) int {
	switch {
	case errors.Is(err, admin.ErrNotDeleted), errors.Is(err, job.ErrNoRecords):
		return http.StatusNotFound
	case errors.Is(err, admin.ErrNameTaken):
		return http.StatusConflict
	case errors.Is(err, admin.ErrAmbiguous), errors.Is(err, admin.ErrInvalidName), errors.Is(err, errBundle):
		return http.StatusBadRequest
	default:
		return http.StatusServiceUnavailable
	}
}

func refuse(w http.ResponseWriter, status int, fault error) {
	body, _ := json.Marshal(map[string]string{"error": fault.Error()}) // strings always encode
	answer(w, status, append(body, '\n'))
}

// refuseInactive refuses a call about a virtual cluster that its tenant has suspended or deleted.
func refuseInactive(w http.ResponseWriter, state string, fault error) {
	body, _ := json.Marshal(map[string]string{"error": fault.Error(), "state": state}) // strings always encode
	answer(w, http.StatusConflict, append(body, '\n'))
}

func answer(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a failed write means that the caller hung up
}
