package faults

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/ledger"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	producers  = 3
	partitions = 6
	interval   = 20 * time.Millisecond // between records of one producer to one partition

	// drain is how long producers may take at the end to get rid of what is in flight.
	drain = time.Minute
)

var topics atomic.Int32

// traffic is idempotent producers that write into a topic of their own while a test breaks things.
type traffic struct {
	t         *testing.T
	bootstrap string
	load      *ledger.Load
	stop      context.CancelFunc
	ended     chan error
}

// prompt adds what has a client try again as soon as the cluster may be back: stalls are to be the cluster's. By default franz-go
// waits for up to 5 s when it has failed a few times, and for 5 s from one look at Metadata to the next.
func prompt(options ...kgo.Opt) []kgo.Opt {
	return append(options,
		kgo.MetadataMinAge(100*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }))
}

// clientTimeout is after what time impatient producers send again. It comes on top of a fault's own time where what they sent
// meanwhile is answered by nobody.
const clientTimeout = 3 * time.Second

// options of producers that must not wait 20 s, as they do by default, for an agent that is there and does not answer.
func impatient() []kgo.Opt {
	return []kgo.Opt{
		kgo.ProduceRequestTimeout(clientTimeout - time.Second), kgo.RequestTimeoutOverhead(time.Second),
		kgo.AlwaysRetryEOF(), // a connection's first request may meet the kill
	}
}

// startTraffic creates a topic, starts producers and waits until every one of them has been answered.
func startTraffic(t *testing.T, bootstrap ...string) *traffic {
	t.Helper()
	return startTrafficWith(t, nil, bootstrap...)
}

// startTrafficWith is startTraffic with further options of the producers.
func startTrafficWith(t *testing.T, options []kgo.Opt, bootstrap ...string) *traffic {
	t.Helper()
	require.NotEmpty(t, bootstrap)
	topic := fmt.Sprintf("faults-%d", topics.Add(1))
	createTopic(t, topic, partitions, bootstrap...)
	ctx, stop := context.WithCancel(context.Background())
	tr := &traffic{
		t: t, bootstrap: bootstrap[0], stop: stop, ended: make(chan error, 1),
		load: &ledger.Load{
			Ledger: ledger.New(), Topic: topic, Partitions: partitions, Producers: producers, Interval: interval,
			Options: append(prompt(kgo.SeedBrokers(bootstrap...)), options...),
		},
	}
	go func() { tr.ended <- tr.load.Run(ctx, drain) }()
	t.Cleanup(stop)
	tr.progress(producers * partitions * 20)
	t.Logf("longest wait in quiet times %s", tr.load.LongestWriterStall().Round(time.Millisecond))
	tr.load.ResetStalls()
	return tr
}

// progress waits until so many further records were acknowledged.
func (tr *traffic) progress(records int) {
	tr.t.Helper()
	want := tr.load.Ledger.Acked() + records
	harness.Await(tr.t, fmt.Sprintf("%d more records acknowledged", records), func() bool {
		return tr.load.Ledger.Acked() >= want
	})
}

// flows waits until the traffic has got over what was done to it: a second's records.
func (tr *traffic) flows() {
	tr.t.Helper()
	tr.progress(int(time.Second/interval) * producers * partitions)
}

// finish stops the producers and checks that no client saw an error, and that everything acknowledged is there, in
// order, once, at the offset it was answered. It gives the longest time that one producer had to wait for an
// acknowledgement in one partition.
func (tr *traffic) finish() time.Duration {
	tr.t.Helper()
	tr.stop()
	require.NoError(tr.t, <-tr.ended)
	if failures := tr.load.Failures(); len(failures) > 0 {
		require.NoError(tr.t, failures[0], "%d records; clients must get over the fault by themselves", len(failures))
	}
	acked := tr.load.Ledger.Acked()
	reads := readAll(tr.t, tr.load.Topic, tr.bootstrap)
	require.Empty(tr.t, tr.load.Ledger.Check(reads, ledger.Rules{}))
	require.Len(tr.t, reads, acked, "everything sent was acknowledged, so everything is there")
	stall := tr.load.LongestWriterStall()
	tr.t.Logf("%d records acknowledged, all there once and in order; longest stall %s", acked, stall.Round(time.Millisecond))
	return stall
}

func createTopic(t *testing.T, topic string, partitions int32, bootstrap ...string) {
	t.Helper()
	admin := kadm.NewClient(newClient(t, bootstrap...))
	ctx, cancel := context.WithTimeout(t.Context(), finishing)
	defer cancel()
	_, err := admin.CreateTopic(ctx, partitions, 1, nil, topic)
	require.NoError(t, err)
}

// readAll reads all of a topic, up to the ends it has now.
func readAll(t *testing.T, topic, bootstrap string) []ledger.Read {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), finishing)
	defer cancel()
	listed, err := kadm.NewClient(newClient(t, bootstrap)).ListEndOffsets(ctx, topic)
	require.NoError(t, err)
	require.NoError(t, listed.Error())
	ends := make(map[int32]int64)
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	reads, err := ledger.ReadAll(ctx, topic, ends, kgo.SeedBrokers(bootstrap))
	require.NoError(t, err)
	return reads
}

// newClient gives a client that ends with the test.
func newClient(t *testing.T, bootstrap ...string) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}
