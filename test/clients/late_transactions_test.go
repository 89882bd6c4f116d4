package clients

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// abortEvery has Kafka look for transactions that are open for too long as often as Freshet's owner does, not every 10 s.
const abortEvery = "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000"

// playLate has transactions of both protocols time out, and their producers find out and go on (KIP-588).
func playLate(t *testing.T, sides []*side) {
	t.Helper()
	for _, v := range []versions{runs[len(runs)-3], runs[len(runs)-1]} {
		t.Run(fmt.Sprintf("late %+v", v), func(t *testing.T) {
			parties := beginLate(t, sides, v)
			for _, p := range parties {
				require.Eventually(t, func() bool {
					d := ask[*kmsg.DescribeTransactionsResponse](t, p.conn, describeTransactions(p.name), 0)
					return d.TransactionStates[0].State == "CompleteAbort"
				}, 2*time.Minute, 50*time.Millisecond, "the transaction does not time out")
			}
			for _, a := range lateScript() {
				t.Run(a.name, func(t *testing.T) { a.play(t, parties[0], parties[1]) })
			}
		})
	}
}

// beginLate begins a transaction at each side with a time-out that is short, yet long enough for this machine to have it
// begun before: if one of the sides was slower, both begin others with a longer one.
func beginLate(t *testing.T, sides []*side, v versions) []*party {
	t.Helper()
	for timeoutMs := int32(1000); timeoutMs < 100_000; timeoutMs *= 4 {
		parties, begun := []*party{}, true
		for _, s := range sides {
			p := &party{side: s, name: fmt.Sprint("late-", v.end, "-", timeoutMs), versions: v, id: -1, epoch: -1}
			parties = append(parties, p)
			begun = p.begin(t, timeoutMs) && begun
		}
		if begun {
			return parties
		}
	}
	require.Fail(t, "no transaction can be begun before it times out")
	return nil
}

// begin has a producer initialized and write a record; false if it was not taken.
func (p *party) begin(t *testing.T, timeoutMs int32) bool {
	t.Helper()
	require.Eventually(t, func() bool {
		p.perform(t, p.initProducer(p.name, timeoutMs))
		return p.id >= 0
	}, time.Minute, 50*time.Millisecond, "no producer id: Kafka's coordinator does not get ready")
	p.perform(t, p.addTo(p.name, p.id, p.epoch, "t", 2))
	written := ask[*kmsg.ProduceResponse](t, p.conn, p.write(2, 0, p.epoch, true), p.produce)
	return written.Topics[0].Partitions[0].ErrorCode == 0
}

// lateScript is what a producer asks for that does not know that its transaction timed out.
func lateScript() []act {
	one := func(name string, req func(p *party) kmsg.Request) act { return act{name: name, req: req} }
	write := func(name string, req func(p *party) kmsg.Request) act {
		return act{name: name, req: req, differs: map[string]string{
			`Topics\[.*LogStartOffset`: offsetOrNone, `Topics\[.*ErrorMessage`: anotherMessage, `Topics\[.*BaseOffset`: "other scripts wrote before",
		}}
	}
	return []act{
		write("write late", func(p *party) kmsg.Request { return p.write(2, 1, p.epoch, true) }),
		one("add late", func(p *party) kmsg.Request { return p.addTo(p.name, p.id, p.epoch, "t", 1) }),
		one("commit late", func(p *party) kmsg.Request { return p.finish(p.name, p.id, p.epoch, true) }),
		one("abort late", func(p *party) kmsg.Request { return p.finish(p.name, p.id, p.epoch, false) }),
		one("init with the epoch there was", func(p *party) kmsg.Request {
			req := p.initProducer(p.name, 60_000)
			req.ProducerID, req.ProducerEpoch = p.id, p.epoch
			return req
		}),
		one("add", func(p *party) kmsg.Request { return p.addTo(p.name, p.id, p.epoch, "t", 2) }),
		write("write", func(p *party) kmsg.Request { return p.write(2, 0, p.epoch, true) }),
		one("commit", func(p *party) kmsg.Request { return p.finish(p.name, p.id, p.epoch, true) }),
	}
}
