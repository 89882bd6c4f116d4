package peer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/metadata/id"
)

// Config is what a Zone is made of. Zero values mean the defaults.
type Config struct {
	Zone   string // this agent's
	Secret *Secret
	TLS    *tls.Config
	// Catalogue gives the membership, and which of its agents this one is.
	Catalogue Catalogue
	// Dial replaces the network, in tests.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Requests bounds those under way, half as many more of catch-up reads; further ones read the object store.
	// Default 128.
	Requests int
	// DialTimeout bounds connecting. Default 250 ms.
	DialTimeout time.Duration
	// SilenceTimeout bounds the wait for an answer's headers, which a healthy agent sends at once. Default 500 ms.
	SilenceTimeout time.Duration
	// UnitTimeout bounds the wait for a unit, which the other agent may have to read from the object store. Default 2 s.
	UnitTimeout time.Duration
	// StallTimeout bounds the wait for each next piece of a unit. Default 1 s. All of them together may take UnitTimeout
	// and a second for each 2 MiB.
	StallTimeout time.Duration
	// LeaveOut is how long an agent that failed is not asked; then one request every SilenceTimeout tries whether it
	// answers again, before all others do. Default 5 s.
	LeaveOut   time.Duration
	Log        *zap.Logger
	Registerer prometheus.Registerer // nil: a private registry
}

// Catalogue is what is known of the cluster: view.Catalogue implements it.
type Catalogue interface{ Load() *view.Snapshot }

// ApplyDefaults fills in what is zero.
func (c *Config) ApplyDefaults() {
	c.Requests = cmp.Or(c.Requests, 128)
	c.DialTimeout = cmp.Or(c.DialTimeout, 250*time.Millisecond)
	c.SilenceTimeout = cmp.Or(c.SilenceTimeout, 500*time.Millisecond)
	c.UnitTimeout = cmp.Or(c.UnitTimeout, 2*time.Second)
	c.StallTimeout = cmp.Or(c.StallTimeout, time.Second)
	c.LeaveOut = cmp.Or(c.LeaveOut, 5*time.Second)
	c.Zone = strings.TrimSpace(c.Zone)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: c.DialTimeout, KeepAlive: 15 * time.Second}).DialContext
	}
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}

// Validate returns an error if a required field is not set.
func (c *Config) Validate() error {
	if c.Catalogue == nil || c.Secret == nil {
		return errors.New("catalogue and secret are needed")
	}
	return nil
}

// Zone is the other agents of this agent's zone. It implements cache.Zone. Methods are safe for concurrent use.
type Zone struct {
	cfg      Config
	metrics  *zoneMetrics
	client   *http.Client
	requests byClass

	mu struct {
		sync.Mutex
		directory *directory
		out       map[id.Session]time.Time // agents left out, until when nobody tries
		// evicted has, for each writer, its newest bundle that was evicted from its memory. This agent asks that writer for
		// no older bundle, because memory is evicted in about the order of writing. Pending bundles do not count.
		evicted map[id.Session]uint32
	}
}

// New checks the configuration and makes a Zone. It connects to nobody yet.
func New(cfg Config) (*Zone, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("peer zone: %w", err)
	}
	z := &Zone{cfg: cfg, requests: newByClass(int64(cfg.Requests))}
	z.metrics = newZoneMetrics(cfg.Registerer, func() float64 { return float64(z.leftOut()) })
	z.client = &http.Client{Transport: &http.Transport{
		DialContext: cfg.Dial, TLSClientConfig: cfg.TLS, TLSHandshakeTimeout: cfg.SilenceTimeout,
		DisableCompression: true, MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdlePerAgent, IdleConnTimeout: idleTimeout,
		ResponseHeaderTimeout: cfg.SilenceTimeout, MaxResponseHeaderBytes: maxHeaderBytes, ReadBufferSize: readBuffer,
	}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	z.mu.out = make(map[id.Session]time.Time)
	z.mu.evicted = make(map[id.Session]uint32)
	return z, nil
}

const (
	// maxIdlePerAgent and maxIdle bound the idle connections to one agent and to all. Config.Requests bounds those in use.
	maxIdlePerAgent = 4
	maxIdle         = 256
	readBuffer      = 32 << 10
)

// Close lets the connections go. Requests under way end with their contexts.
func (z *Zone) Close() { z.client.CloseIdleConnections() }

// Unfit implements cache.Zone.
func (z *Zone) Unfit(why cache.Unfit) {
	reason := unfitIncomplete
	if why == cache.UnfitCorrupt {
		reason = unfitCorrupt
	}
	z.metrics.fallbacks.WithLabelValues(reason).Inc()
}

// Fetch implements cache.Zone: first the writer's memory, then each unit's owner. Without a secret, no agent is asked.
func (z *Zone) Fetch(ctx context.Context, a cache.Ask, take func(int, cache.Incoming) error, leave func([]int)) {
	rest := make([]int, len(a.Units))
	for i := range rest {
		rest[i] = i
	}
	if len(z.cfg.Secret.valid()) == 0 {
		leave(rest)
		return
	}
	d := z.current()
	var asked id.Session // for all that it can give
	reason := ""
	if writer, ok := z.writer(d, &a); ok {
		owns := !slices.ContainsFunc(a.Units, func(u cache.Unit) bool { return z.owner(d, a.Bundle, u) != writer.session })
		if rest, reason = z.ask(ctx, writer, ask{Ask: &a, units: rest, read: owns}, take); len(rest) == 0 {
			return
		}
		if owns {
			asked = writer.session
		}
	}
	var all sync.WaitGroup
	for session, units := range z.byOwner(d, &a, rest) {
		p, ok := d.peers[session]
		if !ok { // this agent
			leave(units)
			continue
		}
		if session == asked {
			z.fallBack(units, reason, leave)
			continue
		}
		all.Go(func() {
			rest, reason := z.ask(ctx, p, ask{Ask: &a, units: units, read: true}, take)
			z.next(ctx, d, &a, rest, missing{session, reason}, take, leave)
		})
	}
	all.Wait()
}

// missing is why units are missing.
type missing struct {
	of     id.Session // who did not give them
	reason string
}

// next asks those who own units now that an owner has been left out, once: they are the same for all agents of the zone,
// which else would make a GET each.
func (z *Zone) next(
	ctx context.Context, d *directory, a *cache.Ask, units []int, why missing, take func(int, cache.Incoming) error, leave func([]int),
) {
	if len(units) == 0 {
		return
	}
	for session, units := range z.byOwner(d, a, units) {
		p, other := d.peers[session]
		if !other || session == why.of { // this agent; or it is not left out, and has said that it cannot
			z.fallBack(units, why.reason, leave)
			continue
		}
		rest, reason := z.ask(ctx, p, ask{Ask: a, units: units, read: true}, take)
		z.fallBack(rest, reason, leave)
	}
}

// fallBack leaves what another agent did not give.
func (z *Zone) fallBack(units []int, reason string, leave func([]int)) {
	if len(units) == 0 {
		return
	}
	if reason != askedUnwanted {
		z.metrics.fallbacks.WithLabelValues(reason).Add(float64(len(units)))
	}
	leave(units)
}

// byOwner groups units, by their index, by the agent that is to read them for all.
func (z *Zone) byOwner(d *directory, a *cache.Ask, units []int) map[id.Session][]int {
	groups := make(map[id.Session][]int, 1)
	for _, i := range units {
		owner := z.toAsk(d, a.Bundle, a.Units[i])
		groups[owner] = append(groups[owner], i)
	}
	return groups
}
