package agent

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// maxListeners bounds the ports of one agent: each is a broker of its own to clients.
const maxListeners = 64

// Address is a host and a port that clients are told to connect to.
type Address struct {
	Host string
	Port int32 // 0: the port listened on
}

// String gives host:port.
func (a Address) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(int(a.Port))) }

// ParseListen reads where to listen: host:port, or host:first-last for several ports. An empty host is every address.
// It gives one host:port per port.
func ParseListen(specs []string) ([]string, error) {
	var addresses []string
	var faults []error
	for _, spec := range specs {
		host, first, last, err := splitPorts(spec)
		if err != nil {
			faults = append(faults, fmt.Errorf("listen address %q: %w", spec, err))
			continue
		}
		for port := first; port <= last && len(addresses) <= maxListeners; port++ {
			addresses = append(addresses, net.JoinHostPort(host, strconv.Itoa(port)))
		}
	}
	switch {
	case len(faults) > 0:
	case len(addresses) == 0:
		faults = append(faults, errors.New("no address to listen on"))
	case len(addresses) > maxListeners:
		faults = append(faults, fmt.Errorf("more than %d ports to listen on", maxListeners))
	}
	return addresses, errors.Join(faults...)
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

// Advertised gives what clients are told for each address listened on. specs is empty, one host for all of them, or
// one host:port for each. fallback is the host told for an address that listens on every interface if specs is empty.
func Advertised(specs, listen []string, fallback string) ([]Address, error) {
	told := make([]Address, len(listen))
	switch {
	case len(specs) == 0:
		for i, address := range listen {
			host, port, err := splitAddress(address)
			if err != nil {
				return nil, err
			}
			if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
				host = fallback
			}
			told[i] = Address{host, port}
		}
	case len(specs) == 1 && !strings.Contains(strings.TrimPrefix(specs[0], "["), ":"):
		for i, address := range listen {
			_, port, err := splitAddress(address)
			if err != nil {
				return nil, err
			}
			told[i] = Address{specs[0], port}
		}
	case len(specs) == len(listen):
		for i, spec := range specs {
			host, port, err := splitAddress(spec)
			if err != nil || host == "" || port == 0 {
				return nil, fmt.Errorf("advertised address %q: want host:port", spec)
			}
			told[i] = Address{host, port}
		}
	default:
		return nil, fmt.Errorf("%d advertised addresses for %d listeners: want one host, or host:port for each", len(specs), len(listen))
	}
	return told, nil
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
