package edge

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Defaults of Config.
const (
	DefaultMaxRequestBytes = 100 << 20 // Kafka's socket.request.max.bytes
	DefaultProduceMemory   = 256 << 20
	DefaultOtherMemory     = 64 << 20
	DefaultMaxConnections  = 20_000
	DefaultMaxPipelined    = 256
	DefaultIdleTimeout     = 10 * time.Minute // Kafka's connections.max.idle.ms
	DefaultWriteTimeout    = time.Minute
	DefaultDrainTimeout    = 5 * time.Second
)

// Memory of a connection without TLS, beside the kernel's, before its first request (measured: 7 KB) and idle after it
// (measured: 15 to 16 KB).
const (
	SilentConnectionBytes = 8 << 10
	IdleConnectionBytes   = 16 << 10
)

// Listener is one port that clients reach the agent at.
type Listener struct {
	Name      string       // as in advertised listeners; a label of metrics
	Address   string       // host:port to listen on; not used if Socket is set
	Socket    net.Listener // already listening; closed by the Server
	TLS       *tls.Config  // nil: plaintext
	PortIndex int          // Client.PortIndex
}

// Config is what a Server is made of. Zero values get the defaults above.
type Config struct {
	Listeners []Listener
	Handler   Handler

	// MaxRequestBytes is the largest frame taken; a larger one closes the connection.
	MaxRequestBytes int32
	// ProduceMemory bounds the bytes held in Produce frames, OtherMemory those of all other frames, over all
	// connections. A frame that does not fit waits; one larger than the bound waits until nothing else is held.
	ProduceMemory, OtherMemory int64
	// MaxConnections bounds the open connections. At the bound a new connection replaces one without a request in progress, in the
	// order of package connlimit.
	MaxConnections int
	// MaxConnectionsPerIP bounds the open connections of an address, as Kafka's max.connections.per.ip does. 0 means no limit.
	MaxConnectionsPerIP int
	// MaxPipelined bounds the unanswered requests of one connection. The connection is not read from beyond that.
	MaxPipelined int
	// IdleTimeout closes a connection without requests.
	IdleTimeout time.Duration
	// Abroad reports whether a client belongs at another zone's agents. Its connections are closed after abroadIdle without requests, and
	// ever more rarely if the client reconnects, down to once in maxAbroadPause. It must not block. Nil: none does.
	Abroad func(client *Client, clientID string) bool
	// WriteTimeout closes a connection that takes less than writeChunk of its answer in that time.
	WriteTimeout time.Duration
	// DrainTimeout bounds how long Run goes on answering after its context ended.
	DrainTimeout time.Duration

	Log        *zap.Logger
	Registerer prometheus.Registerer // nil: a private registry
}

// ApplyDefaults sets what is zero to its default.
func (c *Config) ApplyDefaults() {
	c.MaxRequestBytes = cmp.Or(c.MaxRequestBytes, DefaultMaxRequestBytes)
	c.ProduceMemory = cmp.Or(c.ProduceMemory, DefaultProduceMemory)
	c.OtherMemory = cmp.Or(c.OtherMemory, DefaultOtherMemory)
	c.MaxConnections = cmp.Or(c.MaxConnections, DefaultMaxConnections)
	c.MaxPipelined = cmp.Or(c.MaxPipelined, DefaultMaxPipelined)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultIdleTimeout)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, DefaultWriteTimeout)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, DefaultDrainTimeout)
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}

// Validate reports every fault of the configuration, after ApplyDefaults.
func (c *Config) Validate() error {
	var errs []error
	if len(c.Listeners) == 0 {
		errs = append(errs, errors.New("no listeners"))
	}
	for i, l := range c.Listeners {
		if l.Address == "" && l.Socket == nil {
			errs = append(errs, fmt.Errorf("listener %d (%s): no address", i, l.Name))
		}
	}
	if c.Handler == nil {
		errs = append(errs, errors.New("no handler"))
	}
	return errors.Join(errs...)
}
