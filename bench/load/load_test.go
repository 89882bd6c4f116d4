package load

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake gives a cluster with topic "t", and options for its clients.
func fake(t *testing.T) (*kfake.Cluster, []kgo.Opt) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.ListenAddrs()...), kgo.ProducerLinger(0), kgo.FetchMaxWait(20 * time.Millisecond),
		kgo.MetadataMinAge(20 * time.Millisecond),
	}
	require.NoError(t, CreateTopics(t.Context(), opts, []Topic{{"t", 2}, {"other", 1}}, 1, nil, nil))
	return c, opts
}

// eventually waits for a condition; the wait is bounded by the test's deadline and by a minute.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, 5*time.Millisecond)
}

func producers(t *testing.T, opts []kgo.Opt, rate *Rate, stats *Stats, topics ...string) *Producers {
	t.Helper()
	p, err := NewProducers(ProducerSpec{
		Topics: topics, Options: opts, Payloads: Payloads{make([]byte, 50)}, Keys: RoundRobin, SendTimeHeader: "sent",
	}, rate, stats)
	require.NoError(t, err)
	return p
}

func TestLoad_EverythingSentIsReceivedByEachGroup(t *testing.T) {
	_, opts := fake(t)
	stats, rate := NewStats(), NewRate(2000)
	consumers, err := StartConsumers(ConsumerSpec{
		Subscriptions: []Subscription{{"t", "a"}, {"t", "a"}, {"t", "b"}}, Options: append(opts, kgo.DisableAutoCommit()),
		CommitPolled: true, SendTimeHeader: "sent", MaxPollRecords: 10,
	}, stats)
	require.NoError(t, err)
	p := producers(t, opts, rate, stats, "t", "t", "t")
	require.NoError(t, p.Probe(t.Context()))
	require.EqualValues(t, 3, stats.Counters().Sent)
	require.NoError(t, p.Start())
	eventually(t, func() bool { return stats.Counters().Sent > 500 })
	require.NoError(t, p.Stop(t.Context()))
	eventually(t, func() bool { c := stats.Counters(); return c.Received == 2*c.Sent })
	require.NoError(t, consumers.Close())
	period := stats.Snapshot()
	require.Zero(t, period.Counters.Failed)
	require.Empty(t, period.LastError)
	require.EqualValues(t, 50*(period.Counters.Sent-3), period.Counters.BytesSent)
	require.Equal(t, period.Counters.Sent-3, period.Latencies.Publish.TotalCount())
	require.Positive(t, period.Latencies.EndToEnd.Min(), "latency of less than a millisecond is seen by the header")
}

// polledRecords counts what consumers polled.
type polledRecords struct{ atomic.Int64 }

func (p *polledRecords) OnFetchRecordUnbuffered(_ *kgo.Record, polled bool) {
	if polled {
		p.Add(1)
	}
}

// A second consumer joins while the first has polled records but not yet counted them: the group waits, and each record
// is counted once.
func TestConsumers_RebalanceCountsNothingTwice(t *testing.T) {
	cluster, opts := fake(t)
	var joins, beats atomic.Int64
	var polled polledRecords
	member := append(slices.Clone(opts), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(20*time.Millisecond), kgo.WithHooks(&polled))
	for key, n := range map[kmsg.Key]*atomic.Int64{kmsg.JoinGroup: &joins, kmsg.Heartbeat: &beats} {
		cluster.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			n.Add(1)
			return nil, nil, false
		})
	}
	stats := NewStats()
	join := func() *Consumers {
		c, err := StartConsumers(ConsumerSpec{Subscriptions: []Subscription{{"t", "a"}}, Options: member, CommitPolled: true}, stats)
		require.NoError(t, err)
		return c
	}
	first := join()
	p := producers(t, opts, NewRate(1), stats, "t", "t", "t", "t")
	require.NoError(t, p.Probe(t.Context()))
	eventually(t, func() bool { return stats.Counters() == Counters{Sent: 4, Received: 4, BytesReceived: 40, Joined: 1} })

	counting := stats.Receive() // nobody else counts
	require.NoError(t, p.Probe(t.Context()))
	eventually(t, func() bool { return polled.Load() > 4 })
	before, beaten := joins.Load(), beats.Load()
	second := join()
	const oneJoin = 2 // requests: to be given a name, and with it
	eventually(t, func() bool {
		return joins.Load() > before+oneJoin || joins.Load() == before+oneJoin && beats.Load() > beaten+5
	})
	counting.Done()
	eventually(t, func() bool { return stats.Counters().Joined == 2 })
	require.NoError(t, p.Probe(t.Context()))
	eventually(t, func() bool { return stats.Counters().Received >= 12 })
	require.NoError(t, p.Stop(t.Context()))
	require.NoError(t, errors.Join(first.Close(), second.Close()))
	require.EqualValues(t, 12, stats.Counters().Received)
}

func TestConsumers_PauseAndResume(t *testing.T) {
	_, opts := fake(t)
	stats := NewStats()
	consumers, err := StartConsumers(ConsumerSpec{Subscriptions: []Subscription{{"t", "a"}}, Options: opts}, stats)
	require.NoError(t, err)
	p := producers(t, opts, NewRate(500), stats, "t")
	require.NoError(t, p.Probe(t.Context()))
	eventually(t, func() bool { return stats.Counters().Received == 1 })
	consumers.Pause()
	consumers.Pause()
	require.NoError(t, p.Start())
	eventually(t, func() bool { return stats.Counters().Sent > 200 })
	behind := stats.Counters()
	require.Less(t, behind.Received, behind.Sent, "at most the poll under way came in")
	consumers.Resume()
	require.NoError(t, p.Stop(t.Context()))
	eventually(t, func() bool { c := stats.Counters(); return c.Received == c.Sent })
	require.NoError(t, consumers.Close())
}

// A server that stalls: the client's buffer fills, senders block, and what they send late has the delay to show for it.
// No message is left out.
func TestProducers_AStallShowsAsDelay(t *testing.T) {
	cluster, opts := fake(t)
	stats, rate := NewStats(), NewRate(1000)
	opened := make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		<-opened
		return nil, nil, false
	})
	p := producers(t, append(opts, kgo.MaxBufferedRecords(20)), rate, stats, "t")
	require.NoError(t, p.Start())
	eventually(t, func() bool { return rate.Overdue() > 200 })
	close(opened)
	eventually(t, func() bool { return stats.Counters().Sent > 400 })
	rate.Set(0) // nothing more becomes due
	due := int64(rate.segments[len(rate.segments)-1].already)
	eventually(t, func() bool { return rate.Overdue() == 0 })
	require.NoError(t, p.Stop(t.Context()))
	period := stats.Snapshot()
	require.Greater(t, period.Latencies.PublishDelay.Max(), int64(150_000), "microseconds")
	require.GreaterOrEqual(t, period.Counters.Sent, due, "all that was due was sent")
}

func TestProducers_FailuresAreCounted(t *testing.T) {
	cluster, opts := fake(t)
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return nil, errors.New("down"), true
	})
	stats := NewStats()
	p := producers(t, append(opts, kgo.RecordDeliveryTimeout(time.Second), kgo.AllowIdempotentProduceCancellation()), NewRate(100), stats, "t")
	require.NoError(t, p.Start())
	eventually(t, func() bool { return stats.Counters().Failed > 10 })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "messages were still buffered")
	}
	period := stats.Snapshot()
	require.NotEmpty(t, period.LastError)
	require.Zero(t, period.Counters.Sent)
}

func TestProducers_BadSpecifications(t *testing.T) {
	_, err := NewProducers(ProducerSpec{}, NewRate(1), NewStats())
	require.ErrorIs(t, err, ErrSpec)
	p, err := NewProducers(ProducerSpec{Topics: []string{"t"}, Options: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}}, NewRate(1), NewStats())
	require.NoError(t, err)
	require.ErrorIs(t, p.Start(), ErrSpec)
	require.NoError(t, p.Stop(t.Context()))
	_, err = NewProducers(ProducerSpec{Topics: []string{"t"}, Options: []kgo.Opt{kgo.SeedBrokers()}}, NewRate(1), NewStats())
	require.ErrorContains(t, err, "make producer for topic t")
	_, err = StartConsumers(ConsumerSpec{Subscriptions: []Subscription{{"t", "g"}}, Options: []kgo.Opt{kgo.SeedBrokers()}}, NewStats())
	require.ErrorContains(t, err, "make consumer of topic t in group g")
}

func TestTopics_CreateAndDelete(t *testing.T) {
	cluster, opts := fake(t)
	var done []int
	require.NoError(t, CreateTopics(t.Context(), opts, []Topic{{"x-1", 1}, {"x-2", 3}, {"t", 9}}, 1, map[string]string{"retention.ms": "5"},
		func(n int) { done = append(done, n) }))
	require.Equal(t, []int{1, 2, 3}, done)
	n, err := DeleteTopics(t.Context(), opts, func(name string) bool { return name[0] == 'x' })
	require.NoError(t, err)
	require.Equal(t, 2, n)
	cluster.ControlKey(int16(kmsg.CreateTopics), func(request kmsg.Request) (kmsg.Response, error, bool) {
		response := request.ResponseKind().(*kmsg.CreateTopicsResponse)
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic, topic.ErrorCode = "bad", kerr.InvalidTopicException.Code
		response.Topics = append(response.Topics, topic)
		return response, nil, true
	})
	err = CreateTopics(t.Context(), opts, []Topic{{"bad", 1}}, 1, nil, nil)
	require.ErrorIs(t, err, kerr.InvalidTopicException)
	require.ErrorContains(t, err, "create topic bad")
}
