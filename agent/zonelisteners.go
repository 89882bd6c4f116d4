package agent

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet-io/freshet/internal/advertise"
	"github.com/freshet-io/freshet/internal/zonename"
	"github.com/freshet-io/freshet/metadata/id"
)

// portsPerZone is the number of ports of a zone's listener. It is the number of ports that Listen has by default.
const portsPerZone = 4

// zoneListeners is a parsed Config.ZoneListeners.
type zoneListeners struct {
	host  string // "" is every address
	first int    // port
	zones []string
}

// ExpandZoneListeners adds one listener per zone of ZoneListeners, once: entries of Listen, Advertise and ListenerZones. The listener has
// the zone's name, so all agents bind it to the same zone. It advertises the host that the default listener advertises, unless it
// has an address of its own in Advertise or SharedAdvertise. The error joins all faults, and leaves the configuration as it was.
func (c *Config) ExpandZoneListeners() error {
	if c.ZoneListeners == "" || c.zoneListeners != nil {
		return nil
	}
	fault := func(err error) error { return fmt.Errorf("--zone-listeners %q: %w", c.ZoneListeners, err) }
	z, err := parseZoneListeners(c.ZoneListeners)
	if err != nil {
		return fault(err)
	}
	if err := errors.Join(z.checkZones(strings.TrimSpace(c.Zone)), z.checkOthers(c)); err != nil {
		return fault(err)
	}
	told, err := z.advertise(c)
	if err != nil {
		return fault(err)
	}
	listen, bound := slices.Clone(c.Listen), slices.Clone(c.ListenerZones)
	for i, zone := range z.zones {
		listen = append(listen, zone+"="+z.address(i))
		bound = append(bound, zone+"="+zone)
	}
	if _, err := ParseListen(listen); err != nil {
		return fault(err)
	}
	c.Listen, c.ListenerZones, c.Advertise, c.zoneListeners = listen, bound, told, z.zones
	return nil
}

// parseZoneListeners reads [host:]port=zone,zone,...
func parseZoneListeners(spec string) (z zoneListeners, err error) {
	address, zones, ok := strings.Cut(spec, "=")
	if !ok {
		return z, errors.New("want [host:]port=zone,zone,..., such as 9292=eu-1a,eu-1b,eu-1c")
	}
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	host, first, last, err := splitPorts(strings.TrimSpace(address))
	if err != nil || first == 0 || first != last {
		return z, fmt.Errorf("%q is no [host:]port: write the first port, such as 9292=%s", strings.TrimPrefix(address, ":"), zones)
	}
	z.host, z.first = host, first
	for zone := range strings.SplitSeq(zones, ",") {
		if zone, err = zonename.Parse(zone); err != nil {
			return z, err
		}
		z.zones = append(z.zones, zone)
	}
	if last := z.first + portsPerZone*len(z.zones) - 1; last > 65535 {
		return z, fmt.Errorf("%d zones with %d ports each need ports up to %d, above 65535: choose a lower first port", len(z.zones), portsPerZone, last)
	}
	return z, nil
}

// address returns the ports of the i-th zone, as Listen has them.
func (z *zoneListeners) address(i int) string {
	first := z.first + portsPerZone*i
	return net.JoinHostPort(z.host, fmt.Sprintf("%d-%d", first, first+portsPerZone-1))
}

// checkZones returns the faults in the names of the zones. own is the agent's zone.
func (z *zoneListeners) checkZones(own string) error {
	var faults []error
	for i, zone := range z.zones {
		switch {
		case slices.Contains(z.zones[:i], zone):
			faults = append(faults, fmt.Errorf("zone %q is there twice: remove one", zone))
		case !id.ValidVirtualCluster(zone): // the names of listeners and of virtual clusters follow one rule
			faults = append(faults, fmt.Errorf("zone %q cannot name a listener, which takes 1 to %d of a-z A-Z 0-9 . _ -: use --kafka-listen, --advertise and --listener-zones",
				zone, id.MaxVirtualClusterName))
		}
	}
	switch {
	case own == "":
		faults = append(faults, errors.New("the agent has no zone: set --zone"))
	case !slices.Contains(z.zones, own):
		faults = append(faults, fmt.Errorf("the agent's own zone %q is not there: add it at the end, at all agents", own))
	}
	return errors.Join(faults...)
}

// checkOthers returns the names and ports that other listeners have too. Validate reports faults within those listeners.
func (z *zoneListeners) checkOthers(c *Config) error {
	var faults []error
	for _, spec := range c.ListenerZones {
		if name, _, _ := strings.Cut(spec, "="); slices.Contains(z.zones, strings.TrimSpace(name)) {
			faults = append(faults, fmt.Errorf("--listener-zones %q binds the same listener: remove it", spec))
		}
	}
	for _, spec := range c.Listen {
		name, at := splitName(spec)
		if name != "" && slices.Contains(z.zones, name) {
			faults = append(faults, fmt.Errorf("--kafka-listen %q has the name of a zone: rename that listener", spec))
		}
		host, first, last, err := splitPorts(at)
		if err != nil || last == 0 || host != z.host && !advertise.Unspecified(host) && !advertise.Unspecified(z.host) {
			continue
		}
		for i, zone := range z.zones {
			if from := z.first + portsPerZone*i; from <= last && first < from+portsPerZone {
				faults = append(faults, fmt.Errorf("ports %d-%d of zone %q overlap --kafka-listen %q: choose another first port",
					from, from+portsPerZone-1, zone, spec))
			}
		}
	}
	return errors.Join(faults...)
}

// advertise returns Advertise with an entry for each zone's listener that has none of its own, if the default listener has one.
func (z *zoneListeners) advertise(c *Config) ([]string, error) {
	var inherited []string
	given := make(map[string]bool)
	for _, spec := range c.Advertise {
		name, address := splitName(spec)
		if given[name] = true; name == "" {
			inherited = append(inherited, address)
		}
	}
	for _, spec := range c.SharedAdvertise {
		name, _ := splitName(spec)
		listener, _, _ := strings.Cut(name, "/")
		given[listener] = true
	}
	told := slices.Clone(c.Advertise)
	for _, zone := range z.zones {
		switch {
		case given[zone] || len(inherited) == 0:
		case len(inherited) == 1 && isHost(inherited[0]):
			told = append(told, zone+"="+inherited[0])
		default:
			return nil, fmt.Errorf("--advertise %s has ports of the default listener, which the listener of zone %q does not have: add --advertise %s=HOST",
				strconv.Quote(inherited[0]), zone, zone)
		}
	}
	return told, nil
}
