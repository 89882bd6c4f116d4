package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
)

// Config of a Session.
type Config struct {
	// Replicas are gRPC addresses (host:port) of control-plane replicas; one is enough to find the others.
	Replicas []string
	// VirtualCluster is the name of the virtual cluster that this agent serves, or "" for the one that the key opens. Welcome has the name.
	VirtualCluster string
	// AgentKey authenticates the agent (sent as a bearer token).
	AgentKey string
	// TLS to the control plane; nil for none.
	TLS *tls.Config

	// Zone, Endpoints, Version, Peer and Roles describe the agent to the owner. Each endpoint gets a node id of its own.
	// Peer is host:port at which agents of the zone ask it for bytes, "" if nowhere.
	Zone      string
	Endpoints []*api.Endpoint
	Version   string
	Peer      string
	Roles     []api.Role
	// AutoCreateTopics is the agent's setting, for answers of the owner about broker configs.
	AutoCreateTopics bool

	// Handler is told what the owner sends.
	Handler Handler
	// Load tells how much this agent has to do; nil: the owner is told nothing, and takes it for an agent that knows no
	// zone writers. It is asked at the beginning of each stream and then once a second, on the goroutine that sends, so
	// it must not block. A nil answer is not sent.
	Load func() *api.Load

	// Marker returns what the agent found in its bucket, to be compared with the virtual cluster's id; nil if it has not been
	// read. It is asked before each stream and must not block. Without it nothing is compared.
	Marker func() *api.BucketMarker

	// Protocol is the agent's; default api.Protocol. Tests make others up.
	Protocol uint32

	// StreamTimeout is how long the owner may send nothing before the stream is given up; default 3 s.
	StreamTimeout time.Duration
	// DialTimeout bounds Locate and the opening of a stream; default 2 s.
	DialTimeout time.Duration
	// MaxPendingBytes bounds unanswered calls, and once more unanswered forwarded requests; callers wait beyond it. It bounds once more the
	// forwarded requests that wait for other clients, which are refused beyond it.
	// Default 64 MiB.
	MaxPendingBytes int64

	Log        *zap.Logger
	Registerer prometheus.Registerer

	// Dial replaces the network, in tests.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Bounds of the conversation.
const (
	// maxMessageBytes is the largest gRPC message taken or sent.
	maxMessageBytes = 64 << 20
	// batchBytes is about how much is put into one message while an earlier one was being written.
	batchBytes = 1 << 20
	// maxForwardBytes is the largest body forwarded: it has to fit into a message with what else is in its batch. A
	// message that is too large would end the stream, and with every resubmission the next one.
	maxForwardBytes = maxMessageBytes - 4*batchBytes
	// callOverhead is what an unanswered call counts beyond its payload.
	callOverhead = 256
	// repeatAfter is the pause before a call that the owner could not answer is sent again on the same stream.
	repeatAfter = 100 * time.Millisecond
)

// ApplyDefaults sets what is zero to its default.
func (c *Config) ApplyDefaults() {
	c.Protocol = cmp.Or(c.Protocol, api.Protocol)
	c.StreamTimeout = cmp.Or(c.StreamTimeout, 3*time.Second)
	c.DialTimeout = cmp.Or(c.DialTimeout, 2*time.Second)
	c.MaxPendingBytes = cmp.Or(c.MaxPendingBytes, 64<<20)
	c.Log = cmp.Or(c.Log, zap.NewNop())
}

// Validate gives all faults at once.
func (c *Config) Validate() error {
	var errs []error
	if len(c.Replicas) == 0 {
		errs = append(errs, errors.New("no control-plane address"))
	}
	if len(c.Endpoints) == 0 {
		errs = append(errs, errors.New("no endpoint that clients reach the agent at"))
	}
	if c.Handler == nil {
		errs = append(errs, errors.New("no handler"))
	}
	if c.StreamTimeout < reportInterval {
		errs = append(errs, errors.New("stream timeout is below 1 s"))
	}
	return errors.Join(errs...)
}
