package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
	} {
		zone, named := ClientZone(clientID, "here")
		if want == "" {
			require.Equal(t, "here", zone, clientID)
			require.False(t, named, clientID)
			continue
		}
		require.Equal(t, want, zone, clientID)
		require.True(t, named, clientID)
	}
}
