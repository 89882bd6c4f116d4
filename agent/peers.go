package agent

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/peer"
	"github.com/freshet-io/freshet/agent/zonewriter"
	"github.com/freshet-io/freshet/internal/advertise"
	"github.com/freshet-io/freshet/metadata/id"
)

// PeerConfig is how the agents of a zone share their caches.
type PeerConfig struct {
	// Listen is the address, host:port, at which other agents of the zone ask for bytes; "": nowhere, and this agent
	// asks nobody either.
	Listen string
	// Advertise is the host:port that they are told, or a host alone; {zone}, {hostname} and {ip} are filled in. Default:
	// the host of Listen, or where that is every interface this machine's IP address, with TLS its name.
	Advertise string
	// ServerTLS and ClientTLS secure both sides; nil: plaintext.
	ServerTLS, ClientTLS *tls.Config
	// Silence is how long an agent may say nothing on a stream of batches before it is given up. Default 3 s.
	Silence time.Duration
	// OwnerSilence is how long the owner may leave the agent's probes, two a second while it commits, unanswered before other agents are
	// told that this one writes for nobody. Default 1.5 s.
	OwnerSilence time.Duration
	// TurnPatience is how long a turn to another writer of the zone waits for what is under way before it is asked back; see
	// zonewriter.Config. Default 1 s.
	TurnPatience time.Duration
	// Configure changes how other agents are asked, in tests; nil: nothing.
	Configure func(*peer.Config)
}

// advertised is what other agents are told, host:port. port is the one listened on.
func (c *PeerConfig) advertised(port int, place advertise.Place) (string, error) {
	host, own, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", fmt.Errorf("address for peers %q: want host:port", c.Listen)
	}
	if _, err := strconv.ParseUint(own, 10, 16); err != nil {
		return "", fmt.Errorf("address for peers %q: port is not a number up to 65535", c.Listen)
	}
	if advertise.Unspecified(host) {
		host = cmp.Or(place.IP, place.Hostname)
		if c.ServerTLS != nil {
			host = place.Hostname
		}
	}
	told, err := place.Fill(cmp.Or(c.Advertise, host))
	if err != nil {
		return "", fmt.Errorf("address for peers: %w", err)
	}
	if _, _, err := net.SplitHostPort(told); err != nil {
		told = net.JoinHostPort(strings.Trim(told, "[]"), strconv.Itoa(port))
	}
	if host, _, _ := net.SplitHostPort(told); host != "" && advertise.Unspecified(host) {
		return "", fmt.Errorf("--peer-advertise %s is an address that nobody can connect to: set it to a name or address of this machine that other agents reach", told)
	}
	return told, nil
}

func (c *PeerConfig) validate() error {
	if c.Listen == "" {
		if c.Advertise != "" {
			return errors.New("peers: an address advertised, but none to listen on")
		}
		return nil
	}
	_, err := c.advertised(0, advertise.Place{Zone: "zone", Hostname: "host", IP: "192.0.2.1"})
	return err
}

// peersDrainTimeout is for sending other agents what they were promised. They ask no more by then: the agent has left
// the membership.
const peersDrainTimeout = 200 * time.Millisecond

// buildPeers opens the address for other agents. What it serves from is built later, and asked for when it runs.
func (a *Agent) buildPeers(ctx context.Context) (err error) {
	cfg := &a.cfg.Peers
	if cfg.Listen == "" {
		return nil
	}
	asking := peer.Config{
		Zone: a.cfg.Zone, Secret: &a.listeners.secret, TLS: cfg.ClientTLS, Catalogue: a.listeners.catalogue,
		Log: a.log.Named("peers"), Registerer: a.cfg.Registry,
	}
	if cfg.Configure != nil {
		cfg.Configure(&asking)
	}
	if a.zone, err = peer.New(asking); err != nil {
		return err
	}
	if a.peers, err = peer.NewServer(peer.ServerConfig{
		Address: cfg.Listen, Secret: &a.listeners.secret, Zone: a.cfg.Zone, TLS: cfg.ServerTLS, Units: lender{a},
		Upgrades:    map[string]peer.Upgrade{zonewriter.Protocol: func(conn net.Conn, in *bufio.Reader, from id.Session) { a.taker.Serve(conn, in, from) }},
		Cluster:     func() string { return a.listeners.catalogue.Load().ClusterID },
		UnsentBytes: a.budgets.unsent, StopTimeout: peersDrainTimeout, Log: a.log.Named("peers"), Registerer: a.cfg.Registry,
	}); err != nil {
		return err
	}
	if err = a.peers.Listen(ctx); err != nil {
		return err
	}
	a.peerAddress, err = cfg.advertised(a.peers.Addr().(*net.TCPAddr).Port, placeOf(&a.cfg))
	return err
}

// runPeers answers other agents until ctx ends.
func (a *Agent) runPeers(ctx context.Context) error {
	if a.peers == nil {
		<-ctx.Done()
		return nil
	}
	defer a.taker.Close()
	return a.peers.Run(ctx)
}

// closePeers gives back what buildPeers opened.
func (a *Agent) closePeers() {
	if a.peers != nil {
		a.peers.Close()
	}
	if a.zone != nil {
		a.zone.Close()
	}
}

// cacheZone is what the cache asks before the object store; nil where nobody is asked.
func (a *Agent) cacheZone() cache.Zone {
	if a.zone == nil {
		return nil
	}
	return a.zone
}

// lender lends units to other agents: those of bundles that this agent is just handing over are waited for, since they
// may have heard of the commit before the writer has finished.
type lender struct{ *Agent }

// Prepare implements peer.Lender.
func (l lender) Prepare(o *cache.Order) { l.cache.Prepare(o) }

// Lend implements peer.Lender.
func (l lender) Lend(ctx context.Context, o *cache.Order, unit int) (*cache.Loan, error) {
	done, err := l.awaitHandOver(ctx, o.Bundle)
	if err != nil {
		return nil, err
	}
	loan, err := l.cache.Lend(ctx, o, unit)
	if !done && errors.Is(err, cache.ErrAbsent) {
		return nil, fmt.Errorf("bundle %s: %w", o.Bundle, cache.ErrPending)
	}
	return loan, err
}
