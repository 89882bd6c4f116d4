// Package httpapi serves the registry to tenants as JSON over HTTP: teams, members, invitations, clusters, agent keys, API tokens and the audit
// trail, under /v1. openapi.json is its description in OpenAPI 3.1, which GET /v1/openapi.json serves.
//
// A request has an API token (Authorization: Bearer fst_...) or the session cookie of the console. The table in routes.go has the role that each
// route requires. A few routes take an operator key instead: they create and approve a team, list all clusters, limit, block and unblock one. An API token is valid in one team, with at most its member's role. Objects of other teams are answered 404, like objects that
// do not exist.
//
// Errors are application/problem+json (RFC 9457). They never repeat a value of the request.
//
// A change of a cluster first changes its record and then its directory.Spec. If a request ends in between, the same request again
// completes the change. ../DESIGN.md has the order of both.
package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/controlplane/registry/mail"
	"github.com/freshet-io/freshet/controlplane/registry/password"
)

// Bounds of requests.
const (
	// maxBody bounds the body of a request, in bytes. With maxConnections and maxStreams, it bounds the memory of all bodies to 32 MiB.
	maxBody = 16 << 10
	// maxRequests bounds the requests that a Handler works on at once. One whose body is still arriving, or whose answer is being sent, does not count:
	// clients could take all of them by being slow.
	maxRequests = 256
	// bodyTimeout bounds the time in which a body arrives.
	bodyTimeout = 5 * time.Second
	// requestTimeout bounds the time of a request in etcd.
	requestTimeout = 10 * time.Second
)

// Config configures a Handler.
type Config struct {
	Registry  *registry.Registry
	Directory directory.Directory
	Logger    *zap.Logger
	// Operator reports whether a text is an operator key of the control plane; nil means that none is.
	Operator func(key string) bool
	// Crowded returns the reason for which the control plane has no room for further clusters, or nil. nil means that it always has.
	Crowded func() error
	// EtcdCrowded reports whether etcd has no room for further records except agent keys and API tokens, and EtcdFull whether it has none for these
	// either. Default: never.
	EtcdCrowded, EtcdFull func() bool
	Now                   func() time.Time // default time.Now
	// SignUp is the value of --signup; default SignUpClosed.
	SignUp SignUpMode
	// ControlPlanes returns the host:port of each control plane for agents, which sign-up answers.
	ControlPlanes func() []string
	// Mail sends mails; nil without --smtp-url. URL is the address of the API in mails.
	Mail interface {
		Add(compose mail.Compose) error
	}
	URL string
	// Purge wakes the program that removes clusters marked by Registry.PurgeCluster; nil leaves them to its next sweep.
	Purge func()
	// TrustedProxies are the networks of proxies whose X-Forwarded-For counts.
	TrustedProxies []netip.Prefix
}

// Handler serves the API. It is safe for concurrent use, and any number of Handlers may share one etcd.
type Handler struct {
	cfg         Config
	mux         *http.ServeMux
	slots       chan struct{}
	passwords   *password.Hasher
	sameOrigin  *http.CrossOriginProtection
	description []byte // OpenAPI document
}

// New returns a Handler. It fails if a route has no row in the table, or a row no route.
func New(cfg Config) (*Handler, error) { return newHandler(cfg, routes) }

func newHandler(cfg Config, rows []route) (*Handler, error) {
	if cfg.Crowded == nil {
		cfg.Crowded = func() error { return nil }
	}
	if cfg.EtcdCrowded == nil {
		cfg.EtcdCrowded = func() bool { return false }
	}
	if cfg.EtcdFull == nil {
		cfg.EtcdFull = func() bool { return false }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	h := &Handler{
		cfg: cfg, mux: http.NewServeMux(), slots: make(chan struct{}, maxRequests), sameOrigin: http.NewCrossOriginProtection(),
		passwords: password.New(),
	}
	r := newRouter(h, rows)
	h.routeOperator(r)
	h.routeSignUp(r)
	h.routeSessions(r)
	h.routePassword(r)
	h.routeMails(r)
	h.routeTeams(r)
	h.routeMembers(r)
	h.routeInvitations(r)
	h.routeClusters(r)
	h.routeAgentKeys(r)
	h.routeTokens(r)
	h.routeAudit(r)
	h.routeDescription(r)
	if err := r.finish(); err != nil {
		return nil, err
	}
	describeSignUp(r.api.OpenAPI())
	var err error
	h.description, err = json.MarshalIndent(r.api.OpenAPI(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("describe the HTTP API: %w", err)
	}
	h.description = append(h.description, '\n')
	return h, nil
}

// ServeHTTP serves a request. A change continues after its client has gone away, so that it does not end between a record and its Spec.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	ctx := r.Context()
	if changes(r) {
		ctx = context.WithoutCancel(ctx)
	}
	defer h.recover()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout+bodyTimeout)
	defer cancel()
	found, pattern := h.mux.Handler(r)
	if pattern == "" {
		refuseRoute(w, r, found)
		return
	}
	h.mux.ServeHTTP(w, r.WithContext(ctx))
}

// enter takes a slot for work on a request, until leave. Error: the problem of a server without a free slot.
func (h *Handler) enter() error {
	select {
	case h.slots <- struct{}{}:
		return nil
	default:
		return unavailable("the server is at its limit of concurrent requests")
	}
}

func (h *Handler) leave() { <-h.slots }

// recover logs a panic, for example of huma if the connection breaks during the answer, and closes the connection.
func (h *Handler) recover() {
	if fault := recover(); fault != nil {
		h.cfg.Logger.Error("HTTP request panicked", zap.Any("panic", fault))
		panic(http.ErrAbortHandler)
	}
}

// changes reports whether the method of a request changes something.
func changes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// refuseRoute answers a request without a route: 404, or 405 with the methods of the path.
func refuseRoute(w http.ResponseWriter, r *http.Request, found http.Handler) {
	discard := statusOnly{header: http.Header{}}
	found.ServeHTTP(&discard, r)
	p := problem(http.StatusNotFound, "no such path")
	if discard.status == http.StatusMethodNotAllowed {
		p = problem(http.StatusMethodNotAllowed, "this path has other methods")
		p.headers.Set("Allow", discard.header.Get("Allow"))
	}
	writeProblem(w, p)
}

// statusOnly is a ResponseWriter that keeps status and header.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }

// router registers the routes of a table.
type router struct {
	api    huma.API
	rows   map[string]route // without a handler so far, by ID
	faults []error
}

func newRouter(h *Handler, rows []route) *router {
	r := &router{rows: map[string]route{}}
	for _, row := range rows {
		r.rows[row.id] = row
	}
	json := huma.DefaultJSONFormat
	r.api = humago.New(h.mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Freshet", Version: "1",
				Description: "Teams and virtual clusters of a hosted Freshet control plane.",
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token":    {Type: "http", Scheme: "bearer", Description: "API token of a team, which begins with fst_."},
					"operator": {Type: "http", Scheme: "bearer", Description: "Operator key of the control plane, which begins with fso_."},
					"session":  {Type: "apiKey", In: "cookie", Name: SessionCookie, Description: "Session of the console. A change also needs a matching Origin header."},
				},
			},
		},
		Formats:                      map[string]huma.Format{"application/json": json, "json": json},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	})
	return r
}

// finish returns the faults of the table.
func (r *router) finish() error {
	for _, id := range slices.Sorted(maps.Keys(r.rows)) {
		r.faults = append(r.faults, fmt.Errorf("row %s of the table of routes has no handler", id))
	}
	return errors.Join(r.faults...)
}

// handle registers the handler of a row of the table.
func handle[I, O any](h *Handler, r *router, id string, serve func(context.Context, *caller, *I) (*O, error)) {
	row, ok := r.rows[id]
	if !ok {
		r.faults = append(r.faults, fmt.Errorf("route %s has no row in the table of routes, or two handlers", id))
		return
	}
	delete(r.rows, id)
	op := huma.Operation{
		OperationID: id, Method: row.method, Path: row.path, DefaultStatus: row.status, Summary: row.summary, Description: row.describe(),
		Security: row.access.security(), MaxBodyBytes: maxBody + 1, BodyReadTimeout: bodyTimeout,
		Middlewares: huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) { h.authorize(row, ctx, next) }},
	}
	huma.Register(r.api, op, func(ctx context.Context, in *I) (*O, error) {
		if err := h.enter(); err != nil {
			return nil, err
		}
		defer h.leave()
		who, _ := ctx.Value(callerKey{}).(*caller)
		out, err := serve(ctx, who, in)
		if err != nil {
			return nil, h.problemOf(row.id, err)
		}
		return out, nil
	})
}

// document is the answer of GET /v1/openapi.json.
type document struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func (h *Handler) routeDescription(r *router) {
	handle(h, r, "get-openapi", func(context.Context, *caller, *struct{}) (*document, error) {
		return &document{ContentType: "application/json", Body: h.description}, nil
	})
	if item := r.api.OpenAPI().Paths["/v1/openapi.json"]; item != nil { // huma describes bytes as base64
		item.Get.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{
			"application/json": {Schema: &huma.Schema{Type: huma.TypeObject, Description: "OpenAPI document."}},
		}}
	}
}
