package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/view"
)

func TestConfig_Shared(t *testing.T) {
	c := Config{
		Zone: "eu-1a", Listen: []string{"127.0.0.1:9092", "external=:9192-9193"}, Advertise: []string{"agent-1"},
		SharedAdvertise: []string{"external/eu-1a=lb-a:9192-9193", "external/eu-1b=lb-b:30001", "external/eu-1b=lb-b:30007"},
	}
	a, err := c.addresses()
	require.NoError(t, err)
	require.Equal(t, []Address{{"", "agent-1", 9092}, {"external", "lb-a", 9192}, {"external", "lb-a", 9193}}, a.told)
	require.Len(t, a.shared, 1)
	require.Equal(t, []int{1, 2}, a.shared["external"].Ports)
	require.Equal(t, []view.Endpoint{{Listener: "external", Host: "lb-b", Port: 30001}, {Listener: "external", Host: "lb-b", Port: 30007}},
		a.shared["external"].Zones["eu-1b"])

	c = Config{Listen: []string{":9092", "x=:9192"}, SharedAdvertise: []string{"lb:9092", "x=[fd00::1]:9192"}}
	a, err = c.addresses()
	require.NoError(t, err)
	require.Equal(t, []Address{{"", "lb", 9092}, {"x", "fd00::1", 9192}}, a.told, "agents without zones, and the default listener")
}

func TestConfig_RefusesSharedListeners(t *testing.T) {
	const example = ", such as external/eu-1a=lb-a.example.com:9192-9195"
	for _, c := range []struct {
		zone, advertise string
		shared          []string
		says            string
	}{
		{"a", "", []string{"x/a=lb"}, `--shared-advertise "x/a=lb": want host:port or host:first-last` + example},
		{"a", "", []string{"x/a=:1-2"}, `--shared-advertise "x/a=:1-2": want host:port or host:first-last` + example},
		{"a", "", []string{"x/a=lb:0"}, `--shared-advertise "x/a=lb:0": want host:port or host:first-last` + example},
		{"a", "", []string{"x/a=lb:2-1"}, `--shared-advertise "x/a=lb:2-1": ports "2-1" are no range` + example},
		{"a", "", []string{"x/a=lb:1-65000"}, `--shared-advertise "x/a=lb:1-65000": more than 64 ports`},
		{"a", "", []string{"x/a={zone}.lb:1-2"}, `--shared-advertise "x/a={zone}.lb:1-2": nothing is filled in here: write the addresses of all zones, the same on all agents`},
		{"a", "", []string{"x/a=0.0.0.0:1-2"}, `--shared-advertise "x/a=0.0.0.0:1-2": clients cannot connect to this address: set it to the load balancer's`},
		{"a", "", []string{"y/a=lb:1-2"}, `--shared-advertise "y/a=lb:1-2": there is no listener "y": add it to --kafka-listen`},
		{"a", "", []string{"x/a=lb:1"}, `--shared-advertise has 1 ports of listener "x" for zone "a" and --kafka-listen has 2: give x/a=HOST:FIRST-LAST with 2 ports`},
		{"a", "", []string{"x/a=lb:1-2", "x/b=lb:2-3"}, `--shared-advertise has lb:2 of listener "x" twice: give each zone and port an address of its own`},
		{"c", "", []string{"x/a=lb:1-2"}, `--shared-advertise has no address of listener "x" for --zone "c": add x/c=HOST:FIRST-LAST with 2 ports`},
		{"a", "", []string{"x=lb:1-2"}, `--shared-advertise has no address of listener "x" for --zone "a": add x/a=HOST:FIRST-LAST with 2 ports`},
		{"", "", []string{"x/a=lb:1-2"}, `--shared-advertise has no address of listener "x" for --zone "": add x=HOST:FIRST-LAST with 2 ports`},
		{"a", "x=h", []string{"x/a=lb:1-2"}, `--advertise "x=h" is for listener "x", which is in --shared-advertise: remove it from one of them`},
	} {
		cfg := Config{Zone: c.zone, Listen: []string{":9092", "x=:9192-9193"}, SharedAdvertise: c.shared}
		if c.advertise != "" {
			cfg.Advertise = []string{c.advertise}
		}
		_, err := cfg.addresses()
		require.EqualError(t, err, c.says)
	}
	c := lonely(t)
	c.ApplyDefaults()
	c.SharedAdvertise = []string{"x=lb:1"}
	require.ErrorContains(t, c.Validate(), `no listener "x"`)
}
