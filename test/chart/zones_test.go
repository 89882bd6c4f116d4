package chart

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent"
)

// threeZones renders three zones.
func threeZones(t *testing.T, more ...string) []object {
	t.Helper()
	set := []string{"--set", "zones[0].name=a,zones[1].name=b,zones[2].name=c"}
	return objects(t, render(t, "testdata/default.values.yaml", append(set, more...)...))
}

// value returns the value of a container's flag, or "" if there is no such flag.
func (c container) value(flag string) string {
	for _, arg := range c.Args {
		if value, ok := strings.CutPrefix(arg, "--"+flag+"="); ok {
			return value
		}
	}
	return ""
}

// configOf returns an agent's configuration of what clients see, with its zones' listeners expanded.
func configOf(t *testing.T, c container) agent.Config {
	t.Helper()
	list := func(flag string) []string {
		return strings.FieldsFunc(strings.ReplaceAll(c.value(flag), "$(POD_IP)", "10.0.0.7"), func(r rune) bool { return r == ',' })
	}
	cfg := agent.Config{
		VirtualCluster: "main", ControlPlane: []string{"cp:7050"}, AgentKey: "k", BucketURL: "mem://", MemoryLimit: 1 << 30,
		Zone: c.value("zone"), Listen: list("kafka-listen"), Advertise: list("advertise"), SharedAdvertise: list("shared-advertise"),
		ZoneListeners: c.value("zone-listeners"),
	}
	cfg.ApplyDefaults()
	require.NoError(t, cfg.ExpandZoneListeners())
	require.NoError(t, cfg.Validate())
	return cfg
}

// TestChart_AgentsTakeTheirZones: agents accept their listeners and addresses, in all kinds of several zones.
func TestChart_AgentsTakeTheirZones(t *testing.T) {
	external := "external.enabled=true,zones[0].external.host=h,zones[1].external.host=i,zones[2].external.host=j"
	for _, set := range []string{"", external, "tls.issuer.name=ca", "tls.issuer.name=ca," + external} {
		agents := 0
		for _, o := range threeZones(t, "--set", set) {
			for _, c := range o.Spec.Template.Spec.Containers {
				if c.Name == "agent" {
					require.Equal(t, []string{"a=a", "b=b", "c=c"}, configOf(t, c).ListenerZones)
					agents++
				}
			}
		}
		require.Equal(t, 3, agents)
	}
}

// TestChart_ZonePortsLeadToTheirZone: a zone's Service, and a zone's port of the common Service, lead to the listener of that zone at
// agents of all zones.
func TestChart_ZonePortsLeadToTheirZone(t *testing.T) {
	all := threeZones(t)
	listeners := map[int]string{} // by port
	for _, o := range all {
		for _, c := range o.Spec.Template.Spec.Containers {
			if c.Name != "agent" {
				continue
			}
			listen, err := agent.ParseListen(configOf(t, c).Listen)
			require.NoError(t, err)
			for _, l := range listen {
				port, err := strconv.Atoi(strings.TrimPrefix(l.Address, ":"))
				require.NoError(t, err)
				require.Contains(t, []string{"", l.Name}, listeners[port], "agents of all zones agree")
				listeners[port] = l.Name
			}
		}
	}
	require.Len(t, listeners, 16)
	named := ports(all, "agent")
	leads := map[string]string{} // zones by address
	for _, o := range all {
		if o.Kind != "Service" || o.Metadata.Labels[componentLabel] != "agent" {
			continue
		}
		for _, p := range o.Spec.Ports {
			port, ok := named[p.TargetPort.(string)]
			require.True(t, ok, "%s has %v", o.Metadata.Name, p.TargetPort)
			leads[o.Metadata.Name+":"+strconv.Itoa(p.Port)] = listeners[port]
		}
	}
	require.Equal(t, map[string]string{
		"freshet:9092": "", "freshet:9292": "a", "freshet:9296": "b", "freshet:9300": "c",
		"freshet-a:9092": "a", "freshet-b:9092": "b", "freshet-c:9092": "c",
	}, leads)
}

// TestChart_OneZoneHasNoPortOfItsOwn: all clients are of the only zone.
func TestChart_OneZoneHasNoPortOfItsOwn(t *testing.T) {
	rendered := render(t, "testdata/default.values.yaml", "--set", "zones[0].name=a")
	require.NotContains(t, rendered, "zone-listeners")
	require.NotContains(t, rendered, "zone-0")
}

func TestNetworkPolicies_AllowZonePorts(t *testing.T) {
	all := threeZones(t, "--set", "networkPolicy.enabled=true")
	require.True(t, allows(all, "client", "agent", 9292))
	require.True(t, allows(all, "client", "agent", 9303))
	require.False(t, allows(all, "client", "agent", 9304))
}
