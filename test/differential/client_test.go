package differential

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// half is what one server showed of one sequence.
type half struct {
	server  *server
	tag     string // part of every name of the sequence
	worker  int
	symbols map[string]string // words for ids that the server made
	base    [txnPartitions]int64
	clients []*client
	control *wire
	modern  bool // the group was a consumer group when it was last asked

	wasModern bool // or ever before
}

// client is one client of a sequence at one server, and what it knows from the answers it got.
type client struct {
	*half
	slot int
	wire *wire
	traits

	// Classic protocol.
	classicID          string
	generation         int32
	protocol           string
	members            []string // of a leader: all members
	mustJoin, mustSync bool

	// Consumer protocol.
	consumerID string
	epoch      int32
	assigned   map[string][]int32 // by topic

	// Transactions.
	producer      int64
	producerEpoch int16
	sequences     [txnPartitions]int32
	open          bool // something may be in the transaction
	fenced        bool
}

// traits are drawn once for a client.
type traits struct {
	instance string // static member, or ""
	main     int    // number of the group
	id       int    // number of the transactional id
	second   bool   // speaks the second transaction protocol
	assignor string
	named    bool // a classic member that has no id yet joins under one of its own, as consumer groups allow
}

func newHalf(s *server, tag string, worker int, all []traits) *half {
	h := &half{server: s, tag: tag, worker: worker, symbols: map[string]string{}}
	h.control = &wire{address: s.addresses[0], clientID: "control"}
	for slot, tr := range all {
		id := string(rune('a' + slot))
		h.clients = append(h.clients, &client{
			half: h, slot: slot, traits: tr, consumerID: id, producer: -1, producerEpoch: -1, mustJoin: true,
			wire: &wire{address: s.addresses[slot%len(s.addresses)], clientID: id},
		})
	}
	return h
}

func (h *half) close() {
	for _, c := range h.clients {
		c.wire.close()
	}
	h.control.close()
}

func (h *half) group(n int) string { return fmt.Sprintf("g%d-%s", n, h.tag) }
func (h *half) txn(n int) string   { return fmt.Sprintf("t%d-%s", n, h.tag) }

// outcome is how one request ended.
type outcome struct {
	resp kmsg.Response
	err  error
}

// call is a request under way.
type call struct {
	req  kmsg.Request
	done chan outcome
	got  *outcome
}

// start sends a request, again while the answer is one that passes.
func (c *client) start(req kmsg.Request) *call {
	out := &call{req: req, done: make(chan outcome, 1)}
	go func() {
		limit := settleLimit / 4
		if c.server.moves {
			limit = settleLimit
		}
		for end := time.Now().Add(limit); ; {
			resp, err := c.do(req)
			if err == nil && !transient(resp) || time.Now().After(end) {
				out.done <- outcome{resp, err}
				return
			}
			if err != nil && !c.server.moves {
				out.done <- outcome{resp, err}
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	}()
	return out
}

// do asks the client's address, and for transactions every address: each broker lists its own share, and admin clients
// join them. Of groups each agent lists all.
func (c *client) do(req kmsg.Request) (kmsg.Response, error) {
	resp, err := c.wire.do(req)
	all, ok := resp.(*kmsg.ListTransactionsResponse)
	if err != nil || !ok {
		return resp, err
	}
	for _, address := range c.server.addresses {
		if address == c.wire.address {
			continue
		}
		w := &wire{address: address, clientID: c.wire.clientID}
		more, err := w.do(req)
		w.close()
		if err != nil {
			return nil, err
		}
		listed := more.(*kmsg.ListTransactionsResponse)
		all.TransactionStates = append(all.TransactionStates, listed.TransactionStates...)
		all.ErrorCode = cmp.Or(all.ErrorCode, listed.ErrorCode)
	}
	return all, nil
}

// transient reports whether a response holds a code after which clients ask again.
func transient(resp kmsg.Response) bool {
	return anyCode(reflect.ValueOf(resp).Elem(), isPassing) || closing(resp)
}

// closing reports whether a response shows a transaction that is about to complete.
func closing(resp kmsg.Response) bool {
	switch r := resp.(type) {
	case *kmsg.DescribeTransactionsResponse:
		return slices.ContainsFunc(r.TransactionStates, func(s kmsg.DescribeTransactionsResponseTransactionState) bool {
			return s.State == "PrepareCommit" || s.State == "PrepareAbort"
		})
	case *kmsg.ListTransactionsResponse:
		return slices.ContainsFunc(r.TransactionStates, func(s kmsg.ListTransactionsResponseTransactionState) bool {
			return s.TransactionState == "PrepareCommit" || s.TransactionState == "PrepareAbort"
		})
	}
	return false
}

func anyCode(v reflect.Value, is func(int16) bool) bool {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "ErrorCode" {
				if is(int16(v.Field(i).Int())) {
					return true
				}
			} else if anyCode(v.Field(i), is) {
				return true
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return false
		}
		for i := range v.Len() {
			if anyCode(v.Index(i), is) {
				return true
			}
		}
	case reflect.Pointer:
		return !v.IsNil() && anyCode(v.Elem(), is)
	default:
	}
	return false
}

// wait waits for the outcome.
func (c *call) wait(limit time.Duration) bool {
	if c.got != nil {
		return true
	}
	select {
	case out := <-c.done:
		c.got = &out
		return true
	case <-time.After(limit):
		return false
	}
}
