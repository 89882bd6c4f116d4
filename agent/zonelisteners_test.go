package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfig_ExpandZoneListeners(t *testing.T) {
	c := Config{Zone: "eu-1b", Listen: []string{":9092-9095"}, Advertise: []string{"{hostname}.{zone}.example.com"}, ZoneListeners: "9192=eu-1a, eu-1b,eu-1c"}
	for range 2 { // the second call changes nothing
		require.NoError(t, c.ExpandZoneListeners())
		require.Equal(t, []string{":9092-9095", "eu-1a=:9192-9195", "eu-1b=:9196-9199", "eu-1c=:9200-9203"}, c.Listen)
		require.Equal(t, []string{"eu-1a=eu-1a", "eu-1b=eu-1b", "eu-1c=eu-1c"}, c.ListenerZones)
	}
	require.Empty(t, c.validateZones())
	require.Empty(t, c.validateAddresses())
	all, err := c.addresses()
	require.NoError(t, err)
	require.Len(t, all.told, 16)
	host := placeOf(&c).Hostname + ".eu-1b.example.com" // the agent's own zone, at every listener
	require.Equal(t, []Address{{"", host, 9095}, {"eu-1a", host, 9192}, {"eu-1c", host, 9203}}, []Address{all.told[3], all.told[4], all.told[15]})
}

// TestConfig_ExpandZoneListenersAddresses: a listener's own address wins, and without any the host of the listener is advertised.
func TestConfig_ExpandZoneListenersAddresses(t *testing.T) {
	for name, tt := range map[string]struct {
		config Config
		told   []string
	}{
		"none":        {Config{ZoneListeners: "127.0.0.1:9192=a,b"}, []string{"127.0.0.1:9092", "a=127.0.0.1:9192", "b=127.0.0.1:9196"}},
		"IPv6":        {Config{ZoneListeners: "[::1]:9192=a,b"}, []string{"127.0.0.1:9092", "a=[::1]:9192", "b=[::1]:9196"}},
		"inherited":   {Config{ZoneListeners: "9192=a,b", Advertise: []string{"h"}}, []string{"h:9092", "a=h:9192", "b=h:9196"}},
		"own address": {Config{ZoneListeners: "9192=a,b", Advertise: []string{"h", "b=lb"}}, []string{"h:9092", "a=h:9192", "b=lb:9196"}},
		"shared": {
			Config{ZoneListeners: "9192=a,b", Advertise: []string{"h"}, SharedAdvertise: []string{"b/a=lb-a:1-4", "b/b=lb-b:1-4"}},
			[]string{"h:9092", "a=h:9192", "b=lb-a:1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := tt.config
			c.Zone, c.Listen = "a", []string{"127.0.0.1:9092"}
			require.NoError(t, c.ExpandZoneListeners())
			all, err := c.addresses()
			require.NoError(t, err)
			require.Equal(t, tt.told, []string{all.told[0].String(), all.told[1].String(), all.told[5].String()})
		})
	}
}

func TestConfig_ExpandZoneListenersFaults(t *testing.T) {
	for _, tt := range []struct {
		config Config
		says   string
	}{
		{Config{ZoneListeners: "9192"}, `want [host:]port=zone,zone,..., such as 9292=eu-1a,eu-1b,eu-1c`},
		{Config{ZoneListeners: "x=a"}, `"x" is no [host:]port: write the first port, such as 9292=a`},
		{Config{ZoneListeners: "0=a"}, `"0" is no [host:]port: write the first port, such as 9292=a`},
		{Config{ZoneListeners: "h:9192-9195=a"}, `"h:9192-9195" is no [host:]port: write the first port, such as 9292=a`},
		{Config{ZoneListeners: "65530=a,b"}, `2 zones with 4 ports each need ports up to 65537, above 65535: choose a lower first port`},
		{Config{ZoneListeners: "9192=a,b,a"}, `zone "a" is there twice: remove one`},
		{Config{ZoneListeners: "9192=a,b c"}, `zone "b c" cannot name a listener, which takes 1 to 249 of a-z A-Z 0-9 . _ -: use --kafka-listen, --advertise and --listener-zones`},
		{Config{ZoneListeners: "9192=b,c"}, `the agent's own zone "a" is not there: add it at the end, at all agents`},
		{Config{ZoneListeners: "9089=a,b"}, "ports 9089-9092 of zone \"a\" overlap --kafka-listen \":9092\": choose another first port"},
		{Config{ZoneListeners: "127.0.0.1:9088=b,a"}, `ports 9092-9095 of zone "a" overlap --kafka-listen ":9092": choose another first port`},
		{Config{ZoneListeners: "9192=a", Listen: []string{"a=:9292"}}, `--kafka-listen "a=:9292" has the name of a zone: rename that listener`},
		{Config{ZoneListeners: "9192=a", ListenerZones: []string{"a=b"}}, `--listener-zones "a=b" binds the same listener: remove it`},
		{Config{ZoneListeners: "9192=a", Advertise: []string{"h:9092"}}, `--advertise "h:9092" has ports of the default listener, which the listener of zone "a" does not have: add --advertise a=HOST`},
		{Config{ZoneListeners: "9192=a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p"}, `more than 64 ports to listen on`},
	} {
		c := tt.config
		c.Zone = "a"
		if c.Listen == nil {
			c.Listen = []string{":9092"}
		}
		before := c
		require.EqualError(t, c.ExpandZoneListeners(), `--zone-listeners "`+c.ZoneListeners+`": `+tt.says)
		require.Equal(t, before, c)
	}
	c := Config{ZoneListeners: "9192=a"}
	require.ErrorContains(t, c.ExpandZoneListeners(), "the agent has no zone: set --zone")
}

// TestConfig_ExpandZoneListenersBesideOtherAddresses: a port is another one at another address.
func TestConfig_ExpandZoneListenersBesideOtherAddresses(t *testing.T) {
	c := Config{Zone: "a", Listen: []string{"10.0.0.1:9092"}, ZoneListeners: "10.0.0.2:9092=a"}
	require.NoError(t, c.ExpandZoneListeners())
}
