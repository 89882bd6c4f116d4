package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/ledger"
)

// plain producers are not idempotent: acks=all with five requests in flight, no sequence numbers to mend anything, and
// nothing is ever sent again, so that what is double or out of order is the broker's doing. A record whose produce
// fails may be written or not.
var plain = []kgo.Opt{
	kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordRetries(0),
}

// TestCommit_AnswersLost: the owner applies commits whose answers never arrive, again and again, and the agents' links
// are cut in between. The same name gets the same answer: even producers without idempotence, which are told nothing,
// find each record once and in order.
func TestCommit_AnswersLost(t *testing.T) {
	t.Parallel()
	for name, clientOptions := range map[string][]kgo.Opt{"idempotent": nil, "plain": plain} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, options{seed: 2})
			l := c.startLoad("t", 3, 3, 20*time.Millisecond, clientOptions...)
			l.failing = clientOptions != nil
			l.more(100)
			for range 8 {
				for _, a := range c.agents {
					release := a.link.blackhole()
					_, from := c.log.Indexes()
					c.await("commits in the log", func() bool {
						_, last := c.log.Indexes()
						return last >= from+3
					})
					a.link.cut()
					release()
				}
				l.more(20)
			}
			l.stop(ledger.Rules{})
		})
	}
}

// TestCommit_LinksCutAtRandomMoments reorders commits across reconnects.
func TestCommit_LinksCutAtRandomMoments(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{seed: 3})
	l := c.startLoad("t", 3, 3, 20*time.Millisecond, plain...).mayFail()
	for i := range 25 {
		l.more(7 * (i%4 + 1))
		c.agents[i%2].link.cut()
	}
	reconnects := 0.0
	for _, a := range c.agents {
		reconnects += a.metric("freshet_agent_session_reconnects_total")
	}
	require.Greater(t, reconnects, 10.0)
	l.stop(ledger.Rules{})
}

// TestOrder_PlainProducersWhilePutStallsAndOwnerChanges: one connection, five requests in flight, a PUT that takes 3 s
// and another owner meanwhile. Nothing is sent twice, so nothing may be out of order.
func TestOrder_PlainProducersWhilePutStallsAndOwnerChanges(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{seed: 4, succession: true})
	c.createTopic("t", 1)
	l := c.startLoad("load", 2, 2, 20*time.Millisecond, plain...).mayFail()
	l.more(50)
	w := c.dialWire(c.agents[0])
	var values []string
	answers := 0
	answer := func() {
		resp, err := w.receive(patience)
		require.NoError(t, err)
		p := produced(t, resp, 0)
		require.Zero(t, p.ErrorCode, "record %d", answers)
		require.EqualValues(t, answers, p.BaseOffset, "answers come in the order of requests, offsets too")
		answers++
	}
	send := func() {
		values = append(values, string(rune('a'+len(values)%26)))
		w.send(produceRequest("t", map[int32][]byte{0: batch(nobody, 0, values[len(values)-1])}))
		if len(w.sent) == 5 {
			answer()
		}
	}
	for range 10 {
		send()
	}
	slow := c.objects.MustAdd("put key~bundles times=1 delay=3s")
	var old *controlPlane
	for i := range 60 {
		send()
		if i == 2 {
			c.await("the slow PUT", func() bool { return slow.Hits() == 1 })
			old = c.dethrone()
		}
	}
	for len(w.sent) > 0 {
		answer()
	}
	c.succeeded(old)
	l.stop(ledger.Rules{})
	got := fetched(t, c.dialWire(c.agents[1]).fetch("t", map[int32]int64{0: 0}), 0)
	for i, b := range batches(t, got.RecordBatches) {
		require.EqualValues(t, i, b.base)
		require.Equal(t, string(batch(nobody, 0, values[i])[16:]), b.bytes)
	}
}
