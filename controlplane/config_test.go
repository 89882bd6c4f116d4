package controlplane

import (
	"crypto/tls"
	"math"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/internal/advertise"
	"github.com/freshet-io/freshet/metadata"
)

// TestConfig_Bounds: the virtual clusters share the memory limit, which is the runtime's if the config has none.
func TestConfig_Bounds(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	two := Config{VirtualClusters: make([]VirtualCluster, 2)}
	debug.SetMemoryLimit(math.MaxInt64)
	require.Equal(t, Bounds{Producers: metadata.MaxProducers, QueueBytes: mostQueue}, two.Bounds(), "no limit")
	for limit, want := range map[int64]Bounds{
		24 << 30: {
			Bytes: 3 << 30, Extents: (3 << 30) / metadata.ExtentBytes, PlannedExtents: (3 << 29) / metadata.ExtentBytes,
			Producers: (12 << 27) / metadata.ProducerBytes, QueueBytes: mostQueue, MemberBytes: 12 << 26, ForwardBytes: 12 << 27,
			Limits: metadata.Limits{3 << 19, (3 << 29) / metadata.PartitionBytes, 3 << 18, 3 << 16, (3 << 29) / 768, 3 << 29, 3 << 29},
		},
		120 << 20: {
			Bytes: 15 << 20, Extents: (15 << 20) / metadata.ExtentBytes, PlannedExtents: (15 << 19) / metadata.ExtentBytes,
			Producers: leastProducers, QueueBytes: leastQueue, MemberBytes: leastMembers, ForwardBytes: leastForwards,
			Limits: metadata.Limits{7680, (15 << 19) / metadata.PartitionBytes, 3840, 960, 10240, 15 << 19, 15 << 19},
		},
	} {
		debug.SetMemoryLimit(limit)
		require.Equal(t, want, two.Bounds(), "memory limit %d", limit)
		debug.SetMemoryLimit(math.MaxInt64)
		two.MemoryLimit = limit
		require.Equal(t, want, two.Bounds(), "memory limit %d", limit)
		two.MemoryLimit = 0
	}
	set := (&Config{MaxProducers: 5, MaxExtents: 7, StateLimits: metadata.Limits{1, 2, 3, 4, 5, 6, 7}, MemoryLimit: 1 << 30}).Bounds()
	require.Equal(t, Bounds{
		Bytes: 1 << 28, Extents: 7, PlannedExtents: 7, Producers: 5, QueueBytes: mostQueue, MemberBytes: 1 << 26, ForwardBytes: 1 << 27,
		Limits: metadata.Limits{1, 2, 3, 4, 5, 6, 7},
	}, set)
}

// TestConfig_BoundsOfSpecs: the bounds of a virtual cluster of etcd follow from its own memory and limits, and from no number of virtual clusters.
func TestConfig_BoundsOfSpecs(t *testing.T) {
	cfg := Config{MemoryLimit: 24 << 30, VirtualClusters: make([]VirtualCluster, 3)}
	b := cfg.boundsOf(&directory.Spec{Memory: 1 << 30, Limits: metadata.Limits{metadata.LimitTopics: 7}})
	alone := (&Config{MemoryLimit: 1 << 30}).Bounds()
	alone.Limits[metadata.LimitTopics] = 7
	require.Equal(t, alone, b)
	cfg.MemoryLimit = 1 << 29
	require.Equal(t, (&Config{MemoryLimit: 1 << 29}).Bounds(), cfg.boundsOf(&directory.Spec{Memory: 1 << 30}), "at most the process's memory")
	vc := VirtualCluster{Name: "one"}
	require.Equal(t, cfg.Bounds(), cfg.boundsOf(vc.spec(cfg.share())))
}

// TestConfig_LogLimitsOfSpecs: a virtual cluster of etcd has a log of its own size, which the settings bound. Those of the settings have its limits.
func TestConfig_LogLimitsOfSpecs(t *testing.T) {
	cfg := Config{}
	cfg.ApplyDefaults()
	for _, c := range []struct {
		spec                 directory.Spec
		snapshot, soft, hard int64
	}{
		{directory.Spec{}, 64 << 20, 256 << 20, 512 << 20},
		{directory.Spec{Stored: true}, 8 << 20, 16 << 20, 32 << 20},
		{directory.Spec{Stored: true, LogBytes: directory.MinLogBytes}, 1 << 18, 1 << 19, 1 << 20},
		{directory.Spec{Stored: true, LogBytes: 1 << 40}, 64 << 20, 256 << 20, 512 << 20},
	} {
		snapshot, soft, hard := cfg.logLimitsOf(&c.spec)
		require.Equal(t, []int64{c.snapshot, c.soft, c.hard}, []int64{snapshot, soft, hard}, "%+v", c.spec)
	}
}

func TestConfig_Advertised(t *testing.T) {
	pod := advertise.Place{Hostname: "cp-0", IP: "10.0.0.7"}
	for name, tt := range map[string]struct {
		cfg   Config
		place advertise.Place
		want  string
	}{
		"one address":                 {Config{GRPCListen: "127.0.0.1:0"}, pod, "127.0.0.1:7050"},
		"a name":                      {Config{GRPCListen: "cp.internal:7050"}, pod, "cp.internal:7050"},
		"every address":               {Config{GRPCListen: ":7050"}, pod, "10.0.0.7:7050"},
		"every IPv4 address":          {Config{GRPCListen: "0.0.0.0:7050"}, pod, "10.0.0.7:7050"},
		"every IPv6 address":          {Config{GRPCListen: "[::]:7050"}, advertise.Place{Hostname: "cp-0", IP: "fd00::7"}, "[fd00::7]:7050"},
		"every address, and no IP":    {Config{GRPCListen: ":7050"}, advertise.Place{Hostname: "cp-0"}, "cp-0:7050"},
		"every address with TLS":      {Config{GRPCListen: ":7050", TLS: &tls.Config{}}, pod, "cp-0:7050"},
		"filled in":                   {Config{GRPCListen: ":7050", Advertise: "{hostname}.cp.svc:7051"}, pod, "cp-0.cp.svc:7051"},
		"filled in with the pod's IP": {Config{GRPCListen: ":7050", Advertise: "{ip}:7051"}, pod, "10.0.0.7:7051"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.cfg.advertised(tt.place, 7050)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	for says, cfg := range map[string]Config{
		`--advertise "[::]:7050" is an address that nobody can connect to`:              {GRPCListen: ":7050", Advertise: "[::]:7050"},
		`--advertise ":7050" is no address: set it to host:port`:                        {GRPCListen: ":7050", Advertise: ":7050"},
		`--advertise: advertised address "{ip}:7050": {ip} is not known here`:           {GRPCListen: ":7050", Advertise: "{ip}:7050"},
		`--grpc-listen "7050" has no port: write host:port, or :port for every address`: {GRPCListen: "7050"},
	} {
		_, err := cfg.advertised(advertise.Place{Hostname: "cp-0"}, 7050)
		require.ErrorContains(t, err, says)
	}
	for _, address := range []string{"cp-0", ":443", "0.0.0.0:443", "cp 0:443"} {
		_, err := New(Config{PublicAddress: address})
		require.ErrorContains(t, err, "--public-address ")
	}
}
