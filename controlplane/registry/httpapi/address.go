package httpapi

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// addressOf returns the network address of a request's client, "" if it is unknown. Each trusted proxy appends the address of its own client to
// X-Forwarded-For, so the client is the last address there that is no trusted proxy. Without trusted proxies, the header does not count.
func (h *Handler) addressOf(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	address := plain(peer.Addr())
	forwarded := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, text := range slices.Backward(forwarded) {
		if !h.trusts(address) {
			break
		}
		next, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil {
			break
		}
		address = plain(next)
	}
	return address.String()
}

func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func (h *Handler) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(h.cfg.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// host returns the address that an account remembers, and whose attempts are counted: an IPv4 address, or the /64 of an IPv6 address, because a client
// has all addresses of one.
func host(address string) string { return prefixOf(address, 32, 64) }

// network returns the larger network whose attempts are counted too: an IPv4 /24, or the /48 that a client of IPv6 gets without effort.
func network(address string) string { return prefixOf(address, 24, 48) }

func prefixOf(address string, bits4, bits6 int) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	bits := bits6
	if a.Is4() {
		bits = bits4
	}
	p, err := a.Prefix(bits)
	if err != nil || p.IsSingleIP() {
		return address
	}
	return p.String()
}
