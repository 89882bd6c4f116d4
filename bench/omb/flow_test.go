package omb

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/load"
)

// big is a workload of a minute of warm-up and two of test, in periods of ten seconds.
func big() Workload {
	w := NewWorkload()
	w.Name, w.Topics, w.PartitionsPerTopic, w.MessageSize = "big", 2, 3, 1<<20
	w.UseRandomizedPayloads, w.RandomBytesRatio, w.RandomizedPayloadPoolSize = true, 0.5, 10
	w.SubscriptionsPerTopic, w.ConsumerPerSubscription, w.ProducersPerTopic = 2, 3, 4
	w.ProducerRate, w.TestDurationMinutes = 1000, 2
	return w
}

var driver = Driver{Name: "fake", ReplicationFactor: 3, TopicConfig: "a=b\n"}

// conduct runs a workload with a fake worker, by the clock of a bubble.
func conduct(t *testing.T, f *fakeWorker, w Workload) (*Outcome, string, error) {
	t.Helper()
	var out strings.Builder
	outcome, err := Run(t.Context(), Config{Driver: driver, Workload: w, Worker: f, Out: &out})
	return outcome, out.String(), err
}

func TestRun_CourseOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w, began := newFake(1e9, 1e9, 2), big(), time.Now()
		w.ProducersPerTopicList, w.PartitionsPerTopicList, w.KeyDistributor = []int{4, 1}, []int{1, 4}, load.RandomNano
		outcome, out, err := conduct(t, f, w)
		require.NoError(t, err)
		require.Equal(t, []string{
			"init", "topics", "consumers", "producers", "probe", "start at 1000", "reset", "total", "stop load", "stop",
		}, f.calls)
		require.Equal(t, 3*time.Minute, time.Since(began).Round(time.Second))
		require.Equal(t, 2*time.Minute, outcome.Ended.Sub(outcome.Began).Round(time.Millisecond))
		require.Len(t, outcome.Result.PublishRate, 12)
		require.InDelta(t, 1000, outcome.Result.PublishRate[0], 1)
		require.InDelta(t, 2000, outcome.Result.ConsumeRate[11], 1)
		require.Equal(t, 2*outcome.Totals.Sent, outcome.Totals.Received)
		require.Equal(t, []string{"max.block.ms is ignored"}, outcome.Warnings)
		require.Contains(t, out, "warning: max.block.ms is ignored\n")
		require.Equal(t, 18, strings.Count(out, "\nPub rate "))

		require.EqualValues(t, 3, f.topics.Replication)
		require.Equal(t, map[string]string{"a": "b"}, f.topics.Configs)
		require.Empty(t, f.topics.ResetPrefix)
		require.Regexp(t, `^test-topic-0000001-\w{8,}$`, f.topics.Topics[1].Name)
		require.Equal(t, []int32{1, 4}, []int32{f.topics.Topics[0].Partitions, f.topics.Topics[1].Partitions})
		require.Equal(t, load.RandomNano, f.load.Keys)
		require.Len(t, f.producers, 5)
		require.Equal(t, 4, count(f.producers, f.topics.Topics[0].Name))
		require.Len(t, f.consumers, 2*2*3)
		groups := map[load.Subscription]int{}
		for _, c := range f.consumers {
			groups[c]++
		}
		require.Len(t, groups, 4, "two subscriptions of each topic, none shared between topics")
	})
}

func count(list []string, what string) int {
	return len(slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s != what }))
}

func TestRun_FixedNamesAndReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := newFake(1e9, 1e9, 2), big()
		w.RandomTopicNames = false
		_, err := Run(t.Context(), Config{Driver: Driver{Name: "fake", ReplicationFactor: -1, Reset: true}, Workload: w, Worker: f})
		require.NoError(t, err)
		require.Equal(t, "test-topic-0000001-0003", f.topics.Topics[1].Name)
		require.Equal(t, "test-topic-", f.topics.ResetPrefix)
	})
}

// 1000 messages/s of 1 MiB to two subscriptions: 4 GiB have gathered after about 2 s; 1000/s more than what comes in are
// delivered, so that takes 3 s to catch up with; then the whole test comes, in whole periods.
func TestRun_Backlog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := newFake(1e9, 3000, 2), big()
		w.ConsumerBacklogSizeGB = 4
		outcome, out, err := conduct(t, f, w)
		require.NoError(t, err)
		require.Equal(t, []string{"start at 1000", "reset"}, without(f.calls[5:], "pause", "resume", "total", "stop load", "stop"))
		require.Less(t, slices.Index(f.calls, "pause"), slices.Index(f.calls, "resume"))
		require.Regexp(t, `Completed backlog build in [23]\.\d s`, out)
		require.Regexp(t, `Completed backlog draining in [3-5]\.\d s`, out)
		require.Len(t, outcome.Result.Backlog, 13, "the test goes on after the backlog, for two minutes more")
		require.LessOrEqual(t, outcome.Result.Backlog[12], w.drained())
	})
}

func without(list []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(names, s) })
}

// A system that publishes 50,000/s: the search comes near it and stays there.
func TestRun_SearchForTheHighestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := newFake(50_000, 1e9, 2), big()
		w.ProducerRate = 0
		outcome, _, err := conduct(t, f, w)
		require.NoError(t, err)
		require.Contains(t, f.calls, "start at 10000")
		for _, change := range f.rates {
			require.True(t, change.Restart)
			require.LessOrEqual(t, change.Rate, 160_000.0)
		}
		require.InEpsilon(t, 50_000, mean(outcome.Result.PublishRate), 0.2)
		require.InDelta(t, 60, len(f.rates), 1, "every 3 s of 3 minutes")
	})
}

// A curve decides the rate at once and all along; its own field is ignored.
func TestRun_RateCurve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := newFake(1e9, 1e9, 2), big()
		w.ProducerRateList, w.ProducerRate = [][]float64{{0, 100}, {1, 700}, {2, 100}}, 0
		outcome, _, err := conduct(t, f, w)
		require.NoError(t, err)
		require.Contains(t, f.calls, "start at 100")
		require.InDelta(t, 180, len(f.rates), 1, "every second of 3 minutes")
		require.False(t, f.rates[0].Restart, "what is overdue stays so")
		require.InDelta(t, 700, f.rates[59].Rate, 1)
		require.InDelta(t, 650, outcome.Result.PublishRate[0], 10, "the test begins at the top")
		require.InDelta(t, 100, outcome.Result.PublishRate[11], 1)
	})
}

func TestRun_EndedEarly(t *testing.T) {
	for name, c := range map[string]struct {
		after   time.Duration
		periods int
	}{"in the warm-up": {30 * time.Second, 0}, "in the test": {95 * time.Second, 3}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(1e9, 1e9, 2)
				ctx, cancel := context.WithTimeout(t.Context(), c.after)
				defer cancel()
				outcome, err := Run(ctx, Config{Driver: driver, Workload: big(), Worker: f})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, "stop", f.calls[len(f.calls)-1])
				if c.periods == 0 {
					require.Nil(t, outcome)
					return
				}
				require.ErrorIs(t, err, ErrEndedEarly)
				require.Len(t, outcome.Result.PublishRate, c.periods)
				require.Contains(t, f.calls, "total")
			})
		})
	}
}

func TestRun_AFailureOfTheRateEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := newFake(1e9, 1e9, 2), big()
		f.rateErr, w.ProducerRate = errors.New("worker is gone"), 0
		began := time.Now()
		_, _, err := conduct(t, f, w)
		require.ErrorIs(t, err, f.rateErr)
		require.Equal(t, searchPeriod, time.Since(began).Round(time.Second))
		require.Equal(t, "stop", f.calls[len(f.calls)-1])
	})
}

func TestRun_ProbesThatDoNotArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1e9, 1e9, 2)
		f.deaf = true
		_, _, err := conduct(t, f, big())
		require.ErrorIs(t, err, ErrNotReady)
		require.ErrorContains(t, err, "8 probes sent, 0 of 16 received, 12 of 12 consumers in their groups in 1m0s")
	})
}

// The others of a group have read the probes: the run waits all the same.
func TestRun_ConsumerThatDoesNotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(1e9, 1e9, 2)
		f.outside = 1
		_, _, err := conduct(t, f, big())
		require.ErrorIs(t, err, ErrNotReady)
		require.ErrorContains(t, err, "8 probes sent, 16 of 16 received, 11 of 12 consumers in their groups in 1m0s")
	})
}

func TestRun_WarnsOfDoubtfulFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(900, 1500, 2)
		f.cpu = load.CPUUse{Seconds: 19, Share: 0.95}
		outcome, _, err := conduct(t, f, big())
		require.NoError(t, err)
		all := strings.Join(outcome.Warnings, "\n")
		require.Contains(t, all, "messages were not received within 10s after the test")
		require.Contains(t, all, "the schedule could not be kept: 900.0 messages/s of 1000.0")
		require.Contains(t, all, "the client itself used 95 % of its cores")
	})
}

func TestFlow_NextPeriod(t *testing.T) {
	start := time.Unix(0, 0)
	for length, want := range map[time.Duration][]time.Duration{
		30 * time.Second: {10 * time.Second, 20 * time.Second, 30 * time.Second},
		24 * time.Second: {10 * time.Second, 24 * time.Second},
		26 * time.Second: {10 * time.Second, 20 * time.Second, 26 * time.Second},
		time.Second:      {time.Second},
	} {
		w := big()
		f, at := &flow{w: &w}, start
		for _, end := range want {
			at = f.nextPeriod(start, at, length)
			require.Equal(t, end, at.Sub(start), "of %v", length)
		}
	}
}
