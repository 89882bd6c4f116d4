package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/internal/zonename"
)

// zoneTokens are the client-id tokens that name a client's zone, those of other systems among them, so that a client
// set up for one of these needs no change. Earlier ones win.
var zoneTokens = []string{"zone", "freshet_zone", "ws_az", "warpstream_az", "automq_az", "diskless_az"}

// Zones maps clients to zones. The zero value knows no zone.
type Zones struct {
	own       string
	networks  []network // longest prefixes first
	listeners map[string]string
}

type network struct {
	prefix netip.Prefix
	zone   string
}

// NewZones returns the zones of an agent in zone own. networks are entries prefix=zone (10.0.1.0/24=eu-1a), and listeners are entries
// listener=zone, for a listener that only clients of the zone use. Both must be the same on all agents. The error joins all faults.
func NewZones(own string, networks, listeners []string) (*Zones, error) {
	var faults []error
	own, err := zonename.Parse(own)
	if err != nil {
		faults = append(faults, err)
	}
	z := &Zones{own: own, listeners: make(map[string]string)}
	for _, entry := range networks {
		text, zone, zoneErr := cutZone(entry)
		prefix, err := netip.ParsePrefix(text)
		if err := errors.Join(zoneErr, err); err != nil {
			faults = append(faults, fmt.Errorf("client network %q: want prefix=zone, as 10.0.1.0/24=eu-1a: %w", entry, err))
			continue
		}
		z.networks = append(z.networks, network{prefix.Masked(), zone})
	}
	for _, entry := range listeners {
		name, zone, err := cutZone(entry)
		if err != nil {
			faults = append(faults, fmt.Errorf("listener's zone %q: want listener=zone: %w", entry, err))
			continue
		}
		z.listeners[name] = zone
	}
	slices.SortStableFunc(z.networks, func(a, b network) int { return cmp.Compare(b.prefix.Bits(), a.prefix.Bits()) })
	return z, errors.Join(faults...)
}

// cutZone splits an entry name=zone. White space around either is no part of it.
func cutZone(entry string) (name, zone string, err error) {
	name, zone, _ = strings.Cut(entry, "=")
	if zone, err = zonename.Parse(zone); err == nil && zone == "" {
		err = errors.New("no zone")
	}
	return strings.TrimSpace(name), zone, err
}

// Of returns a client's zone: the zone in its client ID, else the zone of its network, else the zone of the listener that the
// client came by, else the agent's own. named reports whether the zone is from one of the first three, and so is the same at every
// agent that Metadata shows to the client: it shows agents at their listeners of the same name only.
func (z *Zones) Of(req *edge.Request) (zone string, named bool) {
	if zone, named = tokenZone(req.ClientID); named {
		return zone, true
	}
	if len(z.networks) > 0 {
		if zone, named = z.networkZone(req.Client.Host); named {
			return zone, true
		}
	}
	if zone, bound := z.listeners[req.Client.Listener]; bound {
		return zone, true
	}
	return z.own, false
}

func (z *Zones) networkZone(host string) (zone string, found bool) {
	address, err := netip.ParseAddr(host)
	if err != nil {
		return "", false
	}
	address = address.Unmap().WithZone("")
	for _, n := range z.networks {
		if n.prefix.Contains(address) {
			return n.zone, true
		}
	}
	return "", false
}

// maxZoneID is how many bytes of a client id are searched for a zone: ids are up to 32 KiB, and each request's is searched.
const maxZoneID = 512

// tokenZone returns the zone that a client id names in its first maxZoneID bytes by one of the zoneTokens, as token=zone standing
// alone between commas, semicolons, ampersands or white space.
func tokenZone(clientID string) (zone string, named bool) {
	clientID = clientID[:min(len(clientID), maxZoneID)]
	if !strings.Contains(clientID, "=") {
		return "", false
	}
	parts := strings.FieldsFunc(clientID, func(r rune) bool { return strings.ContainsRune(",;&", r) || unicode.IsSpace(r) })
	for _, token := range zoneTokens {
		for _, part := range parts {
			if name, zone, ok := strings.Cut(part, "="); ok && zone != "" && name == token {
				return zone, true
			}
		}
	}
	return "", false
}
