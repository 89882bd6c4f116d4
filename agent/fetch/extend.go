package fetch

import (
	"context"

	"github.com/freshet-io/freshet/agent/view"
)

// Bounds of the look-ups with which one fetch goes on where its plans end. Beyond them it answers with fewer than min
// bytes, as DelayedFetch.tryComplete does at once for an offset on an older segment.
const (
	// maxExtensions bounds the look-ups.
	maxExtensions = 16
	// maxPlanned bounds the extents and aborted transactions of all plans, about 4 MiB.
	maxPlanned = 1 << 16
)

// behind reports whether a plan ends before the last readable offset. More records are there then, and the fetch need
// not wait for new ones. A plan that ends before a lost extent does not count: the reader cannot pass that extent.
func (a *attempt) behind() bool {
	for n := range a.plans {
		if !a.lost[n] && !a.plans[n].Complete(a.req.ReadCommitted) {
			return true
		}
	}
	return false
}

// short reports whether plan n names fewer bytes than there are and than its partition may bring.
func (a *attempt) short(n int) bool {
	p, plan := &a.req.Partitions[a.read[n]], &a.plans[n]
	return !a.lost[n] && !plan.Complete(a.req.ReadCommitted) && a.available(plan, p) < int64(p.MaxBytes)
}

// extend plans on behind the ends of short plans until min bytes are named. It returns the bytes named then.
func (a *attempt) extend(ctx context.Context) (available int64) {
	ctx, cancel := context.WithTimeout(ctx, a.f.cfg.AskTimeout)
	defer cancel()
	stuck := make([]bool, len(a.plans)) // compaction changed the extents meanwhile
	for range maxExtensions {
		available, _ = a.judge()
		var of []int
		var wants []view.Want
		planned := 0
		for n := range a.plans {
			planned += len(a.plans[n].Extents) + len(a.plans[n].Aborted)
			if !stuck[n] && a.short(n) {
				of = append(of, n)
				wants = append(wants, view.Want{
					Partition: a.wants[n].Partition, Offset: a.plans[n].Next(), Committed: a.req.ReadCommitted,
				})
			}
		}
		if available >= int64(a.req.MinBytes) || len(of) == 0 || planned >= maxPlanned {
			return available
		}
		plans := make([]view.Plan, len(wants))
		if a.f.cfg.Views.Plan(ctx, wants, plans) != nil {
			return available
		}
		for k, n := range of {
			stuck[n] = !a.plans[n].Join(&plans[k], a.wants[n].Offset) || a.cut(n)
		}
	}
	available, _ = a.judge()
	return available
}
