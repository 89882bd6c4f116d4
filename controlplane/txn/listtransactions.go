package txn

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/metadata"
)

// ListTransactions, key 66, versions 0-2 (KIP-664).
//
//	1  filters by how long transactions have been open (KIP-994)
//	2  filters by a pattern of transactional ids (KIP-1152); RE2 here, Java's regular expressions in Kafka
//
// A node lists the transactions whose coordinator it is to the client (FindCoordinator), as in Kafka. Tools ask every broker and join the
// answers; sarama asks the coordinator alone.

// stateNames are the names of Kafka's TransactionState. Freshet uses four of the states.
var stateNames = []string{
	"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
}

func (c *call) listTransactions(ctx context.Context, in *kmsg.ListTransactionsRequest) (*kmsg.ListTransactionsResponse, error) {
	out := kmsg.NewPtrListTransactionsResponse()
	out.UnknownStateFilters = []string{}
	out.TransactionStates = []kmsg.ListTransactionsResponseTransactionState{}
	f := newFilter(in, c.cfg.Now())
	for _, name := range in.StateFilters {
		if !slices.Contains(stateNames, name) && f.states[name] {
			f.states[name] = false // answered once
			out.UnknownStateFilters = append(out.UnknownStateFilters, name)
		}
	}
	expression := ""
	if p := in.TransactionalIDPattern; p != nil {
		expression = *p
	}
	var fault error
	_, err := c.owner.ReadFrozen(func(s *metadata.State) {
		own, shown := coordinators(s, c.forward)
		node := int32(slices.IndexFunc(own.Nodes, func(nodes []assign.Node) bool { return nodes[0].ID == c.forward.Node }))
		if shown && node < 0 {
			return // only the first node of an agent coordinates
		}
		size := session.AnswerOf(ctx)
		sessions := own.Sessions()
		for t := range s.Transactions() {
			if f.takes(&t) && (!shown || assign.Key(transactionKey, t.TransactionalID, sessions) == node) {
				if expression == "" { // else fewer are answered
					fault = size.Add(len(t.TransactionalID) + minTransaction)
				}
				if fault != nil {
					return
				}
				out.TransactionStates = append(out.TransactionStates, kmsg.ListTransactionsResponseTransactionState{
					TransactionalID: t.TransactionalID, ProducerID: t.ProducerID, TransactionState: t.State.String(),
				})
			}
		}
	})
	err = cmp.Or(err, fault)
	if err == nil && expression != "" {
		err = c.match(ctx, expression, out)
	}
	return out, err
}

// minTransaction is the minimum size of a transaction in an answer beside its ID, in bytes.
const minTransaction = 16

// match leaves the transactions in an answer whose transactional ID the expression matches. An invalid expression is the answer's error.
// Errors: pattern.ErrBusy, and that of ctx.
func (c *call) match(ctx context.Context, expression string, out *kmsg.ListTransactionsResponse) error {
	states := out.TransactionStates
	out.TransactionStates = []kmsg.ListTransactionsResponseTransactionState{}
	ids := func(yield func(string) bool) {
		for i := range states {
			if !yield(states[i].TransactionalID) {
				return
			}
		}
	}
	type outcome struct {
		matched []string
		err     error
	}
	matched := make(chan outcome, 1)
	err := c.cfg.Patterns.Match(ctx, c.forward.Host, expression, ids, func(ids []string, err error) { matched <- outcome{ids, err} })
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case o := <-matched:
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if o.err != nil {
			out.ErrorCode = kerr.InvalidRegularExpression.Code
		}
		for _, state := range states {
			if len(o.matched) > 0 && o.matched[0] == state.TransactionalID {
				out.TransactionStates, o.matched = append(out.TransactionStates, state), o.matched[1:]
			}
		}
		return nil
	}
}

// filter has the conditions of a request on transactions, without its expression.
type filter struct {
	in        *kmsg.ListTransactionsRequest
	nowMs     int64
	producers map[int64]bool
	states    map[string]bool
}

func newFilter(in *kmsg.ListTransactionsRequest, now time.Time) filter {
	f := filter{in: in, nowMs: now.UnixMilli(), producers: map[int64]bool{}, states: map[string]bool{}}
	for _, id := range in.ProducerIDFilters {
		f.producers[id] = true
	}
	for _, name := range in.StateFilters {
		f.states[name] = true
	}
	return f
}

func (f *filter) takes(t *metadata.TransactionInfo) bool {
	in := f.in
	switch {
	case len(in.ProducerIDFilters) > 0 && !f.producers[t.ProducerID]:
		return false
	case len(in.StateFilters) > 0 && !f.states[t.State.String()]:
		return false
	case in.DurationFilterMillis >= 0 && f.nowMs-t.StartedMs <= in.DurationFilterMillis:
		return false
	}
	return true
}

// transactionKey is the key type of transactional IDs in FindCoordinator.
const transactionKey = 1

// coordinators returns the nodes that FindCoordinator names to a client: those of the agents of its zone, or of all agents if the zone has
// none. ok is false if clients do not see the node that the request came by. Such a node lists all transactions, since the client may
// know no other.
func coordinators(s *metadata.State, f *api.Forward) (own assign.Group, ok bool) {
	var zone, all assign.Group
	for info := range s.Sessions() {
		if !info.Shown() {
			continue
		}
		var nodes []assign.Node
		for i, e := range info.Endpoints {
			if e.Listener == f.Listener && i < len(info.NodeIDs) {
				nodes = append(nodes, assign.Node{ID: info.NodeIDs[i]})
				ok = ok || info.NodeIDs[i] == f.Node
			}
		}
		if len(nodes) == 0 {
			continue
		}
		all.Add(uint32(info.ID), nodes)
		if info.Zone == f.Zone {
			zone.Add(uint32(info.ID), nodes)
		}
	}
	if len(zone.Agents) > 0 {
		return zone, ok
	}
	return all, ok
}
