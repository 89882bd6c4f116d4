package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/advertise"
)

func TestParseListen(t *testing.T) {
	got, err := ParseListen([]string{":9092-9094", "127.0.0.1:0", "ext=[::1]:7"})
	require.NoError(t, err)
	require.Equal(t, []Listen{{"", ":9092"}, {"", ":9093"}, {"", ":9094"}, {"", "127.0.0.1:0"}, {"ext", "[::1]:7"}}, got)
	for spec, fault := range map[string]string{
		"9092": "want host:port", ":9095-9092": "no range", ":0-3": "no range", ":x": "not a number",
		":70000": "not a number", ":1-65535": "more than 64", ":1-": "no range", "ext=9092": "want host:port",
	} {
		_, err := ParseListen([]string{spec})
		require.ErrorContains(t, err, fault, spec)
	}
	_, err = ParseListen(nil)
	require.ErrorContains(t, err, "no address")
}

func TestAdvertised(t *testing.T) {
	listen := []Listen{{"", "0.0.0.0:9092"}, {"", "127.0.0.1:9093"}, {"", "[::]:0"}}
	here := advertise.Place{Zone: "eu-1a", Hostname: "here", IP: "10.0.0.7"}
	got, err := Advertised(nil, listen, here)
	require.NoError(t, err)
	require.Equal(t, []Address{{"", "here", 9092}, {"", "127.0.0.1", 9093}, {"", "here", 0}}, got)

	got, err = Advertised([]string{"a.example"}, listen, here)
	require.NoError(t, err)
	require.Equal(t, []Address{{"", "a.example", 9092}, {"", "a.example", 9093}, {"", "a.example", 0}}, got)

	for _, spec := range []string{"fd00::7", "[fd00::7]"} {
		got, err = Advertised([]string{spec}, listen, here)
		require.NoError(t, err)
		require.Equal(t, "fd00::7", got[0].Host)
	}

	got, err = Advertised([]string{"a:1", "b:2", "[::1]:3"}, listen, here)
	require.NoError(t, err)
	require.Equal(t, "a:1 b:2 [::1]:3", got[0].String()+" "+got[1].String()+" "+got[2].String())

	_, err = Advertised([]string{"a:1", "b:2"}, listen, here)
	require.ErrorContains(t, err, "2 advertised addresses for 3 ports")
	_, err = Advertised([]string{"a:1", "b", "c:3"}, listen, here)
	require.ErrorContains(t, err, `"b"`)
}

// Each listener is told its own addresses, in the order of the ports.
func TestAdvertised_Listeners(t *testing.T) {
	listen := []Listen{{"", ":9092"}, {"external", ":9192"}, {"", ":9093"}}
	here := advertise.Place{Zone: "eu-1a", Hostname: "here", IP: "10.0.0.7"}
	got, err := Advertised([]string{"{ip}", "external={zone}.kafka.example.com:443"}, listen, here)
	require.NoError(t, err)
	require.Equal(t, []Address{
		{"", "10.0.0.7", 9092}, {"external", "eu-1a.kafka.example.com", 443}, {"", "10.0.0.7", 9093},
	}, got)
	require.Equal(t, "external=eu-1a.kafka.example.com:443", got[1].String())

	for fault, spec := range map[string]string{
		`no listener "x"`: "x=a:1", "{zone} is not known": "{zone}", "can be filled in": "{az}.example",
	} {
		_, err := Advertised([]string{spec}, listen, advertise.Place{Hostname: "here"})
		require.ErrorContains(t, err, fault)
	}
	require.NotEmpty(t, placeOf(&Config{}).Hostname)
}

func TestAdvertised_RefusesWhatClientsCannotUse(t *testing.T) {
	here := advertise.Place{Hostname: "here"}
	for spec, c := range map[string]struct {
		listen []Listen
		says   string
	}{
		"0.0.0.0":     {[]Listen{{"", ":9092"}}, "--advertise 0.0.0.0:9092 is an address that nobody can connect to: set it to a name or address of this machine that clients reach"},
		"x=[::]:9092": {[]Listen{{"x", ":9092"}}, "--advertise x=[::]:9092 is an address that nobody can connect to: set it to a name or address of this machine that clients reach"},
		"a": {
			[]Listen{{"", "10.0.0.1:9092"}, {"", "10.0.0.2:9092"}},
			"--advertise a:9092 is told for two ports of --kafka-listen: give each port an address of its own",
		},
	} {
		_, err := Advertised([]string{spec}, c.listen, here)
		require.EqualError(t, err, c.says)
	}
	_, err := Advertised([]string{"a:1", "a:1"}, []Listen{{"", ":9092"}, {"", ":9093"}}, here)
	require.EqualError(t, err, "--advertise a:1 is told for two ports of --kafka-listen: give each port an address of its own")
	_, err = Advertised([]string{"a:1", "x=a:1"}, []Listen{{"", ":9092"}, {"x", ":9093"}}, here)
	require.NoError(t, err, "clients of one listener are told no addresses of another")
}

func TestPeerConfig_RefusesWhatAgentsCannotUse(t *testing.T) {
	c := PeerConfig{Listen: ":9192", Advertise: "0.0.0.0"}
	require.EqualError(t, c.validate(),
		"--peer-advertise 0.0.0.0:0 is an address that nobody can connect to: set it to a name or address of this machine that other agents reach")
}

func TestConfig_RefusesNamesAndAddressesThatFailLater(t *testing.T) {
	c := lonely(t)
	c.ApplyDefaults()
	c.VirtualCluster, c.ControlPlane = "a b", []string{"cp-1"}
	require.EqualError(t, c.Validate(), `--virtual-cluster "a b" is no name of a virtual cluster: set it to 1 to 249 of a-z A-Z 0-9 . _ -
--control-plane "cp-1" has no port: write host:port, such as cp-1:7050`)
}
