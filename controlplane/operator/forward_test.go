package operator_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/operator"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/internal/testservers"
)

// replies is a replica that answers forwarded calls by a function.
type replies struct {
	api.UnimplementedOperatorsServer
	ask func(ctx context.Context, call *api.AskRequest) (*api.AskResponse, error)
}

func (r replies) Ask(ctx context.Context, call *api.AskRequest) (*api.AskResponse, error) {
	return r.ask(ctx, call)
}

// listen serves a replica's gRPC side and returns its address; a nil service serves nothing.
func listen(t *testing.T, secure *tls.Config, service api.OperatorsServer) string {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var options []grpc.ServerOption
	if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
	}
	s := grpc.NewServer(options...)
	if service != nil {
		api.RegisterOperatorsServer(s, service)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(socket) }()
	t.Cleanup(func() {
		s.Stop()
		require.NoError(t, <-ended)
	})
	return socket.Addr().String()
}

// beside is the configuration of a replica that takes replica r2 at address for the owner. With the address etcd, there is none, because
// etcd fails.
func beside(address string, secure *tls.Config) operator.Config {
	return operator.Config{
		Open:      func(_, key string, _ bool) bool { return key == "secret" },
		Forwarder: operator.NewForwarder(secure),
		List:      func() []operator.Listed { return nil },
		Cluster: served(map[string]operator.Cluster{"vc": {
			Owner: func() *owner.Owner { return nil },
			Located: func() (string, string, error) {
				switch address {
				case "":
					return "", "", nil
				case "etcd":
					return "", "", errors.New("etcd at 10.0.0.1:2379 does not answer, 12 s")
				}
				return "r2", address, nil
			},
		}}),
	}
}

func call(t *testing.T, cfg operator.Config, method, uri string) (code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), method, uri, nil)
	r.Header.Set("Authorization", "Bearer secret")
	operator.Handler(cfg).ServeHTTP(w, r)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	return w.Code, w.Body.String()
}

const undelete = "/v1/clusters/vc/deleted-topics/a%2Fb/undelete?as=x%20y"

func TestForwarder_TakesCallsToTheOwner(t *testing.T) {
	files := testservers.NewTLSFiles(t)
	for name, secure := range map[string]*tls.Config{"plaintext": nil, "TLS": files.Config} {
		t.Run(name, func(t *testing.T) {
			server := secure
			if secure != nil {
				server = secure.Clone()
				server.ClientAuth = tls.RequireAndVerifyClientCert
			}
			address := listen(t, server, replies{ask: func(ctx context.Context, call *api.AskRequest) (*api.AskResponse, error) {
				if call.Method != http.MethodPost || call.Uri != undelete || metadata.ValueFromIncomingContext(ctx, "authorization")[0] != "Bearer secret" {
					return nil, status.Errorf(codes.InvalidArgument, "asked %v", call)
				}
				return &api.AskResponse{Status: http.StatusConflict, Body: []byte(`{"error":"the name is taken"}`)}, nil
			}})
			code, body := call(t, beside(address, secure), http.MethodPost, undelete)
			require.Equal(t, http.StatusConflict, code, body)
			require.Equal(t, `{"error":"the name is taken"}`, body)
		})
	}
}

// A call that cannot be answered gets 503, or 401, and one line that says why.
func TestForwarder_SaysWhyTheOwnerDoesNotAnswer(t *testing.T) {
	fails := func(err error) api.OperatorsServer {
		return replies{ask: func(context.Context, *api.AskRequest) (*api.AskResponse, error) { return nil, err }}
	}
	files := testservers.NewTLSFiles(t)
	strangers := testservers.NewTLSFiles(t)
	for name, tt := range map[string]struct {
		cfg  operator.Config
		code int
		says string
	}{
		"no owner":    {beside("", nil), 503, "the virtual cluster has no owner at the moment: try again"},
		"no etcd":     {beside("etcd", nil), 503, "no owner at the moment: try again (etcd at 10.0.0.1:2379 does not answer, 12 s)"},
		"not reached": {beside("127.0.0.1:1", nil), 503, "cannot forward to the owner, replica r2 at 127.0.0.1:1: "},
		"key unknown": {beside(listen(t, nil, fails(status.Error(codes.Unauthenticated, "no"))), nil), 401, "no such virtual cluster, or no key for this call"},
		"fails":       {beside(listen(t, nil, fails(status.Error(codes.Unavailable, "why not"))), nil), 503, ": why not"},
		"no status": {
			beside(listen(t, nil, replies{ask: func(context.Context, *api.AskRequest) (*api.AskResponse, error) { return &api.AskResponse{}, nil }}), nil),
			503, "status 0 is none of HTTP",
		},
		"too large": {
			beside(listen(t, nil, replies{ask: func(context.Context, *api.AskRequest) (*api.AskResponse, error) {
				return &api.AskResponse{Status: 200, Body: make([]byte, 17<<20)}, nil
			}}), nil),
			503, "larger than max",
		},
		"certificate of another authority": {
			beside(listen(t, files.Config, fails(nil)), strangers.Config), 503, "set --tls-replica-ca to the certificates that sign the replicas'",
		},
		"moved on": {
			beside(listen(t, nil, operator.NewServer(beside("127.0.0.1:1", nil))), nil), 503, "the virtual cluster's owner has just changed: try again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, body := call(t, tt.cfg, http.MethodGet, "/v1/clusters/vc/zones")
			require.Equal(t, tt.code, code, body)
			require.Contains(t, body, tt.says)
			require.Equal(t, 1, strings.Count(body, "\n"), body)
		})
	}
	_, body := call(t, beside("127.0.0.1:1", nil), http.MethodPost, undelete+strings.Repeat("x", 8<<10))
	require.Contains(t, body, "longer than 8192 bytes")
}

// The owner answers a forwarded call as one over HTTP, and compares the key.
func TestServer_Ask(t *testing.T) {
	owned(t, func(x asked) {
		s := operator.NewServer(x.cfg)
		ask := func(key, uri string) *api.AskResponse {
			ctx := metadata.NewIncomingContext(x.t.Context(), metadata.Pairs("authorization", "Bearer "+key))
			a, err := s.Ask(ctx, &api.AskRequest{Method: http.MethodGet, Uri: uri})
			require.NoError(x.t, err)
			return a
		}
		a := ask("secret", "/v1/clusters/vc/zones")
		require.Equal(x.t, int32(http.StatusOK), a.Status)
		require.JSONEq(x.t, `{"zones":[{"zone":"a"}]}`, string(a.Body))
		require.Equal(x.t, int32(http.StatusUnauthorized), ask("wrong", "/v1/clusters/vc/zones").Status)
		require.Equal(x.t, int32(http.StatusNotFound), ask("secret", "/livez").Status)
		_, err := s.Ask(x.t.Context(), &api.AskRequest{Method: "NO METHOD", Uri: "/v1/clusters/vc/zones"})
		require.Equal(x.t, codes.InvalidArgument, status.Code(err))
		_, err = s.Ask(x.t.Context(), &api.AskRequest{Method: http.MethodGet, Uri: "/" + strings.Repeat("x", 8<<10)})
		require.Equal(x.t, codes.InvalidArgument, status.Code(err))
	})
}
