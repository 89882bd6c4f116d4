package sim

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/session"
)

// protocol is one of the two transaction protocols, by the newest request versions of its clients.
type protocol struct {
	produce, add, end int16 // add is -1 where produce adds
}

var (
	first  = protocol{produce: 11, add: 3, end: 4}
	second = protocol{produce: 12, add: -1, end: 5}
)

// teller is a transactional producer without any client behind it.
type teller struct {
	protocol
	producer
	name string
}

func newTeller(w *wire, name string, p protocol) *teller {
	w.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionalID, req.TransactionTimeoutMillis = 4, &name, 60_000
	resp := askOwner(w, req, func(r *kmsg.InitProducerIDResponse) int16 { return r.ErrorCode })
	require.Zero(w.t, resp.ErrorCode)
	return &teller{p, producer{resp.ProducerID, resp.ProducerEpoch}, name}
}

// add adds a partition, if the protocol wants that.
func (tx *teller) addPartition(w *wire, topic string, partition int32) {
	w.t.Helper()
	if tx.add < 0 {
		return
	}
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch = tx.add, tx.name, tx.id, tx.epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
	code := func(r *kmsg.AddPartitionsToTxnResponse) int16 { return r.Topics[0].Partitions[0].ErrorCode }
	require.Zero(w.t, code(askOwner(w, req, code)))
}

// request is a produce of one record.
func (tx *teller) request(topic string, partition, sequence int32, value string) *kmsg.ProduceRequest {
	raw := batch(tx.producer, sequence, value)
	raw[22] |= 0x10 // transactional
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	req := produceRequest(topic, map[int32][]byte{partition: raw})
	req.Version, req.TransactionID = tx.produce, &tx.name
	return req
}

// finish ends the transaction and gives the code, once the coordinator has it; the second protocol's next epoch is noted.
func (tx *teller) finish(w *wire, commit bool) int16 {
	w.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = tx.end, tx.name, tx.id, tx.epoch, commit
	resp := askOwner(w, req, func(r *kmsg.EndTxnResponse) int16 { return r.ErrorCode })
	if tx.end >= 5 && resp.ErrorCode == 0 {
		tx.id, tx.epoch = resp.ProducerID, resp.ProducerEpoch
	}
	return resp.ErrorCode
}

// TestTransactions_PutDelayedPastTheirEnd: a batch's PUT takes so long that its producer aborts through another agent
// and begins again. It is not taken in the next transaction, which is in the same partition and, in the first
// protocol, of the same epoch.
func TestTransactions_PutDelayedPastTheirEnd(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]protocol{"protocol 1": first, "protocol 2": second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, options{seed: 11})
			c.createTopic("t", 1)
			slow, quick := c.dialWire(c.agents[0]), c.dialWire(c.agents[1])
			tx := newTeller(quick, "tx", p)
			want := 0
			for round := range 5 {
				tx.addPartition(quick, "t", 0)
				delayed := c.objects.MustAdd("put key~bundles stall times=1")
				slow.send(tx.request("t", 0, int32(want), fmt.Sprint("late ", round)))
				c.await("a put under way", func() bool { return delayed.Hits() > 0 })
				require.Zero(t, tx.finish(quick, false))
				tx.addPartition(quick, "t", 0)
				c.objects.Remove(delayed)
				if p == second {
					want = 0
				}
				resp, err := slow.receive(patience)
				require.NoError(t, err)
				code := kerr.TransactionAbortable.Code // what version 11 says of a partition that is not in the transaction
				if p == second {
					code = kerr.InvalidProducerEpoch.Code
				}
				require.Equal(t, code, produced(t, resp, 0).ErrorCode)
				next := ask[*kmsg.ProduceResponse](quick, tx.request("t", 0, int32(want), fmt.Sprint("good ", round)), patience)
				require.Zero(t, produced(t, next, 0).ErrorCode)
				want++
				require.Zero(t, tx.finish(quick, true))
			}
			var got []string
			for _, r := range c.committed("t", 1) {
				got = append(got, string(r.Value))
			}
			require.Equal(t, []string{"good 0", "good 1", "good 2", "good 3", "good 4"}, got)
		})
	}
}

// TestTransactions_ParkedBatchIsRefusedAtTheEnd: a batch that waits for the one before it is answered when its
// transaction ends, not when the wait is over.
func TestTransactions_ParkedBatchIsRefusedAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]protocol{"protocol 1": first, "protocol 2": second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, options{seed: 12, limits: session.Limits{ParkTimeout: 2 * patience}})
			c.createTopic("t", 1)
			w, other := c.dialWire(c.agents[0]), c.dialWire(c.agents[1])
			tx := newTeller(other, "tx", p)
			tx.addPartition(other, "t", 0)
			w.send(tx.request("t", 0, 1, "ahead"))
			c.await("a resubmission", func() bool { return c.agents[0].metric("freshet_writer_resubmissions_total") > 0 })
			require.Zero(t, tx.finish(other, false))
			resp, err := w.receive(patience)
			require.NoError(t, err)
			code := kerr.TransactionAbortable.Code
			if p == second {
				code = kerr.InvalidProducerEpoch.Code
			}
			require.Equal(t, code, produced(t, resp, 0).ErrorCode)
		})
	}
}
