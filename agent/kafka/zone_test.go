package kafka

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/client"
)

// zonesOf are the zones of an agent that knows nothing but its own.
func zonesOf(t *testing.T, own string) *Zones {
	t.Helper()
	z, err := NewZones(own, nil, nil)
	require.NoError(t, err)
	return z
}

func TestClientZone(t *testing.T) {
	for clientID, want := range map[string]string{
		"":                            "",
		"plain":                       "",
		"zone=a":                      "a",
		"svc,zone=eu-1a":              "eu-1a",
		"svc;freshet_zone=b;x=y":      "b",
		"svc ws_az=c":                 "c",
		"warpstream_az=d,ws_hi=1":     "d",
		"automq_az=e&automq_type=x":   "e",
		"diskless_az=f":               "f",
		"myzone=a":                    "",
		"zone=":                       "",
		"zone=,freshet_zone=b":        "b",
		"ws_az=c,zone=a":              "a", // tokens have an order, places do not
		"svc-zone=a":                  "",
		"app=x,zone=with=equals,more": "with=equals",
		"svc,zone=eu-1a\n":            "eu-1a",
		strings.Repeat("x", maxZoneID-7) + ",zone=a": "a",
		strings.Repeat("x", maxZoneID) + ",zone=a":   "",
	} {
		zone, named := zonesOf(t, "here").Of(&edge.Request{ClientID: clientID, Client: &edge.Client{Host: "10.0.0.1"}})
		if want == "" {
			require.Equal(t, "here", zone, clientID)
			require.False(t, named, clientID)
			continue
		}
		require.Equal(t, want, zone, clientID)
		require.True(t, named, clientID)
	}
}

func TestZones_NetworksAndListeners(t *testing.T) {
	z, err := NewZones("own", []string{"10.0.0.0/8=wide", "10.0.1.77/24=a", "2001:db8::/32=six"}, []string{"external=lb"})
	require.NoError(t, err)
	for _, c := range []struct {
		clientID, host, listener string
		zone                     string
		named                    bool
	}{
		{"", "10.0.1.5", "", "a", true},
		{"", "10.9.9.9", "", "wide", true},
		{"", "::ffff:10.0.1.5", "", "a", true},
		{"", "2001:db8::1", "", "six", true},
		{"zone=b", "10.0.1.5", "external", "b", true},
		{"", "10.0.1.5", "external", "a", true},
		{"", "192.168.1.1", "external", "lb", true},
		{"", "192.168.1.1", "", "own", false},
		{"", "no address", "", "own", false},
	} {
		zone, named := z.Of(&edge.Request{ClientID: c.clientID, Client: &edge.Client{Host: c.host, Listener: c.listener}})
		require.Equal(t, c.zone, zone, "%+v", c)
		require.Equal(t, c.named, named, "%+v", c)
	}
	_, err = NewZones("o\nwn", []string{"10.0.0.0=a", "10.0.0.0/8", "10.0.0.0/8= ", "10.0.0.0/8=a\tb"}, []string{"x", "y="})
	for _, named := range []string{`"o\nwn"`, `"10.0.0.0=a"`, `"10.0.0.0/8"`, `"10.0.0.0/8= "`, `"a\tb"`, `"x"`, `"y="`} {
		require.ErrorContains(t, err, named)
	}
}

// TestNewZones_TrimsSpace: a zone that was read from a file equals the zone that clients and other agents name.
func TestNewZones_TrimsSpace(t *testing.T) {
	z, err := NewZones("own\n", []string{" 10.0.1.0/24 = a\n"}, []string{"external = lb "})
	require.NoError(t, err)
	for host, want := range map[string]string{"10.0.1.5": "a", "192.168.1.1": "lb"} {
		zone, _ := z.Of(&edge.Request{Client: &edge.Client{Host: host, Listener: "external"}})
		require.Equal(t, want, zone)
	}
	zone, _ := z.Of(&edge.Request{Client: &edge.Client{Host: "192.168.1.1"}})
	require.Equal(t, "own", zone)
}

// TestForward_KnownZone: the owner learns of each request whether every agent knows the client's zone, as Metadata does.
func TestForward_KnownZone(t *testing.T) {
	zones, err := NewZones("own", []string{"10.0.1.0/24=a"}, []string{"external=b"})
	require.NoError(t, err)
	java := edge.Software{Name: "apache-kafka-java", Version: "4.1.0"}
	for _, c := range []struct {
		name, clientID, host, listener string
		software                       edge.Software
		zone                           string
		known, standIns                bool
	}{
		{"client ID", "billing,zone=c", "10.9.9.9", "main", java, "c", true, true},
		{"client ID, agent's zone", "zone=own", "10.9.9.9", "main", java, "own", true, true},
		{"network", "billing", "10.0.1.5", "main", java, "a", true, true},
		{"listener", "billing", "10.9.9.9", "external", java, "b", true, true},
		{"listener, software unknown", "billing", "10.9.9.9", "external", edge.Software{}, "b", true, false},
		{"unknown", "billing", "10.9.9.9", "main", java, "own", false, false},
		{"unknown, agent's zone in the client ID", "run=own", "10.9.9.9", "main", java, "own", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got client.Forward
			to := forwarderFunc(func(_ context.Context, f client.Forward) ([]byte, error) {
				got = f
				return nil, nil
			})
			handler, err := New(Config{APIs: with(), Forwarder: to, Zones: zones})
			require.NoError(t, err)
			in := kmsg.NewPtrDescribeClusterRequest()
			from := &edge.Client{Host: c.host, Listener: c.listener}
			if c.software.Name != "" {
				from.SetSoftware(c.software)
			}
			handler.Start(t.Context(), &edge.Request{
				Key: in.Key(), ClientID: c.clientID, Body: in.AppendTo(nil), Arrived: time.Now(), Client: from,
			})()
			require.Equal(t, c.zone, got.Zone)
			require.Equal(t, c.known, got.ZoneKnown)
			require.Equal(t, c.standIns, got.StandIns)
		})
	}
}
