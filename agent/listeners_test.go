package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
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
	here := Place{Zone: "eu-1a", Hostname: "here", IP: "10.0.0.7"}
	got, err := Advertised(nil, listen, here)
	require.NoError(t, err)
	require.Equal(t, []Address{{"", "here", 9092}, {"", "127.0.0.1", 9093}, {"", "here", 0}}, got)

	got, err = Advertised([]string{"a.example"}, listen, here)
	require.NoError(t, err)
	require.Equal(t, []Address{{"", "a.example", 9092}, {"", "a.example", 9093}, {"", "a.example", 0}}, got)

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
	here := Place{Zone: "eu-1a", Hostname: "here", IP: "10.0.0.7"}
	got, err := Advertised([]string{"{ip}", "external={zone}.kafka.example.com:443"}, listen, here)
	require.NoError(t, err)
	require.Equal(t, []Address{
		{"", "10.0.0.7", 9092}, {"external", "eu-1a.kafka.example.com", 443}, {"", "10.0.0.7", 9093},
	}, got)
	require.Equal(t, "external=eu-1a.kafka.example.com:443", got[1].String())

	for fault, spec := range map[string]string{
		`no listener "x"`: "x=a:1", "{zone} is not known": "{zone}", "can be filled in": "{az}.example",
	} {
		_, err := Advertised([]string{spec}, listen, Place{Hostname: "here"})
		require.ErrorContains(t, err, fault)
	}
	require.NotEmpty(t, placeOf(&Config{}).Hostname)
}
