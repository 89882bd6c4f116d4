package controlplane

import (
	"cmp"
	"fmt"
	"net"
	"strconv"

	"github.com/freshet-io/freshet/internal/advertise"
)

// advertised is the host:port at which agents and other replicas reach GRPCListen. port is the one listened on.
func (c *Config) advertised(place advertise.Place, port int) (string, error) {
	if c.Advertise != "" {
		told, err := place.Fill(c.Advertise)
		if err != nil {
			return "", fmt.Errorf("--advertise: %w", err)
		}
		return told, checkAddress("--advertise", told)
	}
	host, _, err := net.SplitHostPort(c.GRPCListen)
	if err != nil {
		return "", fmt.Errorf("--grpc-listen %q has no port: write host:port, or :port for every address", c.GRPCListen)
	}
	if advertise.Unspecified(host) {
		host = cmp.Or(place.IP, place.Hostname)
		if c.TLS != nil { // certificates name hosts
			host = place.Hostname
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// checkAddress refuses the value of a setting that is no address to connect to.
func checkAddress(setting, address string) error {
	host, port, err := net.SplitHostPort(address)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
		return fmt.Errorf("%s %q is no address: set it to host:port, as agents reach --grpc-listen", setting, address)
	}
	if err := advertise.CheckHost(host); err != nil {
		return fmt.Errorf("%s %w", setting, err)
	}
	if advertise.Unspecified(host) {
		return fmt.Errorf("%s %q is an address that nobody can connect to: set it to a name or address of this machine that agents reach", setting, address)
	}
	return nil
}
