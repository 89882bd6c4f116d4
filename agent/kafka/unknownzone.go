package kafka

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/internal/assign"
)

const (
	// unknownZonePeriod is how long a client ID of unknown zone is counted after it was logged. Then it is logged again.
	unknownZonePeriod = 24 * time.Hour
	// maxUnknownZone bounds the client IDs of unknown zone that are remembered. Beyond it, no client ID is counted or logged.
	maxUnknownZone = 1000
)

// unknownZones counts and logs the client IDs of clients of unknown zone while the cluster has several zones. Metadata shows such a
// client one zone's agents only, so a client that never asks bootstrap.servers again stops if that zone loses all agents.
type unknownZones struct {
	zones *Zones
	log   *zap.Logger
	met   *recent // client IDs
}

func newUnknownZones(zones *Zones, log *zap.Logger, r prometheus.Registerer) *unknownZones {
	u := &unknownZones{zones: zones, log: log, met: newRecent(unknownZonePeriod, maxUnknownZone)}
	promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "freshet_kafka_clients_of_unknown_zone",
		Help: "Client IDs of unknown zone within a day, up to 1000, while the cluster has several zones. If their agents' zone is lost, some never recover.",
	}, func() float64 { return float64(u.met.len(time.Now())) })
	return u
}

// meet counts and logs the client of a Metadata request, if its zone is unknown and the cluster has several zones.
func (u *unknownZones) meet(s *view.Snapshot, req *edge.Request) {
	if _, named := u.zones.Of(req); named || !severalZones(s) || !u.met.allow(req.ClientID, time.Now()) {
		return
	}
	u.log.Warn("zone of client is unknown, so the client may stop for good if this zone loses all agents: bootstrap from the port of the client's zone "+
		"(--zone-listeners), or name the zone in the client ID",
		zap.String("client_id", req.ClientID[:min(len(req.ClientID), maxZoneID)]), zap.String("host", req.Client.Host),
		zap.Strings("bootstrap", u.bootstrap(s)))
}

// severalZones reports whether a cluster has agents in several zones, or had within a day.
func severalZones(s *view.Snapshot) bool {
	zone := ""
	for _, members := range [][]*view.Member{s.Shown(), s.Gone} {
		for _, m := range members {
			if zone != "" && m.Zone != "" && m.Zone != zone {
				return true
			}
			zone = cmp.Or(zone, m.Zone)
		}
	}
	return false
}

// bootstrap returns an address of each listener that is bound to a zone, as zone=host:port. It is an agent of that zone if there is one.
func (u *unknownZones) bootstrap(s *view.Snapshot) (addresses []string) {
	for listener, zone := range u.zones.listeners {
		var found assign.Node
		for _, m := range s.Shown() {
			if nodes := nodesOf(m, listener); len(nodes) > 0 && (found.Host == "" || m.Zone == zone && found.Zone != zone) {
				found = nodes[0]
			}
		}
		if found.Host != "" {
			addresses = append(addresses, zone+"="+net.JoinHostPort(found.Host, strconv.Itoa(int(found.Port))))
		}
	}
	slices.SortFunc(addresses, strings.Compare)
	return addresses
}
