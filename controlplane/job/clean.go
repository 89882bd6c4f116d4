package job

import (
	"cmp"
	"slices"
	"strings"

	"github.com/freshet-io/freshet/controlplane/job/cleaning"
	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// maxDirty bounds the partitions that one round finds due to be cleaned.
const maxDirty = 64

// dirt is what is due to be cleaned, as a walk finds it.
type dirt struct {
	cluster   map[string]string
	byDefault bool // topics that say nothing are compacted
	now       func() (ms int64, ok bool)

	compacted bool // of the topic at hand
	values    topicconfig.Values
	rules     cleaning.Rules

	due []dirty
}

// dirty is a partition that is due.
type dirty struct {
	tp id.TopicPartition
	cleaning.Decision
	values topicconfig.Values
	nowMs  int64 // by which it is due, since the epoch
	failed int   // attempts in a row
}

func newDirt(s *metadata.State) dirt {
	cluster := s.Configs(metadata.ConfigBroker, "")
	return dirt{cluster: cluster, byDefault: compacts(topicconfig.Effective(nil, cluster, topicconfig.CleanupPolicy))}
}

func compacts(policy string) bool { return strings.Contains(policy, "compact") }

// topic begins a topic. Most are not compacted, so that is found out first.
func (d *dirt) topic(t *metadata.Topic) {
	d.compacted = d.byDefault
	if policy, ok := t.Configs[topicconfig.CleanupPolicy]; ok {
		d.compacted = compacts(policy)
	}
	if d.compacted {
		d.values = topicconfig.Resolve(t.Configs, d.cluster)
		d.compacted, d.rules = d.values.Compact, cleaning.RulesOf(&d.values)
	}
}

// consider looks at a partition of a compacted topic, at which so many attempts in a row failed. It keeps the dirtiest of
// those due; partitions that failed come behind all others, so that they hold nothing up.
//
// A partition that is not due by the state's time is not due by an earlier one. So the store is asked for the time only if a partition may be due.
func (d *dirt) consider(s *metadata.State, tp id.TopicPartition, failed int) {
	if !cleaning.Due(s, tp, d.rules, s.Now()).Due {
		return
	}
	now, ok := d.now()
	if !ok {
		return
	}
	decision := cleaning.Due(s, tp, d.rules, now)
	if !decision.Due {
		return
	}
	d.due = append(d.due, dirty{tp: tp, Decision: decision, values: d.values, nowMs: now, failed: failed})
	slices.SortStableFunc(d.due, func(a, b dirty) int {
		return cmp.Or(cmp.Compare(a.failed, b.failed), cmp.Compare(rank(b.Overdue), rank(a.Overdue)), cmp.Compare(b.Ratio, a.Ratio))
	})
	d.due = d.due[:min(len(d.due), maxDirty)]
}

// rank is 1 of true, 0 of false.
func rank(v bool) int {
	if v {
		return 1
	}
	return 0
}

// plan gives what the job is to rewrite: everything from the log start on, because the records that win are above those
// that lose. Of a partition with too many extents it takes as many as a plan holds, if that reaches what is dirty; nil if
// not.
func (d *dirty) plan(s *metadata.State) *job.Partition {
	p := &job.Partition{ID: d.tp, Clean: &job.CleanSpec{
		FirstDirty: d.FirstDirty, NowMs: d.nowMs, DeleteRetentionMs: d.values.DeleteRetention.Milliseconds(),
		MaxBatchBytes: int64(d.values.MaxMessageBytes),
	}}
	s.AscendExtents(d.tp, 0, func(x *extent.Extent) bool {
		if x.Base >= d.UpTo || len(p.Extents) == jobExtents {
			return false
		}
		p.Extents = append(p.Extents, *x)
		return true
	})
	if n := len(p.Extents); n == 0 || p.Extents[n-1].Last < d.FirstDirty {
		return nil
	}
	p.Aborted = s.AbortedTransactions(d.tp, p.Extents[0].Base, p.Extents[len(p.Extents)-1].Last+1)
	return p
}
