package cluster

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// names is a DNS server in place of Cloud Map, in which the stand-in of ECS registers no tasks. Each name leads to the tasks that lookup
// returns at that moment.
type names struct {
	conn   net.PacketConn
	lookup func(name string) []netip.Addr
	wg     sync.WaitGroup
}

// serveNames starts the server. It ends with the test.
func serveNames(t *testing.T, lookup func(name string) []netip.Addr) {
	t.Helper()
	conn, err := place.ListenPacket(t.Context(), "udp", net.JoinHostPort(place.Host(), "53"))
	require.NoError(t, err)
	n := &names{conn: conn, lookup: lookup}
	n.wg.Go(n.serve)
	t.Cleanup(func() {
		_ = conn.Close()
		n.wg.Wait()
	})
}

func (n *names) serve() {
	query := make([]byte, 512)
	for {
		size, from, err := n.conn.ReadFrom(query)
		if err != nil {
			return // closed
		}
		var m dnsmessage.Message
		if m.Unpack(query[:size]) != nil || len(m.Questions) != 1 {
			continue
		}
		n.answer(&m)
		if packed, err := m.Pack(); err == nil {
			_, _ = n.conn.WriteTo(packed, from) // the client asks again
		}
	}
}

// answer makes a query its answer. A name without tasks has no addresses.
func (n *names) answer(m *dnsmessage.Message) {
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Authoritative, m.Additionals = true, true, true, nil
	if q.Type != dnsmessage.TypeA {
		return
	}
	for _, a := range n.lookup(strings.TrimSuffix(q.Name.String(), ".")) {
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: a.As4()},
		})
	}
}
