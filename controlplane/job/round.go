package job

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// The classes of jobs. Runners are shared fairly between them.
const (
	classFirst = iota
	classSecond
	classClean
	classReclaim // of half-dead bundles; in the state they look like jobs of the second level
	classes
)

// classOf returns the class of a job by what the state knows about it.
func classOf(kind job.Kind, level uint8) int {
	switch {
	case kind == job.Clean:
		return classClean
	case level == 1:
		return classFirst
	default:
		return classSecond
	}
}

// order is a planned job, not started yet.
type order struct {
	start      *metadata.StartJob // without its runner
	plan       job.Kind           // what the plan says: start.Kind, or job.Cut
	class      int
	partitions []job.Partition
	bytes      int64 // of the inputs
	extents    int
}

// plans is the result of planning a round.
type plans struct {
	orders []order
	vacant []id.Bundle
	ended  []*lease // of jobs whose runner's session was closed
	lost   []*lease // of jobs that the state has ended
}

// runner is an agent that jobs can be given to.
type runner struct {
	session id.Session
	jobs    int
	paused  [classes]bool // by class: it backs off after a failure
}

// plan looks at a frozen state and decides what to start.
func (t *Tenure) plan(ctx context.Context, s *metadata.State) plans {
	now := time.Now()
	open := surveyJobs(s, t.reclaiming())
	var p plans
	p.ended, p.lost = t.reconcile(s, open)
	runners := t.freeRunners(s, open, now)
	free := 0
	for _, r := range runners {
		free += t.settings.PerAgent - r.jobs
	}
	free = min(free, roundJobs)
	limit := free
	if t.hidden && free > 0 {
		limit = roundJobs // the last round met bundles without extents; a higher limit passes more of them per round
	}
	v := t.surveyBundles(s, open, now)
	w := t.newWalk(ctx, s, open, v, v.groups(t.settings.First, limit, old(s, t.settings.First.Age)), now)
	if !w.all(ctx, t.frontiers) {
		return plans{}
	}
	t.frontiers.next()
	w.judge()
	t.left = w.left
	t.metrics.backlog(backlog{v.fresh, v.freshBytes, w.backlog, v.deadBytes, v.dueHalfDead})
	p.vacant = w.vacant()
	p.orders = t.choose(ctx, w, free, runners)
	return p
}

// old returns a function that reports whether a bundle made at madeMs is at least age old, by command time.
func old(s *metadata.State, age time.Duration) func(madeMs int64) bool {
	return func(madeMs int64) bool { return s.Now()-madeMs >= age.Milliseconds() }
}

// pressed reports whether jobs of the second level start early. They do if live extents reach half of their bound and at least half of them
// can still be merged. Otherwise early jobs would only add final extents.
func (t *Tenure) pressed(live int64) bool { return 2*live >= t.maxExtents && 2*t.left >= live }

// reconcile compares leases with a frozen state. It adopts open jobs without a lease, unless they ended after the freeze. A lease whose
// job is missing has ended if the runner's session was closed. If the job is missing in two rounds, the state ended it: completing or
// aborting a job removes the lease at once.
func (t *Tenure) reconcile(s *metadata.State, open *openJobs) (ended, lost []*lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range open.all {
		t.adopt(j)
	}
	for _, n := range slices.Sorted(maps.Keys(t.mu.leases)) {
		l := t.mu.leases[n]
		if _, still := open.all[n]; still {
			continue
		}
		if info, ok := s.Session(l.Runner); !ok || info.Closed {
			ended = append(ended, l)
		} else if l.missing {
			lost = append(lost, l)
		}
		l.missing = true
	}
	return ended, lost
}

// freeRunners returns the connected agents with the jobs role that run fewer than PerAgent jobs and do not back off in every class.
func (t *Tenure) freeRunners(s *metadata.State, open *openJobs, now time.Time) (free []runner) {
	maps.DeleteFunc(t.given, func(session id.Session, _ uint64) bool { _, ok := s.Session(session); return !ok })
	t.mu.Lock()
	paused := t.mu.setbacks.runners
	maps.DeleteFunc(paused, func(r runnerKind, _ setback) bool { _, ok := s.Session(r.session); return !ok })
	paused = maps.Clone(paused)
	t.mu.Unlock()
	for info := range s.Sessions() {
		if open.load[info.ID] >= t.settings.PerAgent {
			continue
		}
		r := runner{session: info.ID, jobs: open.load[info.ID]}
		r.paused[classFirst] = now.Before(paused[runnerKind{info.ID, job.Compact}].until)
		r.paused[classSecond], r.paused[classReclaim] = r.paused[classFirst], r.paused[classFirst]
		r.paused[classClean] = now.Before(paused[runnerKind{info.ID, job.Clean}].until)
		if slices.Contains(r.paused[:], false) && t.takesJobs(&info) {
			free = append(free, r)
		}
	}
	return free
}

// takesJobs reports whether jobs can be given to a session's agent.
func (t *Tenure) takesJobs(info *metadata.SessionInfo) bool {
	return !info.Closed && !info.Draining && info.Roles&metadata.RoleJobs != 0 && t.runners.Connected(info.ID)
}

// choose plans up to free jobs, fairly by class, and assigns a runner to each. It stops at roundExtents, which bounds the memory of a round.
func (t *Tenure) choose(ctx context.Context, w *walk, free int, runners []runner) (orders []order) {
	extents := 0
	next := [classes]func() (order, bool){
		classFirst: w.firstOrders(), classSecond: w.secondOrders(t), classClean: w.cleanOrders(),
		classReclaim: w.reclaimOrders(ctx, t, func() int { return free - len(orders) }),
	}
	var exhausted [classes]bool
	for len(orders) < free {
		if extents >= roundExtents/2 {
			t.wake() // the next round plans the rest
		}
		if extents >= roundExtents {
			break
		}
		class := t.turn(w.open.class, exhausted, w.segments.pressed)
		if class == none {
			break
		}
		r := t.pick(runners, class, nil)
		if r == nil {
			exhausted[class] = true
			continue
		}
		o, ok := next[class]()
		if !ok {
			exhausted[class] = true
			continue
		}
		if other := t.pick(runners, class, w.accusers(&o)); other != nil {
			r = other
		}
		o.start.Runner = r.session
		r.jobs++
		t.turns++
		t.given[r.session] = t.turns
		t.served[class] = t.turns
		w.open.add(metadata.JobInfo{
			Kind: o.start.Kind, Level: o.start.Level, First: o.start.First, Last: o.start.Last, Inputs: o.start.Inputs,
		}, class)
		orders = append(orders, o)
		extents += o.extents
	}
	return orders
}

// accusers returns the runners that could not read an input of the order. The job goes to another one that is free.
func (w *walk) accusers(o *order) map[id.Session]bool {
	if len(w.suspects) == 0 {
		return nil
	}
	accusers := map[id.Session]bool{}
	for _, b := range inputsOf(o.partitions) {
		for _, intact := range []bool{false, true} {
			if by, ok := w.suspects[bundleKind{bundle: b, kind: o.start.Kind, intact: intact}]; ok {
				accusers[by.runner] = true
			}
		}
	}
	return accusers
}

// turn returns the class with the fewest open jobs, among equals the one served longest ago, or none if all are exhausted. While
// extents are to become fewer, reclaiming comes last: it frees bytes and no extents.
func (t *Tenure) turn(count [classes]int, exhausted [classes]bool, pressed bool) int {
	best := none
	for c := range classes {
		switch {
		case exhausted[c], c == classReclaim && pressed && best != none:
		case best == none, count[c] < count[best], count[c] == count[best] && t.served[c] < t.served[best]:
			best = c
		}
	}
	return best
}

// firstOrders returns an iterator over the jobs of the first level that the walk planned.
func (w *walk) firstOrders() func() (order, bool) {
	i := 0
	return func() (order, bool) {
		for i < len(w.plans) {
			p := &w.plans[i]
			i++
			if len(p.partitions) == 0 {
				continue
			}
			return orderOf(startOf(job.Compact, 1, p.partitions, sortedKeys(p.found)), p.partitions), true
		}
		return order{}, false
	}
}

// secondOrders returns an iterator that plans a job for each due range, the largest first.
func (w *walk) secondOrders(t *Tenure) func() (order, bool) {
	i := 0
	return func() (order, bool) {
		for i < len(w.segments.due) {
			g := w.segments.due[i]
			i++
			p := w.plan(t.frontiers, g, t.settings.Second.JobBytes>>g.halves)
			if len(p.partitions) == 0 {
				continue
			}
			return orderOf(p.start(), p.partitions), true
		}
		return order{}, false
	}
}

// cleanOrders returns an iterator that plans a Clean job for each due partition, the dirtiest first. It skips partitions of an open
// second-level job, and those that an open job rewrites extents of, including the jobs of this round.
func (w *walk) cleanOrders() func() (order, bool) {
	i := 0
	return func() (order, bool) {
		for i < len(w.dirt.due) {
			d := &w.dirt.due[i]
			i++
			if covered(d.tp, w.open.seconds) {
				continue
			}
			p := d.plan(w.s)
			if p == nil || slices.ContainsFunc(p.Extents, func(x extent.Extent) bool { return w.open.rewrites(d.tp, x.Bundle) }) {
				continue
			}
			partitions := []job.Partition{*p}
			o := orderOf(startOf(job.Clean, 2, partitions, nil), partitions)
			sum, _ := w.s.CleanupConfigs(d.tp.Topic)
			o.start.Clean = &metadata.Cleaning{Bounds: p.Bounds(), Configs: sum}
			return o, true
		}
		return order{}, false
	}
}

func orderOf(start *metadata.StartJob, partitions []job.Partition) order {
	o := order{start: start, plan: start.Kind, class: classOf(start.Kind, start.Level), partitions: partitions}
	for i := range partitions {
		o.extents += len(partitions[i].Extents)
		for j := range partitions[i].Extents {
			o.bytes += int64(partitions[i].Extents[j].Length)
		}
	}
	return o
}

func startOf(kind job.Kind, level uint8, partitions []job.Partition, inputs []id.Bundle) *metadata.StartJob {
	return &metadata.StartJob{
		Kind: kind, Level: level, Inputs: inputs, First: partitions[0].ID, Last: partitions[len(partitions)-1].ID,
	}
}

func sortedKeys[V any](m map[id.Bundle]V) []id.Bundle { return slices.Sorted(maps.Keys(m)) }

// vacant returns the bundles of groups in which the walk found no extent.
func (w *walk) vacant() (vacant []id.Bundle) {
	for i := range w.plans {
		for _, b := range w.plans[i].bundles {
			if !w.plans[i].found[b.name] {
				vacant = append(vacant, b.name)
			}
		}
	}
	return vacant
}
