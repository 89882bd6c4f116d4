package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/javaconfig"
	"github.com/freshet-io/freshet/bench/observe"
	"github.com/freshet-io/freshet/bench/omb"
	"github.com/freshet-io/freshet/bench/workloads"
)

func cluster(t *testing.T) (addresses string, admin *kadm.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return c.ListenAddrs()[0], kadm.NewClient(client)
}

// TestRun_GoesOnAfterAFailure: of three workloads, the first asks one broker for three replicas. The others
// are measured, everything is in the report, nothing stays behind in the cluster.
func TestRun_GoesOnAfterAFailure(t *testing.T) {
	addresses, admin := cluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, summary bytes.Buffer
	cfg := Config{
		Bootstrap: addresses, Only: []string{"automq-emergency-scaling", "azure-1g", "automq-perf-tail-read"},
		Scale: workloads.Scale{Factor: 0.0005, Duration: leastDuration}, Dir: filepath.Join(t.TempDir(), "out"), Out: &out, JSON: &summary,
		Targets: []observe.Target{{Name: "me", PID: os.Getpid()}}, dpi: 36, // the detector of races makes each pixel dear
	}
	err := Run(ctx, cfg)
	require.ErrorIs(t, err, ErrFailed)
	require.ErrorContains(t, err, "1 of 3 workloads failed:\nautomq-emergency-scaling: create topic")
	require.Regexp(t, ` 2/3  azure-1g +[\d.]+s +\d+\.\d msg/s in`, out.String())
	require.Regexp(t, ` 1/3  automq-emergency-scaling +[\d.]+s  failed: `, out.String())
	require.Regexp(t, ` 3/3  automq-perf-tail-read +[\d.]+s +\d+\.\d msg/s in`, out.String())

	page, err := os.ReadFile(filepath.Join(cfg.Dir, "index.html"))
	require.NoError(t, err)
	for _, want := range []string{"azure-1g", "automq-emergency-scaling failed: create topic", "automq-perf-tail-read", "8.32", "0.0005 of the published rates"} {
		require.Contains(t, string(page), want)
	}
	var all []Summary
	require.NoError(t, json.Unmarshal(summary.Bytes(), &all))
	require.Len(t, all, 3)
	require.Positive(t, all[1].Figures.PublishRate)
	require.Positive(t, all[1].Figures.EndToEndP99)
	require.InEpsilon(t, 65536, all[1].Figures.MessageBytes, 0.01)
	require.NotEmpty(t, all[0].Error)
	require.Nil(t, all[0].Figures)
	require.Positive(t, all[2].Figures.PublishRate)
	require.Equal(t, "AutoMQ, \"AutoMQ Performance Benchmark on Azure\", April 2025", all[1].Source)
	for _, i := range []int{1, 2} {
		require.Contains(t, all[i].Settings, map[int]workloads.Setting{
			1: {Name: "producerRate", Original: "16640", Effective: "8.32"},
			2: {Name: "send-rate", Original: "1600", Effective: "1"},
		}[i])
		require.FileExists(t, all[i].Result)
		_, err := observe.ReadFile(observe.PathFor(all[i].Result))
		require.NoError(t, err)
	}
	topics, err := admin.ListTopics(ctx)
	require.NoError(t, err)
	require.Empty(t, topics.Names())
	groups, err := admin.ListGroups(ctx)
	require.NoError(t, err)
	require.Empty(t, groups.Groups())
}

// TestRun_Interrupted: what did not run is in the report, too.
func TestRun_Interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	cfg := Config{Only: []string{"azure-1g"}, Dir: t.TempDir(), Out: &out}
	require.ErrorIs(t, Run(ctx, cfg), context.Canceled)
	page, err := os.ReadFile(filepath.Join(cfg.Dir, "index.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), "not run")
}

func TestConfig_Faults(t *testing.T) {
	cfg := Config{
		Only: []string{"vanity"}, Scale: workloads.Scale{Factor: 2, Duration: time.Second}, Replication: -2, Common: "\\u12",
	}
	cfg.ApplyDefaults()
	err := cfg.Validate()
	for _, want := range []string{"unknown workload vanity", "scale is 2", "duration is 1s", "replication factor is -2"} {
		require.ErrorContains(t, err, want)
	}
	require.ErrorIs(t, err, workloads.ErrUnknown)
}

func TestReplicate_LowersWhatMustBeInSync(t *testing.T) {
	for replication, want := range map[int16]string{0: "2", 1: "1", 2: "2", -1: "1"} {
		m := &matrix{cfg: Config{Replication: replication}}
		d := omb.Driver{Name: "d", ReplicationFactor: 3, TopicConfig: "min.insync.replicas=2\nretention.ms=5\n"}
		require.NoError(t, m.replicate(&d))
		configs, err := javaconfig.Parse(d.TopicConfig)
		require.NoError(t, err)
		require.Equal(t, want, configs[minISR], replication)
		require.Equal(t, "5", configs["retention.ms"])
		if replication != 0 {
			require.Equal(t, replication, d.ReplicationFactor)
		}
	}
}

func TestLost(t *testing.T) {
	require.NoError(t, lost(0, -5), "duplicates are not losses")
	require.ErrorIs(t, lost(1, 0), errLost)
	require.ErrorContains(t, lost(1, 2), "1 not acknowledged, 2 not received")
}

func TestBar_MovesThroughParts(t *testing.T) {
	var terminal bytes.Buffer
	b := newBar(&terminal, []time.Duration{time.Second, 3 * time.Second})
	b.begin("1/2 first")
	b.end()
	b.begin("2/2 second")
	b.clear()
	b.end()
	require.Contains(t, terminal.String(), "2/2 second")
	require.Equal(t, 4*time.Second, b.done)
	none := newBar(nil, []time.Duration{time.Second})
	none.begin("x")
	none.clear()
	none.end()
}

func TestOutcome_Status(t *testing.T) {
	o := outcome{}
	require.Equal(t, "measured", o.status())
	o.notes.Warnings, o.observed = []string{"slow"}, &observe.Series{Warnings: []string{"no metrics"}}
	require.Equal(t, []string{"slow", "no metrics"}, o.warnings())
	o.err = errors.Join(errTooLong, errLost)
	require.Equal(t, "failed", o.status())
	require.Equal(t, "failed: took too long; messages lost", o.fault())
}
