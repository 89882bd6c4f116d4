package agent

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/freshet-io/freshet/agent/kafka"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/internal/zonename"
)

// addresses are where an agent listens for Kafka clients, and where its clients connect to.
type addresses struct {
	listen []Listen
	told   []Address // by port; of a shared listener, the load balancer of the agent's zone
	shared kafka.SharedListeners
}

// addresses returns the addresses that the flags name, or the first fault in them.
func (c *Config) addresses() (a addresses, err error) {
	if a.listen, err = ParseListen(c.Listen); err != nil {
		return a, err
	}
	if a.shared, err = parseShared(c.SharedAdvertise, a.listen); err != nil {
		return a, err
	}
	if a.told, err = Advertised(c.Advertise, a.listen, placeOf(c)); err != nil {
		return a, err
	}
	for _, spec := range c.Advertise {
		if name, _ := splitName(spec); a.isShared(name) {
			return a, fmt.Errorf("--advertise %q is for listener %q, which is in --shared-advertise: remove it from one of them", spec, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.shared)) {
		own, ok := a.shared[name].Zones[c.Zone]
		if !ok {
			return a, fmt.Errorf("--shared-advertise has no address of listener %q for --zone %q: add %s", name, c.Zone,
				sharedExample(name, c.Zone, len(a.shared[name].Ports)))
		}
		for i, port := range a.shared[name].Ports {
			a.told[port] = Address(own[i])
		}
	}
	return a, nil
}

func (a *addresses) isShared(listener string) bool {
	_, ok := a.shared[listener]
	return ok
}

// sharedExample returns the form of a zone's entry.
func sharedExample(listener, zone string, ports int) string {
	name := listener
	if zone != "" {
		name += "/" + zone
	}
	if ports == 1 {
		return name + "=HOST:PORT"
	}
	return fmt.Sprintf("%s=HOST:FIRST-LAST with %d ports", name, ports)
}

// parseShared reads the entries [listener]/[zone]=host:port, or host:first-last. Several entries of a zone add up. A listener has
// as many addresses in each zone as it has ports.
func parseShared(specs []string, listen []Listen) (kafka.SharedListeners, error) {
	shared := make(kafka.SharedListeners)
	for _, spec := range specs {
		listener, zone, ports, err := parseSharedEntry(spec)
		if err != nil {
			return nil, fmt.Errorf("--shared-advertise %q: %w", spec, err)
		}
		l, ok := shared[listener]
		if !ok {
			l = kafka.SharedListener{Zones: make(map[string][]view.Endpoint), Ports: portsOf(listener, listen)}
		}
		if len(l.Ports) == 0 {
			return nil, fmt.Errorf("--shared-advertise %q: there is no listener %q: add it to --kafka-listen", spec, listener)
		}
		l.Zones[zone] = append(l.Zones[zone], ports...)
		shared[listener] = l
	}
	return shared, checkShared(shared)
}

// portsOf returns the indexes of a listener's ports.
func portsOf(listener string, listen []Listen) (ports []int) {
	for i, l := range listen {
		if l.Name == listener {
			ports = append(ports, i)
		}
	}
	return ports
}

func parseSharedEntry(spec string) (listener, zone string, ports []view.Endpoint, err error) {
	name, address, named := strings.Cut(spec, "=")
	if !named {
		name, address = "", spec
	}
	listener, zone, _ = strings.Cut(name, "/")
	if zone, err = zonename.Parse(zone); err != nil {
		return "", "", nil, err
	}
	host, first, last, err := splitPorts(address)
	switch ip := net.ParseIP(host); {
	case err != nil:
		return "", "", nil, fmt.Errorf("%w, such as external/eu-1a=lb-a.example.com:9192-9195", err)
	case host == "" || first == 0:
		return "", "", nil, errors.New("want host:port or host:first-last, such as external/eu-1a=lb-a.example.com:9192-9195")
	case strings.ContainsAny(host, "{}"):
		return "", "", nil, errors.New("nothing is filled in here: write the addresses of all zones, the same on all agents")
	case ip != nil && ip.IsUnspecified():
		return "", "", nil, errors.New("clients cannot connect to this address: set it to the load balancer's")
	case last-first >= maxListeners:
		return "", "", nil, fmt.Errorf("more than %d ports", maxListeners)
	}
	for port := first; port <= last; port++ {
		ports = append(ports, view.Endpoint{Listener: listener, Host: host, Port: int32(port)})
	}
	return listener, zone, ports, nil
}

// checkShared refuses a zone with too few or too many addresses, and two nodes of a listener at one address: librdkafka before 2.10
// takes them for one node.
func checkShared(shared kafka.SharedListeners) error {
	var faults []error
	for name, l := range shared {
		seen := make(map[view.Endpoint]bool)
		for _, zone := range slices.Sorted(maps.Keys(l.Zones)) {
			if got, want := len(l.Zones[zone]), len(l.Ports); got != want {
				faults = append(faults, fmt.Errorf("--shared-advertise has %d ports of listener %q for zone %q and --kafka-listen has %d: give %s",
					got, name, zone, want, sharedExample(name, zone, want)))
			}
			for _, at := range l.Zones[zone] {
				if seen[at] {
					faults = append(faults, fmt.Errorf("--shared-advertise has %s:%d of listener %q twice: give each zone and port an address of its own",
						at.Host, at.Port, name))
				}
				seen[at] = true
			}
		}
	}
	slices.SortFunc(faults, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}
