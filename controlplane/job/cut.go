package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// Errors of Planner.Cut.
var (
	// ErrNoRecords: no partition has records in the bundle.
	ErrNoRecords = errors.New("no partition has records in that bundle")
	// ErrNoRunner: no agent is connected that can take the job now.
	ErrNoRunner = errors.New("no agent with the jobs role is free: try again")
)

// maxListed bounds the ranges that a Holding lists.
const maxListed = 1000

// Holding lists the partitions and offsets in a bundle.
type Holding struct {
	Bundle     string  `json:"bundle"`
	Partitions int     `json:"partitions"`
	Offsets    int64   `json:"offsets"`
	Ranges     []Range `json:"ranges"`        // in the order of partitions, at most 1000
	Job        uint32  `json:"job,omitempty"` // that cuts the bundle, 0 if none was started
}

// Range is offsets of a partition that lie in one bundle, ends included.
type Range struct {
	Partition string `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

// Holds returns what partitions have in a bundle. Errors: ErrNoRecords, owner.ErrNotOwner.
func (p *Planner) Holds(b id.Bundle) (Holding, error) {
	t := p.tenure.Load()
	if t == nil {
		return Holding{}, owner.ErrNotOwner
	}
	holding, _, err := t.holds(b)
	return holding, err
}

// Cut has an agent rewrite what partitions have in a bundle, and drop what cannot be read of it: records are lost that way. It
// returns as soon as the job was started. Errors: ErrNoRecords, ErrNoRunner, owner.ErrNotOwner, the context's.
func (p *Planner) Cut(ctx context.Context, b id.Bundle) (Holding, error) {
	t := p.tenure.Load()
	if t == nil {
		return Holding{}, owner.ErrNotOwner
	}
	c := &cut{ctx: ctx, bundle: b, done: make(chan struct{})}
	select {
	case t.cuts <- c:
		t.looks.Wake()
	case <-t.over:
		return Holding{}, owner.ErrNotOwner
	case <-ctx.Done():
		return Holding{}, fmt.Errorf("start to cut bundle %s: %w", b, ctx.Err())
	}
	select {
	case <-c.done:
	case <-t.over: // after the last call of looks
		select {
		case <-c.done:
		default:
			return Holding{}, owner.ErrNotOwner
		}
	case <-ctx.Done():
		return Holding{}, fmt.Errorf("cut bundle %s: %w", b, ctx.Err())
	}
	return c.holding, c.err
}

// cut is an operator's call to cut a bundle out. done is closed once holding and err are set.
type cut struct {
	ctx     context.Context //nolint:containedctx // of the call, which may end before its turn
	bundle  id.Bundle
	done    chan struct{}
	holding Holding
	err     error
}

// cut starts the job, unless the caller has given up. It is called by looks.
func (t *Tenure) cut(ctx context.Context, c *cut) {
	defer close(c.done)
	if c.err = c.ctx.Err(); c.err != nil {
		return
	}
	holding, o, err := t.holds(c.bundle)
	if err == nil {
		holding.Job, err = t.startCut(ctx, o)
	}
	if err != nil {
		c.err = err
		return
	}
	t.log.Warn("bundle is cut at an operator's request: its unreadable records are given up", zap.Stringer("bundle", c.bundle),
		zap.Uint32("job", holding.Job), zap.Int("partitions", holding.Partitions), zap.Int64("offsets", holding.Offsets))
	c.holding = holding
}

// startCut hands the job to the next free runner.
func (t *Tenure) startCut(ctx context.Context, o *order) (n uint32, err error) {
	var r *runner
	_, err = t.owner.ReadFrozen(func(s *metadata.State) {
		r = t.pick(t.freeRunners(s, surveyJobs(s, nil), time.Now()), o.class, nil)
	})
	switch {
	case err != nil:
		return 0, err
	case r == nil:
		return 0, ErrNoRunner
	}
	o.start.Runner = r.session
	l, err := t.handOut(ctx, o)
	if err != nil {
		return 0, err
	}
	if l == nil {
		return 0, ErrNoRunner
	}
	return uint32(l.ID), nil
}

// holds returns the partitions and offsets in a bundle, and the order of a job that would cut it. It walks over all extents of a frozen
// state.
func (t *Tenure) holds(b id.Bundle) (h Holding, o *order, err error) {
	h.Bundle = b.String()
	var partitions []job.Partition
	var level uint8
	_, err = t.owner.ReadFrozen(func(s *metadata.State) {
		level, _ = s.BundleLevel(b)
		for _, topic := range topicsInOrder(s) {
			for n := range topic.Partitions {
				tp := id.TopicPartition{Topic: topic.ID, Partition: n}
				var found []extent.Extent
				s.AscendExtents(tp, 0, func(x *extent.Extent) bool {
					if x.Kind != extent.Marker && x.Bundle == b {
						found = append(found, *x)
					}
					return true
				})
				if len(found) > 0 {
					partitions = append(partitions, job.Partition{ID: tp, Extents: found})
					h.add(partitionName(s, tp), found)
				}
			}
		}
	})
	switch {
	case err != nil:
		return h, nil, err
	case len(partitions) == 0:
		return h, nil, ErrNoRecords
	}
	made := orderOf(startOf(job.Compact, max(level, 1), partitions, []id.Bundle{b}), partitions)
	made.plan = job.Cut
	return h, &made, nil
}

// add adds a partition's extents.
func (h *Holding) add(name string, exts []extent.Extent) {
	h.Partitions++
	for i := range exts {
		x := &exts[i]
		h.Offsets += x.Last + 1 - x.Base
		if n := len(h.Ranges); i > 0 && n > 0 && h.Ranges[n-1].Partition == name && h.Ranges[n-1].To+1 == x.Base {
			h.Ranges[n-1].To = x.Last
		} else if n < maxListed {
			h.Ranges = append(h.Ranges, Range{Partition: name, From: x.Base, To: x.Last})
		}
	}
}
