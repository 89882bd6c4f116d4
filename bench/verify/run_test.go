package verify

import (
	"context"
	"encoding/json"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/bench/verify/oracle"
)

// Tests wait most of the time, so more of them run at once than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// verifyWith runs the checker for a few seconds against a fake cluster, through what may be wrong with it.
func verifyWith(t *testing.T, f *faulty, transactions bool, set func(*Config)) (Report, error) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	defer cluster.Close()
	f.t = t
	defer f.pumps.Wait()
	var out, progress strings.Builder
	cfg := Config{
		Bootstrap: cluster.ListenAddrs(), Duration: 4 * time.Second, Patience: 20 * time.Second, Rate: 600, Producers: 2, Partitions: 3,
		Groups: 1, Members: 2, Churn: 2 * time.Second, Transactions: transactions, Seed: 1, Size: 60, Progress: time.Second,
		JSON: true, Out: &out, Err: &progress,
		Options: func() []kgo.Opt {
			return []kgo.Opt{
				kgo.Dialer(f.dial), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(20 * time.Millisecond),
				kgo.HeartbeatInterval(100 * time.Millisecond),
			}
		},
	}
	if set != nil {
		set(&cfg)
	}
	cfg.ApplyDefaults()
	require.NoError(t, cfg.Validate())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err = Run(ctx, cfg)
	t.Log(progress.String())
	var report Report
	require.NoError(t, json.Unmarshal([]byte(out.String()), &report), out.String())
	return report, err
}

// runLengths are how long a run with a planted fault lasts: the next one if in the one before, on a busy machine, the
// moment did not come at which the fault is planted. Some faults keep readers from ever reaching the end, and a run
// waits as long for them again.
var runLengths = []time.Duration{2 * time.Second, 5 * time.Second, 15 * time.Second, 40 * time.Second}

// findEach plants one fault after the other; each must be found as what it is.
func findEach(t *testing.T, faults []planted, transactions bool) {
	t.Helper()
	t.Parallel()
	for _, p := range faults {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			var report Report
			var err error
			for _, length := range runLengths {
				f := &faulty{}
				p.plant(f)
				report, err = verifyWith(t, f, transactions, func(c *Config) {
					if p.set != nil {
						p.set(c)
					}
					c.Duration, c.Patience = length, max(length, 4*time.Second)
				})
				if err != nil && p.foundIn(report) {
					break
				}
			}
			require.ErrorIs(t, err, ErrFindings)
			require.False(t, report.Clean)
			for _, class := range p.want {
				require.NotZero(t, report.Classes[class], "want %s, found %v", class, report.Classes)
			}
			for _, finding := range report.Kept {
				require.NotEmpty(t, finding.Evidence)
				require.False(t, finding.Time.IsZero())
			}
		})
	}
}

// Nothing is wrong, and everything is checked.
func TestRun_Clean(t *testing.T) {
	t.Parallel()
	var report Report
	for _, length := range runLengths[1:] {
		var err error
		report, err = verifyWith(t, &faulty{}, true, func(c *Config) { c.Groups, c.NextGen, c.Duration = 2, true, length })
		require.NoError(t, err)
		require.True(t, report.Clean)
		if busy(&report) {
			break
		}
	}
	require.NotZero(t, report.Passes)
	require.NotZero(t, report.Commits)
	require.Len(t, report.Topics, 2)
	for _, each := range report.Topics {
		require.NotZero(t, each.Counts.Compared)
		require.NotZero(t, each.Counts.EndsTold)
		require.GreaterOrEqual(t, each.Counts.Read, each.Counts.Acked)
		require.Len(t, each.Groups, 3)
		for _, g := range each.Groups {
			require.NotZero(t, g.CommitsChecked, g.Group)
			require.NotZero(t, g.Generations, g.Group)
		}
	}
	require.NotZero(t, report.Topics[1].Counts.Aborted)
	require.NotZero(t, report.Topics[1].Counts.Committed)
	require.NotZero(t, report.Topics[1].Counts.Markers)
}

// busy tells whether a run came to everything that it checks; on a busy machine a short one may not.
func busy(r *Report) bool {
	all := r.Commits > 0 && r.Passes > 0
	for _, each := range r.Topics {
		all = all && each.Counts.EndsTold > 0
		for _, g := range each.Groups {
			all = all && g.CommitsChecked > 0 && g.Generations > 0
		}
	}
	last := r.Topics[len(r.Topics)-1].Counts
	return all && last.Aborted > 0 && last.Committed > 0 && last.Markers > 0
}

// losesAnswers drops the connection instead of every nth answer to a produce.
func losesAnswers(n int) *faulty {
	f := &faulty{}
	count := 0
	f.request = func(req kmsg.Request) (kmsg.Response, bool) {
		if req.Key() != 0 {
			return nil, false
		}
		count++
		return nil, count%n == 0
	}
	return f
}

// A lost answer is no fault: idempotent producers get over it.
func TestRun_LostAnswers(t *testing.T) {
	t.Parallel()
	report, err := verifyWith(t, losesAnswers(10), true, nil)
	require.NoError(t, err)
	require.True(t, report.Clean)
}

// Producers without idempotence write again what was not answered: that is counted, and no fault.
func TestRun_PlainProducersRepeat(t *testing.T) {
	t.Parallel()
	report, err := verifyWith(t, losesAnswers(10), false, func(c *Config) { c.Plain = true })
	require.NoError(t, err)
	require.NotZero(t, report.Topics[0].Counts.Duplicates)
}

// The same from an idempotent producer is a fault.
func TestRun_IdempotenceBroken(t *testing.T) {
	t.Parallel()
	f := losesAnswers(10)
	lose := f.request
	f.request = func(req kmsg.Request) (kmsg.Response, bool) {
		stripped(req)
		return lose(req)
	}
	report, err := verifyWith(t, f, false, nil)
	require.ErrorIs(t, err, ErrFindings)
	require.NotZero(t, report.Classes[oracle.Duplicate])
}

// What a producer gave up may be there or not.
func TestRun_ProducersGiveUp(t *testing.T) {
	t.Parallel()
	now := after(late)
	f := &faulty{answer: func(_ kmsg.Request, resp kmsg.Response) {
		if r, ok := resp.(*kmsg.ProduceResponse); ok && now() {
			r.Topics[0].Partitions[0].ErrorCode = kerr.MessageTooLarge.Code
		}
	}}
	report, err := verifyWith(t, f, false, func(c *Config) { c.Plain = true })
	require.NoError(t, err)
	require.NotZero(t, report.Topics[0].Counts.Unknown)
}

// A cluster that takes nothing is not clean: nothing was checked.
func TestRun_NothingAcknowledged(t *testing.T) {
	t.Parallel()
	f := &faulty{answer: func(_ kmsg.Request, resp kmsg.Response) {
		if r, ok := resp.(*kmsg.ProduceResponse); ok {
			for i := range r.Topics {
				for j := range r.Topics[i].Partitions {
					r.Topics[i].Partitions[j].ErrorCode = kerr.TopicAuthorizationFailed.Code
				}
			}
		}
	}}
	report, err := verifyWith(t, f, false, nil)
	require.ErrorIs(t, err, ErrFindings)
	require.NotZero(t, report.Classes[oracle.NothingDone])
}

// The end of the context ends producing early; what was written is judged all the same.
func TestRun_EndsEarly(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	defer cluster.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var out strings.Builder
	cfg := Config{
		Bootstrap: cluster.ListenAddrs(), Duration: time.Hour, Rate: 300, Partitions: 2, Members: 1, Out: &out, Progress: time.Second,
		Patience: 10 * time.Second,
	}
	cfg.ApplyDefaults()
	stop := time.AfterFunc(5*time.Second, cancel)
	defer stop.Stop()
	require.NoError(t, Run(ctx, cfg), "%s", &out)
	require.Contains(t, out.String(), "verdict")
	require.Contains(t, out.String(), "clean")
}

func TestRun_NoCluster(t *testing.T) {
	cfg := Config{Bootstrap: []string{"127.0.0.1:1"}, Patience: 500 * time.Millisecond}
	cfg.ApplyDefaults()
	err := Run(t.Context(), cfg)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrFindings)
}

func TestConfig_NamesAllFaults(t *testing.T) {
	cfg := Config{Size: 3, Producers: -1, Rate: -1, Aborts: 2, Duration: -1}
	cfg.ApplyDefaults()
	err := cfg.Validate()
	for _, name := range []string{"size is 3, want 40 to", "producers is -1", "rate is -1", "aborts is 2, want 0 to 1", "duration is -1ns"} {
		require.ErrorContains(t, err, name)
	}
}
