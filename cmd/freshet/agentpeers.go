package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
)

const (
	peerListenAuto    = "auto" // peerListenDefault where there is a zone, else none
	peerListenNone    = "none"
	peerListenDefault = ":7070"
)

// bindPeers adds the flags of how agents of a zone share their caches.
func bindPeers(f *pflag.FlagSet, s *agentSettings) {
	s.Peers.Listen = peerListenAuto
	f.StringVar(&s.Peers.Listen, "peer-listen", s.Peers.Listen, "address at which the other agents of the zone ask for bytes in memory, "+
		"so that each object is read once in a zone; auto: "+peerListenDefault+" if --zone is given; none: share nothing")
	f.StringVar(&s.Peers.Advertise, "peer-advertise", s.Peers.Advertise, "host or host:port that the other agents of the zone are told; {zone}, {hostname} and {ip} are "+
		"filled in; if not given, the host listened on, or this machine's IP address, with TLS its name")
	f.StringVar(&s.peerTLS.Cert, "peer-tls-cert", "", "PEM file or text of the certificate for other agents, shown when asking too; turns TLS on between agents, for all of a zone or none")
	f.StringVar(&s.peerTLS.Key, "peer-tls-key", "", "PEM file or text of the key of --peer-tls-cert")
	f.StringVar(&s.peerTLS.CA, "peer-tls-ca", "", "PEM file or text of certificates that other agents' certificates must be signed by; if not given, the system's, and they need show none to ask")
}

// completePeers turns words and files into what the agent takes.
func (s *agentSettings) completePeers(log *zap.Logger) (err error) {
	switch {
	case s.Peers.Listen == peerListenNone, s.Peers.Listen == peerListenAuto && s.Zone == "":
		s.Peers.Listen = ""
	case s.Peers.Listen == peerListenAuto:
		s.Peers.Listen = peerListenDefault
	}
	if s.Peers.ServerTLS, err = s.peerTLS.Server(log); err != nil {
		return fmt.Errorf("TLS between agents: %w", err)
	}
	if s.Peers.ClientTLS, err = s.peerTLS.Client(false, log); err != nil {
		return fmt.Errorf("TLS between agents: %w", err)
	}
	return nil
}
