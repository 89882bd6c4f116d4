package advertise_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/advertise"
)

func TestPlace_Fill(t *testing.T) {
	here := advertise.Place{Zone: "eu-1a", Hostname: "cp-0", IP: "10.0.0.7"}
	got, err := here.Fill("{hostname}.{zone}.example:7050")
	require.NoError(t, err)
	require.Equal(t, "cp-0.eu-1a.example:7050", got)
	got, err = here.Fill("{ip}:7050")
	require.NoError(t, err)
	require.Equal(t, "10.0.0.7:7050", got)

	for spec, fault := range map[string]string{"{ip}:7050": "{ip} is not known here", "{host}:7050": "can be filled in"} {
		_, err := advertise.Place{Hostname: "cp-0"}.Fill(spec)
		require.ErrorContains(t, err, fault)
		require.ErrorContains(t, err, spec)
	}
}

func TestHere(t *testing.T) {
	here := advertise.Here("eu-1a", "10.0.0.7")
	require.NotEmpty(t, here.Hostname)
	require.Equal(t, "10.0.0.7", here.IP, "the pod's address goes before the machine's")
	require.Equal(t, "eu-1a", here.Zone)
}

func TestCheckHost(t *testing.T) {
	for _, host := range []string{"a", "a.example", "10.0.0.7", "::1", "fe80::1%eth0", "ä.example", "a_b"} {
		require.NoError(t, advertise.CheckHost(host))
	}
	for _, host := range []string{"", " ", "a b", "a\n", "http://a", `a\b`, "user@a", "a,b", "x=a"} {
		require.ErrorContains(t, advertise.CheckHost(host), "is no name or address of a host")
	}
}

func TestUnbracketed(t *testing.T) {
	for address, want := range map[string]bool{
		"::1": true, "2001:db8::1:2379": true, "[::1]:2379": false, "[::1]": false, "a:1": false, "10.0.0.7:1": false, "http://a:1": false, "": false,
	} {
		require.Equal(t, want, advertise.Unbracketed(address), "%q", address)
	}
}

func TestOnlyLocal(t *testing.T) {
	for _, told := range []string{"localhost", "127.0.0.1", "127.1.2.3", "::1"} {
		require.True(t, advertise.OnlyLocal("", told))
		require.True(t, advertise.OnlyLocal("::", told))
		require.False(t, advertise.OnlyLocal("127.0.0.1", told), "no other machine is listened for")
	}
	for _, told := range []string{"10.0.0.7", "a", "localhost.example"} {
		require.False(t, advertise.OnlyLocal("0.0.0.0", told))
	}
}

func TestUnspecified(t *testing.T) {
	for host, want := range map[string]bool{
		"": true, "0.0.0.0": true, "::": true, "0:0:0:0:0:0:0:0": true, "127.0.0.1": false, "10.0.0.7": false, "cp-0": false,
	} {
		require.Equal(t, want, advertise.Unspecified(host), "%q", host)
	}
}
