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

// network returns the address whose attempts are counted: an IPv4 address, or the /64 of an IPv6 address, because a client has all addresses of one.
func network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Is4() {
		return address
	}
	p, err := a.Prefix(64)
	if err != nil {
		return address
	}
	return p.String()
}
