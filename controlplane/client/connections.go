package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/grpcerr"
)

var errNoOwner = errors.New("no replica knows an owner")

const (
	// refreshInterval is the interval at which an agent with a stream asks for the addresses of replicas, which change rarely.
	refreshInterval = 5 * time.Minute
	// idleConnection is the time without a call after which a connection is closed. A connection costs the replica memory and goroutines, and
	// agents need other replicas than the owner only to find the next owner.
	idleConnection = 10 * time.Second
)

// maxReplicas bounds the addresses learned from replicas.
const maxReplicas = 32

// connections are the gRPC connections to replicas, by address, and what is known of where replicas are.
type connections struct {
	cfg Config
	mu  struct {
		sync.Mutex
		conns   map[string]*grpc.ClientConn
		learned []string // addresses that replicas told of, beyond the configured ones
		stream  string   // address that the session's stream is with, "" for none
	}
}

func newConnections(cfg Config) *connections {
	c := &connections{cfg: cfg}
	c.mu.conns = map[string]*grpc.ClientConn{}
	return c
}

// owner asks all known replicas at once which of them is the owner, and takes the first answer that names one.
func (c *connections) owner(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout)
	defer cancel()
	addresses := c.addresses()
	type located struct {
		address  string
		response *api.LocateResponse
		err      error
	}
	answers := make(chan located, len(addresses))
	for _, address := range addresses {
		client := c.client(address) // here, not below: close must find the connection
		go func() {
			response, err := client.Locate(ctx, &api.LocateRequest{VirtualCluster: c.cfg.VirtualCluster})
			answers <- located{address, response, err}
		}()
	}
	var errs []error
	for range addresses {
		a := <-answers
		if a.err != nil {
			errs = append(errs, &answerError{a.address, grpcerr.Plain(a.err)})
			if ctx.Err() != nil {
				c.drop(a.address)
			}
			continue
		}
		errs = append(errs, nil) // it let this agent in
		c.learn(a.response)
		if a.response.OwnerAddress != "" {
			return a.response.OwnerAddress, nil
		}
	}
	return "", &ownerError{errs}
}

// refresh learns of replicas that came or went while there is a stream with the owner at an address, so that the next owner is found if
// those known now are gone by then.
func (c *connections) refresh(ctx context.Context, owner string) {
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			call, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout)
			answer, err := c.client(owner).Locate(call, &api.LocateRequest{VirtualCluster: c.cfg.VirtualCluster})
			cancel()
			if err == nil { // else the stream ends soon, or the next answer comes
				c.learn(answer)
			}
		}
	}
}

func (c *connections) addresses() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(slices.Clone(c.cfg.Replicas), c.mu.learned...)
}

// learn replaces the learned addresses by those that a replica knows of, and closes the connections to others: in a cluster
// whose control planes have another address after each restart, an agent would keep one for each that there ever was.
func (c *connections) learn(answer *api.LocateResponse) {
	if len(answer.Replicas) == 0 {
		return
	}
	c.mu.Lock()
	c.mu.learned = c.mu.learned[:0:0]
	for _, r := range answer.Replicas {
		if !slices.Contains(c.cfg.Replicas, r) && len(c.mu.learned) < maxReplicas {
			c.mu.learned = append(c.mu.learned, r)
		}
	}
	var gone []*grpc.ClientConn
	for address, conn := range c.mu.conns {
		if address != c.mu.stream && address != answer.OwnerAddress && !c.knownLocked(address) {
			delete(c.mu.conns, address)
			gone = append(gone, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range gone {
		_ = conn.Close() // nothing is wanted of it any more
	}
}

func (c *connections) knownLocked(address string) bool {
	return slices.Contains(c.cfg.Replicas, address) || slices.Contains(c.mu.learned, address)
}

// streams notes whom the session's stream is with: that connection stays, whoever says that the replica is gone.
func (c *connections) streams(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.stream = address
}

// client gives the API at an address, connecting lazily.
func (c *connections) client(address string) api.ControlPlaneClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn, ok := c.mu.conns[address]; ok {
		return api.NewControlPlaneClient(conn)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, c.options()...)
	if err != nil {
		return failing{fmt.Errorf("address %q: %w", address, err)}
	}
	c.mu.conns[address] = conn
	return api.NewControlPlaneClient(conn)
}

// drop closes the connection to an address that does not answer on it: the network may have lost it without a sign,
// and gRPC would notice only after its keepalive. The next client connects anew.
func (c *connections) drop(address string) {
	c.mu.Lock()
	conn := c.mu.conns[address]
	delete(c.mu.conns, address)
	c.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // nothing is wanted of it any more
	}
}

func (c *connections) options() []grpc.DialOption {
	transport := insecure.NewCredentials()
	if c.cfg.TLS != nil {
		transport = credentials.NewTLS(c.cfg.TLS)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithPerRPCCredentials(bearer{key: c.cfg.AgentKey}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: retryMin, Multiplier: 2, Jitter: 0.2, MaxDelay: retryMax,
			},
			MinConnectTimeout: c.cfg.DialTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 3 * time.Second}),
		grpc.WithInitialWindowSize(4 << 20),
		grpc.WithInitialConnWindowSize(8 << 20),
		grpc.WithIdleTimeout(idleConnection),
	}
	if c.cfg.Dial != nil {
		options = append(options, grpc.WithContextDialer(c.cfg.Dial))
	}
	return options
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.mu.conns {
		_ = conn.Close() // nothing is under way any more
	}
	clear(c.mu.conns)
}

// bearer sends the agent key with every call. Without TLS too: whoever configures none trusts the network.
type bearer struct{ key string }

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.key}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// failing is the API at an address that cannot be one.
type failing struct{ err error }

func (f failing) Locate(context.Context, *api.LocateRequest, ...grpc.CallOption) (*api.LocateResponse, error) {
	return nil, f.err
}

func (f failing) Session(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[api.ToOwner, api.ToAgent], error) {
	return nil, f.err
}
