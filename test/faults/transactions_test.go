package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/freshet-io/freshet/test/harness"
)

// fate is what a producer knows of a transaction.
type fate uint8

const (
	unknown fate = iota // all of it is there, or none
	kept
	dropped
)

// tellers are transactional producers of both protocols that abort at random. A record's value is
// "transaction/record".
type tellers struct {
	t         *testing.T
	bootstrap []string
	topic     string
	ctx       context.Context //nolint:containedctx // of all that run
	cancel    context.CancelFunc
	done      sync.WaitGroup

	mu    sync.Mutex
	fates map[string]fate
	sizes map[string]int
}

const tellerPartitions = 3

// finishing bounds the reading of a partition, from when on transactions that clients left open time out.
const finishing = 3 * time.Minute

func startTellers(t *testing.T, each int, bootstrap ...string) *tellers {
	t.Helper()
	x := &tellers{t: t, bootstrap: bootstrap, topic: fmt.Sprintf("tellers-%d", topics.Add(1)), fates: map[string]fate{}, sizes: map[string]int{}}
	createTopic(t, x.topic, tellerPartitions, bootstrap...)
	x.ctx, x.cancel = context.WithCancel(context.Background())
	t.Cleanup(x.cancel)
	for i := range each {
		for _, old := range []bool{false, true} {
			x.done.Go(func() { x.tell(fmt.Sprintf("%s-%d-%v", x.topic, i, old), old) })
		}
	}
	x.commits(20)
	return x
}

// tell produces transactions. A client that does not know how one ended is replaced, which aborts what it left.
func (x *tellers) tell(name string, old bool) {
	rng := rand.New(rand.NewPCG(1, uint64(len(name))))
	opts := append(impatient(), kgo.SeedBrokers(x.bootstrap...), kgo.TransactionalID(name), kgo.TransactionTimeout(20*time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RetryTimeout(20*time.Second), kgo.RecordDeliveryTimeout(15*time.Second),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.ProducerLinger(0))
	if old {
		opts = append(opts, kgo.MaxVersions(kversion.V3_8_0()))
	}
	for n := 0; x.ctx.Err() == nil; {
		client, err := kgo.NewClient(opts...)
		if err != nil {
			x.t.Error(err)
			return
		}
		for known := true; known && x.ctx.Err() == nil; n++ {
			known = x.transaction(client, fmt.Sprintf("%s-%d", name, n), rng)
		}
		client.Close()
	}
}

// transaction produces one; false if its end is not known.
func (x *tellers) transaction(client *kgo.Client, name string, rng *rand.Rand) bool {
	records := make([]*kgo.Record, 1+rng.IntN(6))
	for i := range records {
		records[i] = &kgo.Record{Topic: x.topic, Partition: int32(rng.IntN(tellerPartitions)), Value: []byte(fmt.Sprintf("%s/%d", name, i))}
	}
	x.note(name, len(records), unknown)
	if client.BeginTransaction() != nil {
		return false
	}
	commit := client.ProduceSync(x.ctx, records...).FirstErr() == nil && rng.IntN(10) < 7
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if !commit && client.AbortBufferedRecords(ctx) != nil || client.EndTransaction(ctx, kgo.TransactionEndTry(commit)) != nil {
		return false
	}
	f := dropped
	if commit {
		f = kept
	}
	x.note(name, len(records), f)
	return true
}

func (x *tellers) note(name string, records int, f fate) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fates[name], x.sizes[name] = f, records
}

// commits waits until so many more transactions were committed.
func (x *tellers) commits(more int) {
	x.t.Helper()
	count := func() (n int) {
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, f := range x.fates {
			if f == kept {
				n++
			}
		}
		return n
	}
	want := count() + more
	harness.Await(x.t, fmt.Sprintf("%d more transactions committed", more), func() bool { return count() >= want })
}

// finish ends the load and checks what readers of committed records get: all of what was committed, once, nothing of
// what was aborted, and of the others all or nothing.
func (x *tellers) finish() {
	x.t.Helper()
	x.cancel()
	x.done.Wait()
	got, seen := map[string]int{}, map[string]bool{}
	for p := range int32(tellerPartitions) {
		for _, value := range x.committed(p) {
			require.False(x.t, seen[value], "%s is there twice", value)
			seen[value] = true
			name, _, _ := strings.Cut(value, "/")
			got[name]++
		}
	}
	for name, f := range x.fates {
		switch n := got[name]; f {
		case kept:
			require.Equal(x.t, x.sizes[name], n, "records of %s, which was committed", name)
		case dropped:
			require.Zero(x.t, n, "records of %s, which was aborted", name)
		default:
			require.True(x.t, n == 0 || n == x.sizes[name], "%s is torn: %d of %d", name, n, x.sizes[name])
		}
	}
	x.t.Logf("%d transactions", len(x.fates))
}

// committed reads a partition as a reader of committed records does, up to the last stable offset as of now.
func (x *tellers) committed(partition int32) (values []string) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), finishing)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(x.bootstrap...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{x.topic: {partition: kgo.NewOffset().AtStart()}}),
	)
	require.NoError(x.t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	var end int64
	harness.Await(x.t, "every transaction has ended", func() bool { // what clients left open times out
		ends, err := admin.ListEndOffsets(ctx, x.topic)
		stable, errStable := admin.ListCommittedOffsets(ctx, x.topic)
		if err != nil || errStable != nil {
			return false
		}
		all, _ := ends.Lookup(x.topic, partition)
		at, _ := stable.Lookup(x.topic, partition)
		end = at.Offset
		return all.Offset == at.Offset
	})
	for at := int64(0); at < end; {
		fetches := client.PollFetches(ctx)
		require.NoError(x.t, fetches.Err0())
		for _, r := range fetches.Records() {
			at = max(at, r.Offset+1)
			if !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
		}
	}
	return values
}

// TestKill_Transactions kills an agent, the owner, and all agents, while producers commit and abort.
func TestKill_Transactions(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 3, ControlPlanes: 2})
	x := startTellers(t, 3, bootstraps(c)...)
	agent := c.Agents[1].Process
	agent.Kill()
	x.commits(20)
	agent.Restart()
	owner := c.Owner(t).Process
	owner.Kill()
	x.commits(20)
	owner.Restart()
	x.commits(20)
	for _, a := range c.Agents {
		a.Kill()
	}
	for _, a := range c.Agents {
		a.Launch()
	}
	x.commits(20)
	x.finish()
}
