package job

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// reclaims is what a tenure remembers about half-dead bundles. Of the goroutine of Run.
type reclaims struct {
	next time.Time // no walk before
	// seen are the bundles that jobs were planned for, and until when no walk looks for them again: a job may fail, or be unable to
	// take all extents. A walk adds at most roundBundles, so there are at most ten times as many.
	seen map[id.Bundle]time.Time
}

func (r *reclaims) add(seen []candidate, now time.Time) {
	for _, c := range seen {
		r.seen[c.name] = now.Add(seenPause)
	}
}

// halfDead reports whether a rewrite of the bundle is worth its cost: at most half of the object is live, and its dead bytes outweigh the
// cost of the requests and of the moved extents.
func (t *Tenure) halfDead(b *metadata.BundleInfo) bool {
	dead := int64(b.Bytes) - int64(b.LiveBytes)
	return dead >= int64(b.LiveBytes) && b.LiveExtents <= jobExtents &&
		dead >= max(t.settings.DeadBytes, t.settings.DeadBytes/deadExtents*int64(b.LiveExtents))
}

// settled reports whether neither level will rewrite the bundle. Of level 1, these are the bundles judged to stay, and those that
// the second level has passed over for twice its age, such as lone extents of idle partitions.
func (t *Tenure) settled(name id.Bundle, b *metadata.BundleInfo, aged func(madeMs int64) bool) bool {
	return b.Level == 2 || b.Level == 1 && (t.judged[name] || aged(b.MadeMs))
}

// addHalfDead adds a candidate. The survey keeps the roundBundles with the most dead bytes.
func (v *survey) addHalfDead(c candidate) {
	if v.halfDead = append(v.halfDead, c); len(v.halfDead) == 2*roundBundles {
		v.cutHalfDead()
	}
}

func (v *survey) cutHalfDead() {
	slices.SortFunc(v.halfDead, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.dead, a.dead), cmp.Compare(a.name, b.name))
	})
	v.halfDead = v.halfDead[:min(len(v.halfDead), roundBundles)]
}

// halfDeadGroups returns the inputs of at most limit jobs, those with the most dead bytes first. All of them together have at most
// jobExtents extents. A bundle that alone exceeds a job's bytes is a group by itself.
func (v *survey) halfDeadGroups(jobBytes int64, limit int) []group {
	var groups []group
	left := jobExtents
	for _, c := range v.halfDead {
		if c.extents > left {
			break
		}
		last := len(groups) - 1
		if last < 0 || !groups[last].fitsHalfDead(jobBytes, c) {
			if len(groups) == limit {
				break
			}
			groups = append(groups, group{})
			last++
		}
		groups[last].add(c)
		left -= c.extents
	}
	return groups
}

// fitsHalfDead reports whether the bundle can join the group.
func (g *group) fitsHalfDead(jobBytes int64, c candidate) bool {
	halves := max(g.halves, c.halves)
	return len(g.bundles) < max(maxInputs>>halves, 1) && g.bytes+c.bytes <= jobBytes>>halves
}

// reclaimOrders returns an iterator over jobs that rewrite half-dead bundles. Its first call walks over all extents, if there are
// candidates and the last walk is long enough ago. It leaves out what other jobs of this round take.
func (w *walk) reclaimOrders(ctx context.Context, t *Tenure, limit func() int) func() (order, bool) {
	var plans []reclaimPlan
	walked := false
	return func() (order, bool) {
		if !walked {
			walked = true
			plans = w.reclaim(ctx, t, limit())
		}
		for len(plans) > 0 {
			p := plans[0]
			plans = plans[1:]
			t.reclaims.add(p.bundles, w.now)
			if o, ok := p.order(w.open); ok {
				return o, true
			}
		}
		return order{}, false
	}
}

// reclaimPlan is what the walk found of a group of half-dead bundles.
type reclaimPlan struct {
	group
	partitions []job.Partition
}

// order returns the job. Partitions that an open job cleans are left alone: it writes their extents anew itself.
func (p *reclaimPlan) order(open *openJobs) (o order, ok bool) {
	if slices.ContainsFunc(p.bundles, func(c candidate) bool { return len(open.byInput[c.name]) > 0 }) {
		return order{}, false
	}
	partitions := slices.DeleteFunc(p.partitions, func(q job.Partition) bool { return covered(q.ID, open.cleans) })
	inputs := inputsOf(partitions)
	if len(inputs) == 0 {
		return order{}, false
	}
	o = orderOf(startOf(job.Compact, 2, partitions, inputs), partitions)
	o.class = classReclaim
	return o, true
}

// reclaim plans at most limit jobs by one walk over all extents.
func (w *walk) reclaim(ctx context.Context, t *Tenure, limit int) []reclaimPlan {
	if w.now.Before(t.reclaims.next) {
		return nil
	}
	groups := w.survey.halfDeadGroups(t.settings.Second.JobBytes, limit)
	if len(groups) == 0 {
		return nil
	}
	began := time.Now()
	f := newFinder(groups)
	if !f.all(ctx, w.s) {
		return nil
	}
	f.drop()
	took := time.Since(began)
	t.reclaims.next = w.now.Add(max(reclaimPause, reclaimLoad*took))
	t.log.Debug("looked for the extents of half-dead bundles", zap.Int("bundles", len(f.plan)), zap.Int("jobs", len(groups)),
		zap.Int("extents", f.visited), zap.Duration("took", took))
	return f.plans
}

// finder finds the extents of half-dead bundles.
type finder struct {
	plans   []reclaimPlan
	plan    map[id.Bundle]int // index of the plan that takes a bundle
	missing map[id.Bundle]int // live extents that were not found yet
	visited int
}

func newFinder(groups []group) *finder {
	f := &finder{plan: map[id.Bundle]int{}, missing: map[id.Bundle]int{}}
	for i, g := range groups {
		f.plans = append(f.plans, reclaimPlan{group: g})
		for _, c := range g.bundles {
			f.plan[c.name], f.missing[c.name] = i, c.extents
		}
	}
	return f
}

// all visits every partition; false if ctx ended first.
func (f *finder) all(ctx context.Context, s *metadata.State) bool {
	for _, topic := range topicsInOrder(s) {
		for n := range topic.Partitions {
			if n%1024 == 0 && ctx.Err() != nil {
				return false
			}
			tp := id.TopicPartition{Topic: topic.ID, Partition: n}
			s.AscendExtents(tp, 0, func(x *extent.Extent) bool {
				f.visited++
				if i, ok := f.plan[x.Bundle]; ok && x.Kind != extent.Marker {
					f.missing[x.Bundle]--
					f.plans[i].add(tp, x)
				}
				return true
			})
		}
	}
	return true
}

// add adds an extent. Extents that are not adjacent stay in separate runs.
func (p *reclaimPlan) add(tp id.TopicPartition, x *extent.Extent) {
	if n := len(p.partitions); n == 0 || p.partitions[n-1].ID != tp {
		p.partitions = append(p.partitions, job.Partition{ID: tp})
	}
	last := &p.partitions[len(p.partitions)-1]
	last.Extents = append(last.Extents, *x)
}

// drop removes bundles of which not all live extents were found. The others belong to deleted topics, so the object would stay.
func (f *finder) drop() {
	for i := range f.plans {
		p := &f.plans[i]
		for j := range p.partitions {
			q := &p.partitions[j]
			q.Extents = slices.DeleteFunc(q.Extents, func(x extent.Extent) bool { return f.missing[x.Bundle] > 0 })
		}
		p.partitions = slices.DeleteFunc(p.partitions, func(q job.Partition) bool { return len(q.Extents) == 0 })
	}
}

// inputsOf returns the bundles that the extents of partitions lie in, in their order.
func inputsOf(partitions []job.Partition) []id.Bundle {
	inputs := map[id.Bundle]struct{}{}
	for i := range partitions {
		for j := range partitions[i].Extents {
			inputs[partitions[i].Extents[j].Bundle] = struct{}{}
		}
	}
	return sortedKeys(inputs)
}
