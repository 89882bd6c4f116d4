// Package advertise fills in and checks addresses that a process tells others to connect to.
package advertise

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"strings"
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
