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
	for i, v := range []versions{runs[len(runs)-3], runs[len(runs)-1]} {
		t.Run(fmt.Sprintf("late %+v", v), func(t *testing.T) {
			parties := []*party{}
			for _, s := range sides {
				parties = append(parties, &party{side: s, name: fmt.Sprint("late-", i), versions: v, id: -1, epoch: -1})
			}
			for _, a := range lateScript() {
				if a.req == nil {
					awaitAborts(t, parties)
					continue
				}
				t.Run(a.name, func(t *testing.T) { a.play(t, parties[0], parties[1]) })
			}
		})
	}
}

// awaitAborts waits until the parties' transactions were aborted.
func awaitAborts(t *testing.T, parties []*party) {
	t.Helper()
	for _, p := range parties {
		require.Eventually(t, func() bool {
			d := ask[*kmsg.DescribeTransactionsResponse](t, p.conn, describeTransactions(p.name), 0)
			return d.TransactionStates[0].State == "CompleteAbort"
		}, time.Minute, 50*time.Millisecond, "the transaction does not time out")
	}
}

// lateScript is what a producer asks for that does not know that its transaction timed out. An act without a request is
// that time-out.
func lateScript() []act {
	one := func(name string, req func(p *party) kmsg.Request) act { return act{name: name, req: req} }
	write := func(name string, req func(p *party) kmsg.Request) act {
		return act{name: name, req: req, differs: map[string]string{
			`Topics\[.*LogStartOffset`: offsetOrNone, `Topics\[.*ErrorMessage`: anotherMessage, `Topics\[.*BaseOffset`: "other scripts wrote before",
		}}
	}
	begin := []act{
		one("add", func(p *party) kmsg.Request { return p.addTo(p.name, p.id, p.epoch, "t", 2) }),
		write("write", func(p *party) kmsg.Request { return p.write(2, 0, p.epoch, true) }),
	}
	again := func(p *party) kmsg.Request {
		req := p.initProducer(p.name, 1000)
		req.ProducerID, req.ProducerEpoch = p.id, p.epoch
		return req
	}
	script := append([]act{one("init", func(p *party) kmsg.Request { return p.initProducer(p.name, 1000) })}, begin...)
	script = append(script, act{},
		write("write late", func(p *party) kmsg.Request { return p.write(2, 1, p.epoch, true) }),
		one("add late", func(p *party) kmsg.Request { return p.addTo(p.name, p.id, p.epoch, "t", 1) }),
		one("commit late", func(p *party) kmsg.Request { return p.finish(p.name, p.id, p.epoch, true) }),
		one("abort late", func(p *party) kmsg.Request { return p.finish(p.name, p.id, p.epoch, false) }),
		one("init with the epoch there was", again),
	)
	script = append(script, begin...)
	return append(script, one("commit", func(p *party) kmsg.Request { return p.finish(p.name, p.id, p.epoch, true) }))
}
