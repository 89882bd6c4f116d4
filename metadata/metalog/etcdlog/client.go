package etcdlog

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// ClientConfig tells how to reach an external etcd cluster.
type ClientConfig struct {
	Endpoints []string // of all members: host:port or URL; one dead member then costs at most an election
	TLS       *tls.Config
	Username  string
	Password  string
}

// CheckEndpoint returns an error for an endpoint without a port, or that is no URL of etcd's.
func CheckEndpoint(endpoint string) error {
	if strings.HasPrefix(endpoint, "unix://") {
		return nil
	}
	address := Address(endpoint)
	host, port, err := net.SplitHostPort(address)
	n, bad := strconv.ParseUint(port, 10, 16)
	switch {
	case strings.Contains(address, "/"):
		return fmt.Errorf("%q is no address of an etcd member: write host:port, such as etcd-1:2379", endpoint)
	case err != nil || host == "" || bad != nil || n == 0:
		return fmt.Errorf("%q has no port: write host:port, such as etcd-1:2379", endpoint)
	}
	return nil
}

// Address returns the host:port of an endpoint.
func Address(endpoint string) string {
	for _, scheme := range []string{"http://", "https://"} {
		if address, ok := strings.CutPrefix(endpoint, scheme); ok {
			return strings.TrimSuffix(address, "/")
		}
	}
	return endpoint
}

// Time-outs of the connections. A dead process is noticed at once by its closed connection; a silent host by TCP
// within connectionTimeout when something was sent, else by a ping. gRPC refuses to ping more often than every 10 s.
const (
	dialTimeout       = 2 * time.Second
	pingInterval      = 10 * time.Second
	connectionTimeout = 2 * time.Second
	// reconnectPause bounds the pause between two attempts to connect to a member. gRPC's default is two minutes after a long outage.
	reconnectPause = 2 * time.Second
	// connectTimeout bounds one attempt. gRPC's default is 20 s.
	connectTimeout = 5 * time.Second
	// maxSendBytes leaves etcd to decide on its own request limit.
	maxSendBytes = 16 << 20
)

// NewClient connects to the cluster, in the background: an unreachable member is no error. Requests go round-robin
// over the members that are connected; time limits are each request's own.
func NewClient(cfg ClientConfig) (*clientv3.Client, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, errors.New("etcd client: no endpoints")
	}
	c, err := clientv3.New(configOf(cfg))
	if err != nil {
		return nil, fmt.Errorf("etcd client: %w", err)
	}
	return c, nil
}

func configOf(cfg ClientConfig) clientv3.Config {
	reconnect := backoff.DefaultConfig
	reconnect.MaxDelay = reconnectPause
	return clientv3.Config{
		Endpoints:            cfg.Endpoints,
		TLS:                  cfg.TLS,
		Username:             cfg.Username,
		Password:             cfg.Password,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    pingInterval,
		DialKeepAliveTimeout: connectionTimeout,
		MaxCallSendMsgSize:   maxSendBytes,
		DialOptions:          []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: connectTimeout})},
		Logger:               zap.NewNop(), // it would log each failed request, and callers log their own failures
	}
}

// MinQuota is the least backend quota that holds one virtual cluster's log budget (512 MiB) twice, once live and once
// deleted but not yet compacted.
const MinQuota = 1 << 30

// Check asks every member for its status. silent has the endpoints without an answer. faults has the other errors, joined: a member that
// refuses the request, and one with a backend quota below MinQuota.
func Check(ctx context.Context, client *clientv3.Client) (silent []string, faults error) {
	var errs []error
	for _, ep := range endpoints(client) {
		st, err := status(ctx, client, ep)
		switch {
		case err != nil && TimedOut(err):
			silent = append(silent, ep)
		case err != nil:
			errs = append(errs, fmt.Errorf("etcd member %s: %w", ep, err))
		case st.DbSizeQuota != 0 && st.DbSizeQuota < MinQuota:
			errs = append(errs, fmt.Errorf("etcd member %s: quota of %d bytes is below %d (--quota-backend-bytes)",
				ep, st.DbSizeQuota, int64(MinQuota)))
		}
	}
	return silent, errors.Join(errs...)
}

// TimedOut reports whether err of a request to etcd means that there was no answer.
func TimedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	code := codeOf(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled
}

// codeOf returns the gRPC code of an error of etcd's client, which wraps some codes in types of its own.
func codeOf(err error) codes.Code {
	var coded interface{ Code() codes.Code }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return grpcstatus.Code(err)
}

func status(ctx context.Context, client *clientv3.Client, endpoint string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return client.Status(ctx, endpoint)
}

// endpoints of the members. A client of an embedded member has none and ignores the name.
func endpoints(client *clientv3.Client) []string {
	if eps := client.Endpoints(); len(eps) > 0 {
		return eps
	}
	return []string{"embedded"}
}
