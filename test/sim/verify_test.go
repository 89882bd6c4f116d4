package sim

import (
	"context"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/ledger"
)

// load is a running ledger.Load.
type load struct {
	ledger.Load
	c      *cluster
	cancel context.CancelFunc
	ended  chan error
	// failing allows producers to give up records.
	failing bool
}

// mayFail allows producers to give up records (those that never try again).
func (l *load) mayFail() *load {
	l.failing = true
	return l
}

// startLoad begins to produce into a topic, which it creates. Every producer writes one record to every partition per
// interval.
func (c *cluster) startLoad(topic string, partitions int32, producers int, interval time.Duration, more ...kgo.Opt) *load {
	c.t.Helper()
	c.createTopic(topic, partitions)
	l := &load{
		Load: ledger.Load{
			Ledger: ledger.New(), Topic: topic, Partitions: partitions, Producers: producers, Interval: interval,
			Options: c.clientOptions(more...),
		},
		c: c, ended: make(chan error, 1),
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() { l.ended <- l.Run(ctx, patience) }()
	c.t.Cleanup(cancel)
	return l
}

// more waits until that many more records were acknowledged.
func (l *load) more(records int) {
	l.c.t.Helper()
	from := l.Ledger.Acked()
	l.c.await("progress", func() bool { return l.Ledger.Acked() >= from+records })
}

// stop ends producing, waits for what is in flight and checks everything.
func (l *load) stop(rules ledger.Rules) {
	l.c.t.Helper()
	l.cancel()
	require.NoError(l.c.t, <-l.ended)
	failures := l.Failures()
	if len(failures) > 0 {
		l.c.t.Logf("%d records given up, the first: %v", len(failures), failures[0])
	}
	if !l.failing {
		require.Zero(l.c.t, len(failures), "records that producers gave up")
	}
	l.check(rules)
}

// check reads everything through every agent. All must read the same, offsets without holes, as the ledger wants it.
func (l *load) check(rules ledger.Rules) {
	c := l.c
	c.t.Helper()
	var first map[int32][]ledger.Read
	for i, a := range c.agents {
		reads := l.read(a)
		byPartition := map[int32][]ledger.Read{}
		for _, r := range reads {
			require.EqualValues(c.t, len(byPartition[r.Partition]), r.Offset, "partition %d through %s: offsets have a hole", r.Partition, a.name)
			byPartition[r.Partition] = append(byPartition[r.Partition], r)
		}
		if i == 0 {
			faults := l.Ledger.Check(reads, rules)
			require.Empty(c.t, faults, "through %s:\n%s", a.name, strings.Join(faults, "\n"))
			first = byPartition
			continue
		}
		require.Equal(c.t, first, byPartition, "%s and %s read different things", c.agents[0].name, a.name)
	}
	c.t.Logf("%d records acknowledged, longest stall %v", l.Ledger.Acked(), l.LongestStall().Round(time.Millisecond))
}

// allOfATopic is how long one agent may take to give all of a topic: a minute's load has ten thousand records and more.
const allOfATopic = 2 * patience

// read reads all of the topic through one agent.
func (l *load) read(a *node) []ledger.Read {
	c := l.c
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), allOfATopic)
	defer cancel()
	reads, err := ledger.ReadAll(ctx, l.Topic, c.ends(ctx, a, l.Topic), c.pinnedOptions(a)...)
	require.NoError(c.t, err, "read through %s", a.name)
	return reads
}

// ends gives the end offsets that one agent tells.
func (c *cluster) ends(ctx context.Context, a *node, topic string) map[int32]int64 {
	c.t.Helper()
	client := c.pinned(a)
	defer client.Close()
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	require.NoError(c.t, err)
	require.NoError(c.t, listed.Error())
	ends := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	return ends
}
