package agent

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/freshet-io/freshet/internal/advertise"
)

// maxListeners bounds the ports of one agent: each is a broker of its own to clients.
const maxListeners = 64

// Listen is one port that Kafka clients reach.
type Listen struct {
	Name    string // of the listener that it belongs to; "" is the default one
	Address string // host:port; an empty host is every address
}

// Address is where clients of one listener are told to connect to.
type Address struct {
	Listener string
	Host     string
	Port     int32 // 0: the port listened on
}

// HostPort returns the address as clients take it.
func (a Address) HostPort() string { return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))) }

// String returns host:port, with the listener's name in front if it has one.
func (a Address) String() string {
	if a.Listener == "" {
		return a.HostPort()
	}
	return a.Listener + "=" + a.HostPort()
}

// ParseListen reads where to listen: [name=]host:port, or [name=]host:first-last for several ports. It gives one Listen
// per port. Clients see the addresses of the listener that they reached, and no other.
func ParseListen(specs []string) ([]Listen, error) {
	var ports []Listen
	var faults []error
	for _, spec := range specs {
		name, address := splitName(spec)
		host, first, last, err := splitPorts(address)
		if err != nil {
			faults = append(faults, fmt.Errorf("listen address %q: %w", spec, err))
			continue
		}
		for port := first; port <= last && len(ports) <= maxListeners; port++ {
			ports = append(ports, Listen{name, net.JoinHostPort(host, strconv.Itoa(port))})
		}
	}
	switch {
	case len(faults) > 0:
	case len(ports) == 0:
		faults = append(faults, errors.New("no address to listen on"))
	case len(ports) > maxListeners:
		faults = append(faults, fmt.Errorf("more than %d ports to listen on", maxListeners))
	}
	return ports, errors.Join(faults...)
}

// splitName takes the listener's name off a specification.
func splitName(spec string) (name, rest string) {
	if name, rest, ok := strings.Cut(spec, "="); ok {
		return name, rest
	}
	return "", spec
}

func splitPorts(spec string) (host string, first, last int, err error) {
	host, ports, err := net.SplitHostPort(spec)
	if err != nil {
		return "", 0, 0, errors.New("want host:port or host:first-last")
	}
	from, to, ranged := strings.Cut(ports, "-")
	if !ranged {
		to = from
	}
	low, err := strconv.ParseUint(from, 10, 16)
	if err != nil {
		return "", 0, 0, fmt.Errorf("port %q is not a number up to 65535", from)
	}
	high, err := strconv.ParseUint(to, 10, 16)
	if err != nil || high < low || ranged && low == 0 {
		return "", 0, 0, fmt.Errorf("ports %q are no range", ports)
	}
	return host, int(low), int(high), nil
}

// Advertised gives what clients are told for each port. specs are, for each listener ([name=] in front), nothing, one
// host for all of its ports, or one host:port for each; {zone}, {hostname} and {ip} are filled in.
func Advertised(specs []string, listen []Listen, place advertise.Place) ([]Address, error) {
	told := make([]Address, len(listen))
	ports := make(map[string][]int) // by listener: indexes of listen
	for i, l := range listen {
		ports[l.Name] = append(ports[l.Name], i)
	}
	given := make(map[string][]string)
	for _, spec := range specs {
		filled, err := place.Fill(spec)
		if err != nil {
			return nil, err
		}
		name, address := splitName(filled)
		if ports[name] == nil {
			return nil, fmt.Errorf("advertised address %q: there is no listener %q", spec, name)
		}
		given[name] = append(given[name], address)
	}
	for name, indexes := range ports {
		for k, i := range indexes {
			address, err := advertisedAt(given[name], k, len(indexes), listen[i].Address, place.Hostname)
			if err != nil {
				return nil, err
			}
			address.Listener = name
			told[i] = address
		}
	}
	return told, checkAdvertised(told)
}

// checkAdvertised refuses addresses that clients cannot connect to, as kafka.server.KafkaConfig does, and two ports of a
// listener with one address: clients take each for a broker of its own.
func checkAdvertised(told []Address) error {
	seen := make(map[Address]bool, len(told))
	for _, a := range told {
		if advertise.Unspecified(a.Host) {
			return fmt.Errorf("--advertise %s is an address that nobody can connect to: set it to a name or address of this machine that clients reach", a)
		}
		if seen[a] {
			return fmt.Errorf("--advertise %s is told for two ports of --kafka-listen: give each port an address of its own", a)
		}
		seen[a] = a.Port != 0 // 0: not known before it listens
	}
	return nil
}

// isHost reports whether an advertised address has no port: a name, or an IP address.
func isHost(spec string) bool {
	_, err := netip.ParseAddr(strings.Trim(spec, "[]"))
	return err == nil || !strings.Contains(spec, ":")
}

// advertisedAt gives what is told for the k-th of n ports of a listener.
func advertisedAt(specs []string, k, n int, listen, fallback string) (Address, error) {
	host, port, err := splitAddress(listen)
	if err != nil {
		return Address{}, err
	}
	switch {
	case len(specs) == 0:
		if advertise.Unspecified(host) {
			host = fallback
		}
		return Address{Host: host, Port: port}, nil
	case len(specs) == 1 && isHost(specs[0]):
		return Address{Host: strings.Trim(specs[0], "[]"), Port: port}, nil
	case len(specs) == n:
		host, port, err := splitAddress(specs[k])
		if err != nil || host == "" || port == 0 {
			return Address{}, fmt.Errorf("advertised address %q: want host:port", specs[k])
		}
		return Address{Host: host, Port: port}, nil
	default:
		return Address{}, fmt.Errorf("%d advertised addresses for %d ports: want one host, or host:port for each", len(specs), n)
	}
}

func splitAddress(address string) (host string, port int32, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: %w", address, err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: port is not a number up to 65535", address)
	}
	return host, int32(n), nil
}

// placeOf is where the agent runs.
func placeOf(c *Config) advertise.Place { return advertise.Here(c.Zone, c.PodIP) }
