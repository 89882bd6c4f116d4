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

func TestUnspecified(t *testing.T) {
	for host, want := range map[string]bool{
		"": true, "0.0.0.0": true, "::": true, "0:0:0:0:0:0:0:0": true, "127.0.0.1": false, "10.0.0.7": false, "cp-0": false,
	} {
		require.Equal(t, want, advertise.Unspecified(host), "%q", host)
	}
}
