package main

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// TestPeers_ListenByDefault: agents share where they are told that they are in a zone.
func TestPeers_ListenByDefault(t *testing.T) {
	for _, tt := range []struct{ zone, flag, want string }{
		{"", "auto", ""},
		{"a", "auto", ":7070"},
		{zoneAuto, "auto", ":7070"}, // found out later, or an error
		{"a", "none", ""},
		{"", "10.0.0.1:1", "10.0.0.1:1"},
	} {
		s := agentSettings{}
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		bindPeers(f, &s)
		require.Equal(t, peerListenAuto, f.Lookup("peer-listen").DefValue)
		require.NoError(t, f.Set("peer-listen", tt.flag))
		s.Zone = tt.zone
		require.NoError(t, s.completePeers(zap.NewNop()))
		require.Equal(t, tt.want, s.Peers.Listen, "%+v", tt)
		require.Nil(t, s.Peers.ServerTLS)
	}
	for zone, want := range map[string]string{" \n": "", "a\n": ":7070"} {
		s := agentSettings{}
		s.Zone, s.Peers.Listen = zone, peerListenAuto
		require.NoError(t, s.complete(zap.NewNop(), ""))
		require.Equal(t, want, s.Peers.Listen, "%q", zone)
	}
	s := agentSettings{}
	s.Zone = "a\nb"
	require.EqualError(t, s.complete(zap.NewNop(), ""), `--zone: invalid zone name: "a\nb" has control characters or is not UTF-8: remove them`)
	s = agentSettings{}
	require.NoError(t, s.completePeers(zap.NewNop()), "as freshet dev, which shares with nobody")
	require.Empty(t, s.Peers.Listen)
}
