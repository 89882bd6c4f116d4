package txn

import (
	"context"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
)

// ListTransactions, key 66, versions 0-2 (KIP-664).
//
//	1  filters by how long transactions have been open (KIP-994)
//	2  filters by a pattern of transactional ids (KIP-1152); RE2 here, Java's regular expressions in Kafka
//
// Clients ask every broker and join the answers, since a Kafka broker lists what it coordinates. Here one node of those
// that the client sees lists all, and the others list none.

// stateNames are those of Kafka's TransactionState; only four of them ever occur here.
var stateNames = []string{
	"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
}

func (c *call) listTransactions(_ context.Context, in *kmsg.ListTransactionsRequest) (*kmsg.ListTransactionsResponse, error) {
	out := kmsg.NewPtrListTransactionsResponse()
	out.UnknownStateFilters = []string{}
	out.TransactionStates = []kmsg.ListTransactionsResponseTransactionState{}
	f := filter{in: in, nowMs: c.cfg.Now().UnixMilli()}
	if p := in.TransactionalIDPattern; p != nil && *p != "" {
		var err error
		if f.pattern, err = regexp.Compile(`\A(?:` + *p + `)\z`); err != nil {
			out.ErrorCode = kerr.InvalidRegularExpression.Code
			return out, nil //nolint:nilerr // the answer says it
		}
	}
	for _, name := range in.StateFilters {
		if !slices.Contains(stateNames, name) {
			out.UnknownStateFilters = append(out.UnknownStateFilters, name)
		}
	}
	_, err := c.owner.ReadFrozen(func(s *metadata.State) {
		if !lists(s, c.forward) {
			return
		}
		for t := range s.Transactions() {
			if f.takes(&t) {
				out.TransactionStates = append(out.TransactionStates, kmsg.ListTransactionsResponseTransactionState{
					TransactionalID: t.TransactionalID, ProducerID: t.ProducerID, TransactionState: t.State.String(),
				})
			}
		}
	})
	return out, err
}

// filter is what a request wants of transactions.
type filter struct {
	in      *kmsg.ListTransactionsRequest
	pattern *regexp.Regexp
	nowMs   int64
}

func (f *filter) takes(t *metadata.TransactionInfo) bool {
	in := f.in
	switch {
	case len(in.ProducerIDFilters) > 0 && !slices.Contains(in.ProducerIDFilters, t.ProducerID):
		return false
	case len(in.StateFilters) > 0 && !slices.Contains(in.StateFilters, t.State.String()):
		return false
	case in.DurationFilterMillis >= 0 && f.nowMs-t.StartedMs <= in.DurationFilterMillis:
		return false
	}
	return f.pattern == nil || f.pattern.MatchString(t.TransactionalID)
}

// lists tells whether the node that a request came by is the one that lists: the first of those in the client's zone,
// or of all if the zone has none. A node that is not shown to clients any more lists too, for whom it may be the last.
func lists(s *metadata.State, f *api.Forward) bool {
	first, own, shown := int32(-1), false, false
	for info := range s.Sessions() {
		if !info.Shown() {
			continue
		}
		inZone := info.Zone == f.Zone
		for i, e := range info.Endpoints {
			if e.Listener != f.Listener || i >= len(info.NodeIDs) {
				continue
			}
			node := info.NodeIDs[i]
			shown = shown || node == f.Node
			if first < 0 || inZone && !own || inZone == own && node < first {
				first, own = node, inZone
			}
		}
	}
	return !shown || f.Node == first
}
