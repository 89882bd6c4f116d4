package operator

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/grpcerr"
)

// Bounds of forwarded calls.
const (
	forwardTimeout = 10 * time.Second // with the wait for a slot
	forwardSlots   = 8                // calls under way per replica; others wait
	maxURI         = 8 << 10
	maxForwarded   = 16 << 20 // bytes of an answer
)

// Forwarder takes calls to the replica that owns a virtual cluster, with the caller's key. Each call has a connection of its own,
// since calls are rare.
type Forwarder struct {
	transport credentials.TransportCredentials
	slots     chan struct{}
}

// NewForwarder returns a Forwarder. secure is the TLS configuration towards other replicas; nil for none.
func NewForwarder(secure *tls.Config) *Forwarder {
	f := &Forwarder{transport: insecure.NewCredentials(), slots: make(chan struct{}, forwardSlots)}
	if secure != nil {
		f.transport = credentials.NewTLS(secure)
	}
	return f
}

var (
	errBusy    = fmt.Errorf("all %d slots for forwarded calls are in use: try again", forwardSlots)
	errLongURI = fmt.Errorf("the call's path and query are longer than %d bytes", maxURI)
	errLarge   = fmt.Errorf("the answer is larger than %d bytes: ask the owner's own HTTP address", maxForwarded)
)

// ask forwards one call to the replica at address and returns its HTTP status and body. It waits up to forwardTimeout for a slot and
// the answer. It returns errLongURI and errBusy before anything is sent, and errWrongKey if the replica refused the key; after any
// other error a change may have been made.
func (f *Forwarder) ask(ctx context.Context, address, key, method, uri string) (code int, body []byte, err error) {
	if len(uri) > maxURI {
		return 0, nil, errLongURI
	}
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-ctx.Done():
		return 0, nil, errBusy
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(f.transport),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxForwarded+1<<10)))
	if err != nil {
		return 0, nil, fmt.Errorf("address %q: %w", address, err)
	}
	defer conn.Close()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	response, err := api.NewOperatorsClient(conn).Ask(ctx, &api.AskRequest{Method: method, Uri: uri})
	if err != nil {
		return 0, nil, plain(err)
	}
	if response.Status < 200 || response.Status > 599 {
		return 0, nil, fmt.Errorf("status %d is none of HTTP", response.Status)
	}
	return int(response.Status), response.Body, nil
}

// Get is a GET of a path below Prefix at the replica at address.
func (f *Forwarder) Get(ctx context.Context, address, key, uri string) (code int, body []byte, err error) {
	return f.ask(ctx, address, key, http.MethodGet, uri)
}

// plain returns a failed call's error in plain words.
func plain(err error) error {
	code := status.Code(err)
	if code == codes.Unauthenticated || code == codes.PermissionDenied {
		return errWrongKey
	}
	err = grpcerr.Plain(err)
	if strings.Contains(err.Error(), "x509:") {
		return fmt.Errorf("%w: set --tls-replica-ca to the certificates that sign the replicas'", err)
	}
	return err
}

// Server answers the calls that other replicas forward. It forwards none.
type Server struct {
	api.UnimplementedOperatorsServer
	handler http.Handler
}

// NewServer returns a Server for the clusters of a Handler.
func NewServer(cfg Config) *Server {
	cfg.Forwarder = nil
	return &Server{handler: Handler(cfg)}
}

// Ask implements the service. The Handler compares the key, as it does for calls over HTTP.
func (s *Server) Ask(ctx context.Context, call *api.AskRequest) (*api.AskResponse, error) {
	if len(call.Uri) > maxURI {
		return nil, status.Error(codes.InvalidArgument, errLongURI.Error())
	}
	r, err := http.NewRequestWithContext(ctx, call.Method, call.Uri, nil)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	for _, key := range metadata.ValueFromIncomingContext(ctx, "authorization") {
		r.Header.Set("Authorization", key)
	}
	a := recorded{header: http.Header{}}
	s.handler.ServeHTTP(&a, r)
	if a.body.Len() > maxForwarded {
		return nil, status.Error(codes.ResourceExhausted, errLarge.Error())
	}
	return &api.AskResponse{Status: int32(a.status), Body: a.body.Bytes()}, nil
}

// recorded is an answer that is kept. It implements http.ResponseWriter.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *recorded) Header() http.Header { return a.header }

func (a *recorded) WriteHeader(status int) { a.status = status }

func (a *recorded) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.body.Write(p)
}
