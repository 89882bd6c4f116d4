package chart

import (
	"fmt"
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
		ZoneListeners: c.value("zone-listeners"), ListenerZones: list("listener-zones"),
	}
	cfg.ApplyDefaults()
	require.NoError(t, cfg.ExpandZoneListeners())
	require.NoError(t, cfg.Validate())
	return cfg
}

// outside are values for clients outside of the cluster, in three zones.
const outside = "external.enabled=true,zones[0].external.host=h,zones[1].external.host=i,zones[2].external.host=j"

// agentsOf returns the agents' containers of a render.
func agentsOf(all []object) (agents []container) {
	for _, o := range all {
		for _, c := range o.Spec.Template.Spec.Containers {
			if c.Name == "agent" {
				agents = append(agents, c)
			}
		}
	}
	return agents
}

// TestChart_AgentsTakeTheirZones: agents accept their listeners and addresses, in all kinds of several zones.
func TestChart_AgentsTakeTheirZones(t *testing.T) {
	inside := []string{"a=a", "b=b", "c=c"}
	all := append([]string{"external_a=a", "external_b=b", "external_c=c"}, inside...)
	for set, want := range map[string][]string{
		"": inside, outside: all, "tls.issuer.name=ca": inside, "tls.issuer.name=ca," + outside: all,
	} {
		agents := agentsOf(threeZones(t, "--set", set))
		require.Len(t, agents, 3)
		for _, c := range agents {
			require.Equal(t, want, configOf(t, c).ListenerZones, set)
		}
	}
}

// TestChart_MostZones: agents accept the largest numbers of zones.
func TestChart_MostZones(t *testing.T) {
	for _, c := range []struct {
		zones    int
		external bool
	}{{15, false}, {7, true}} {
		set := fmt.Sprintf("tls.issuer.name=ca,external.enabled=%t", c.external)
		for i := range c.zones {
			set += fmt.Sprintf(",zones[%d].name=z%d,zones[%d].external.host=h%d", i, i, i, i)
		}
		agents := agentsOf(objects(t, render(t, "testdata/default.values.yaml", "--set", set)))
		require.Len(t, agents, c.zones)
		for _, agent := range agents {
			configOf(t, agent)
		}
	}
}

// listenersOf returns the names of an agent's listeners by port.
func listenersOf(t *testing.T, c container) map[int]string {
	t.Helper()
	listen, err := agent.ParseListen(configOf(t, c).Listen)
	require.NoError(t, err)
	names := make(map[int]string)
	for _, l := range listen {
		port, err := strconv.Atoi(strings.TrimPrefix(l.Address, ":"))
		require.NoError(t, err)
		names[port] = l.Name
	}
	return names
}

// TestChart_ZonePortsLeadToTheirZone: a zone's Service, and a zone's port of the common Service, lead to the listener of that zone at
// agents of all zones.
func TestChart_ZonePortsLeadToTheirZone(t *testing.T) {
	all := threeZones(t)
	listeners := map[int]string{} // by port
	for _, c := range agentsOf(all) {
		for port, name := range listenersOf(t, c) {
			require.Contains(t, []string{"", name}, listeners[port], "agents of all zones agree")
			listeners[port] = name
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

// externalPorts returns the ports of a zone's Service for clients outside.
func externalPorts(t *testing.T, all []object, zone string) []servicePort {
	t.Helper()
	for _, o := range all {
		if o.Kind == "Service" && o.Metadata.Name == "freshet-"+zone+"-external" {
			return o.Spec.Ports
		}
	}
	require.Fail(t, "no Service for clients outside", zone)
	return nil
}

// TestChart_ExternalPortsLeadToTheirZone: each address that agents show to clients outside leads to the listener of that address, at
// agents of the address's zone, and policies let it pass.
func TestChart_ExternalPortsLeadToTheirZone(t *testing.T) {
	nodePorts := ",external.type=NodePort,zones[0].external.nodePort=30092,zones[1].external.nodePort=30192,zones[2].external.nodePort=30292"
	for name, set := range map[string]string{"load balancers": outside, "node ports": outside + nodePorts} {
		all := threeZones(t, "--set", "networkPolicy.enabled=true,"+set)
		agents, named := agentsOf(all), ports(all, "agent")
		require.Len(t, agents, 3)
		for i, c := range agents {
			zone, host := c.value("zone"), string(rune('h'+i))
			listeners, led := listenersOf(t, c), []string{}
			service := externalPorts(t, all, zone)
			for k, p := range service {
				target, ok := named[p.TargetPort.(string)]
				require.True(t, ok, "%s: the Service of zone %s has %v", name, zone, p.TargetPort)
				require.True(t, allows(all, "client", "agent", target), "%s: port %d", name, target)
				outer := p.Port
				if p.NodePort != 0 {
					outer = p.NodePort
				}
				if k%4 == 0 {
					led = append(led, fmt.Sprintf("%s/%s=%s:%d-%d", listeners[target], zone, host, outer, outer+3))
				} else {
					require.Equal(t, listeners[target-1], listeners[target], "%s: four ports per listener", name)
				}
			}
			require.Len(t, service, 12)
			require.Contains(t, led[0], "external_"+zone+"/", "%s: the zone's own ports are the first", name)
			require.Subset(t, strings.Split(c.value("shared-advertise"), ","), led, name)
			require.Equal(t, agents[0].value("shared-advertise"), c.value("shared-advertise"), name)
			require.Equal(t, agents[0].value("listener-zones"), c.value("listener-zones"), name)
		}
		require.Len(t, strings.Split(agents[0].value("shared-advertise"), ","), 9, name)
		require.False(t, allows(all, "client", "agent", 9204), name)
	}
}

// TestChart_AddedZoneMovesNoExternalPort: the Services of zones keep their ports if a zone is added at the end.
func TestChart_AddedZoneMovesNoExternalPort(t *testing.T) {
	two := objects(t, render(t, "testdata/default.values.yaml", "--set",
		"external.enabled=true,zones[0].name=a,zones[0].external.host=h,zones[1].name=b,zones[1].external.host=i"))
	three := threeZones(t, "--set", outside)
	shown := strings.Split(agentsOf(three)[0].value("shared-advertise"), ",")
	require.Subset(t, shown, strings.Split(agentsOf(two)[0].value("shared-advertise"), ","))
	for _, zone := range []string{"a", "b"} {
		before, after := externalPorts(t, two, zone), externalPorts(t, three, zone)
		require.Len(t, before, 8)
		require.Len(t, after, 12)
		require.Equal(t, before, after[:8])
	}
}

// TestChart_OneZoneHasNoPortOfItsOwn: all clients are of the only zone.
func TestChart_OneZoneHasNoPortOfItsOwn(t *testing.T) {
	all := objects(t, render(t, "testdata/default.values.yaml", "--set", "external.enabled=true,zones[0].name=a,zones[0].external.host=h"))
	require.Len(t, externalPorts(t, all, "a"), 4)
	agents := agentsOf(all)
	require.Len(t, agents, 1)
	require.Empty(t, agents[0].value("zone-listeners"))
	require.Empty(t, agents[0].value("listener-zones"))
	require.Equal(t, "external/a=h:9192-9195", agents[0].value("shared-advertise"))
	require.Len(t, agents[0].Ports, 10)
}

func TestNetworkPolicies_AllowZonePorts(t *testing.T) {
	all := threeZones(t, "--set", "networkPolicy.enabled=true")
	require.True(t, allows(all, "client", "agent", 9292))
	require.True(t, allows(all, "client", "agent", 9303))
	require.False(t, allows(all, "client", "agent", 9304))
}
