package open

import (
	"net/netip"
	"net/url"
	"strings"

	"github.com/freshet-io/freshet/objstore/s3"
)

// localDomains are the ends of host names that only a private network resolves: mDNS (RFC 6762), the domain reserved for
// private use (ICANN 2024) and Kubernetes Services.
var localDomains = []string{".local", ".internal", ".svc"}

// Charges reports whether the store at a bucket URL is likely to bill each request, and the reason as a clause of a log line. A directory, memory, and an S3
// endpoint at a loopback or private address or under a name of a private network do not bill. AWS and every other public
// endpoint do.
func Charges(rawURL string) (charges bool, reason string) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return true, "the bucket URL is not valid"
	}
	switch u.Scheme {
	case "file":
		return false, "a directory bills no requests"
	case "mem":
		return false, "memory bills no requests"
	}
	endpoint, err := url.Parse(u.Query().Get("endpoint"))
	switch host := endpoint.Hostname(); {
	case err != nil || host == "":
		if s3.IsDirectory(u.Host) {
			return true, "S3 Express One Zone bills each request"
		}
		return true, "AWS bills each request"
	case private(host):
		return false, "endpoint " + host + " is in a private network"
	default:
		return true, "endpoint " + host + " is public, and other stores bill each request too"
	}
}

// private reports whether a host is reached without leaving a private network.
func private(host string) bool {
	if address, err := netip.ParseAddr(host); err == nil {
		address = address.Unmap()
		return address.IsLoopback() || address.IsPrivate() || address.IsLinkLocalUnicast()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, domain := range localDomains {
		if strings.HasSuffix(host, domain) {
			return true
		}
	}
	return !strings.Contains(host, ".")
}
