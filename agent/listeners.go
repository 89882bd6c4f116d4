package agent

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
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

// String gives host:port, with the listener's name in front if it has one.
func (a Address) String() string {
	address := net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port)))
	if a.Listener == "" {
		return address
	}
	return a.Listener + "=" + address
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

// Place is what is known of where the agent runs, for addresses that depend on it.
type Place struct {
	Zone     string
	Hostname string // told for what listens on every address, if nothing else is said
	IP       string // "" if not known
}

// fill puts the place into a specification: {zone}, {hostname} and {ip}.
func (p Place) fill(spec string) (string, error) {
	out := spec
	for name, value := range map[string]string{"{zone}": p.Zone, "{hostname}": p.Hostname, "{ip}": p.IP} {
		if strings.Contains(out, name) && value == "" {
			return "", fmt.Errorf("advertised address %q: %s is not known here", spec, name)
		}
		out = strings.ReplaceAll(out, name, value)
	}
	if strings.ContainsAny(out, "{}") {
		return "", fmt.Errorf("advertised address %q: {zone}, {hostname} and {ip} are what can be filled in", spec)
	}
	return out, nil
}

// Advertised gives what clients are told for each port. specs are, for each listener ([name=] in front), nothing, one
// host for all of its ports, or one host:port for each; {zone}, {hostname} and {ip} are filled in.
func Advertised(specs []string, listen []Listen, place Place) ([]Address, error) {
	told := make([]Address, len(listen))
	ports := make(map[string][]int) // by listener: indexes of listen
	for i, l := range listen {
		ports[l.Name] = append(ports[l.Name], i)
	}
	given := make(map[string][]string)
	for _, spec := range specs {
		filled, err := place.fill(spec)
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
			address, err := advertise(given[name], k, len(indexes), listen[i].Address, place.Hostname)
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
		if ip := net.ParseIP(a.Host); ip != nil && ip.IsUnspecified() {
			return fmt.Errorf("--advertise %s is an address that nobody can connect to: set it to a name or address of this machine that clients reach", a)
		}
		if seen[a] {
			return fmt.Errorf("--advertise %s is told for two ports of --kafka-listen: give each port an address of its own", a)
		}
		seen[a] = a.Port != 0 // 0: not known before it listens
	}
	return nil
}

// advertise gives what is told for the k-th of n ports of a listener.
func advertise(specs []string, k, n int, listen, fallback string) (Address, error) {
	host, port, err := splitAddress(listen)
	if err != nil {
		return Address{}, err
	}
	switch {
	case len(specs) == 0:
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = fallback
		}
		return Address{Host: host, Port: port}, nil
	case len(specs) == 1 && !strings.Contains(strings.TrimPrefix(specs[0], "["), ":"):
		return Address{Host: specs[0], Port: port}, nil
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

// placeOf finds out where the agent runs. The address is the pod's where that is known, else the first one of this
// machine that others can reach.
func placeOf(c *Config) Place {
	return Place{Zone: c.Zone, Hostname: machine(), IP: cmp.Or(c.PodIP, firstIP())}
}

// machine is the name that clients are told where nothing better is known.
func machine() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

// firstIP is the machine's first global unicast address, IPv4 before IPv6; "" if it has none.
func firstIP() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	first := ""
	for _, a := range addresses {
		n, ok := a.(*net.IPNet)
		switch {
		case !ok || !n.IP.IsGlobalUnicast():
		case n.IP.To4() != nil:
			return n.IP.String()
		case first == "":
			first = n.IP.String()
		}
	}
	return first
}
