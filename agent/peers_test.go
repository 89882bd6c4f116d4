package agent

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/advertise"
)

func TestPeerConfig_Advertised(t *testing.T) {
	here := advertise.Place{Zone: "z", Hostname: "machine", IP: "10.0.0.7"}
	for name, tt := range map[string]struct {
		cfg  PeerConfig
		want string
	}{
		"one address":          {PeerConfig{Listen: "10.1.1.1:7070"}, "10.1.1.1:7070"},
		"every address":        {PeerConfig{Listen: ":7070"}, "10.0.0.7:7070"},
		"every IPv6 address":   {PeerConfig{Listen: "[::]:7070"}, "10.0.0.7:7070"},
		"with TLS":             {PeerConfig{Listen: ":7070", ServerTLS: &tls.Config{}}, "machine:7070"},
		"a host told":          {PeerConfig{Listen: ":7070", Advertise: "a.internal"}, "a.internal:7070"},
		"host and port told":   {PeerConfig{Listen: ":7070", Advertise: "a.internal:9"}, "a.internal:9"},
		"an IPv6 address told": {PeerConfig{Listen: ":7070", Advertise: "[fd00::1]"}, "[fd00::1]:7070"},
		"filled in":            {PeerConfig{Listen: ":7070", Advertise: "{hostname}.{zone}"}, "machine.z:7070"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, tt.cfg.validate())
			got, err := tt.cfg.advertised(7070, here)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	for name, cfg := range map[string]PeerConfig{
		"no port":            {Listen: "host"},
		"port no number":     {Listen: "host:kafka"},
		"told, not heard":    {Advertise: "host"},
		"unknown to fill in": {Listen: ":7070", Advertise: "{rack}"},
	} {
		t.Run(name, func(t *testing.T) { require.Error(t, cfg.validate()) })
	}
	require.NoError(t, (&PeerConfig{}).validate())
}
