// Package advertise fills in and checks addresses that a process tells others to connect to.
package advertise

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"strings"
	"unicode"
)

// Place is where a process runs. An empty field is not known.
type Place struct {
	Zone     string
	Hostname string
	IP       string
}

// Here returns the place of this process. The hostname is localhost if the machine has none. IP is podIP if that is set, else
// the machine's first address that others can reach.
func Here(zone, podIP string) Place {
	return Place{Zone: zone, Hostname: hostname(), IP: cmp.Or(podIP, firstIP())}
}

// Fill replaces {zone}, {hostname} and {ip} in a specification. It returns an error if a value is not known, and for any other
// brace.
func (p Place) Fill(spec string) (string, error) {
	out := spec
	for name, value := range map[string]string{"{zone}": p.Zone, "{hostname}": p.Hostname, "{ip}": p.IP} {
		if strings.Contains(out, name) && value == "" {
			return "", fmt.Errorf("advertised address %q: %s is not known here: write the value itself", spec, name)
		}
		out = strings.ReplaceAll(out, name, value)
	}
	if strings.ContainsAny(out, "{}") {
		return "", fmt.Errorf("advertised address %q: {zone}, {hostname} and {ip} are what can be filled in", spec)
	}
	return out, nil
}

// Unspecified reports whether host stands for every address of a machine, as "", 0.0.0.0 and :: do. Nothing can connect to it.
func Unspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// CheckHost returns an error for a host that cannot be a name or an address, such as one with a scheme or a space.
func CheckHost(host string) error {
	if host == "" || strings.ContainsFunc(host, unicode.IsSpace) || strings.ContainsAny(host, `/\@=,"'`) {
		return fmt.Errorf("%q is no name or address of a host: set it to one, without scheme, path or spaces", host)
	}
	return nil
}

// Unbracketed reports whether address is an IPv6 address without brackets, in which a port cannot be told from the address.
func Unbracketed(address string) bool {
	return !strings.Contains(address, "[") && strings.Count(address, ":") > 1 && net.ParseIP(address) != nil
}

// OnlyLocal reports whether a process advertises localhost or a loopback address although it listens on every address of its
// machine. Other machines would reach themselves there. Both arguments are hosts without ports.
func OnlyLocal(listen, advertised string) bool {
	ip := net.ParseIP(advertised)
	return Unspecified(listen) && (advertised == "localhost" || ip != nil && ip.IsLoopback())
}

func hostname() string {
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
