package owner

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/internal/promreg"
	"github.com/freshet-io/freshet/metadata"
)

// nearLimit is the share of a limit of the state at which the owner logs a warning, once in limitWarnings.
const (
	nearLimit     = 0.9
	limitWarnings = time.Minute
)

// limitMetrics has the gauges of the limits of the state, by kind. There is no use of metadata.LimitGroupMembers.
type limitMetrics struct {
	limit, used [len(metadata.Limits{})]prometheus.Gauge
}

func newLimitMetrics(reg prometheus.Registerer) *limitMetrics {
	vec := func(name, help string) *prometheus.GaugeVec {
		return promreg.Register(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "freshet_owner_" + name, Help: help}, []string{"kind"}))
	}
	limit := vec("limit", "Limit of the state, on the owner; 0 is no limit.")
	used := vec("limit_used", "Use of a limit of the state, on the owner; growth beyond the limit is refused.")
	m := new(limitMetrics)
	for i := range m.limit {
		kind := metadata.LimitKind(i)
		label := strings.ReplaceAll(kind.String(), "-", "_")
		m.limit[i] = limit.WithLabelValues(label)
		if kind != metadata.LimitGroupMembers {
			m.used[i] = used.WithLabelValues(label)
		}
	}
	return m
}

// set shows limits and their use, or zeros after a tenure.
func (m *limitMetrics) set(limits, used metadata.Limits) {
	for i := range limits {
		m.limit[i].Set(float64(limits[i]))
		if m.used[i] != nil {
			m.used[i].Set(float64(used[i]))
		}
	}
}

// weighLimits updates the metrics of the limits and of topic and group metadata, and logs a warning about limits that are nearly used up.
func (o *Owner) weighLimits(topicsAndGroups int64) {
	limits, used := o.state.Limits()
	o.metrics.limits.set(limits, used)
	o.metrics.topicsAndGroups.Set(o.topicsAndGroupsShare(topicsAndGroups))
	o.size.offsets.Store(offsetRoom(limits, used))
	o.warnNearLimits(limits, used, topicsAndGroups)
}

// warnNearLimits logs a warning about limits that are nearly used up. metadata.Load.TopicsAndGroups has a limit too: its share of
// Config.MaxBytes.
func (o *Owner) warnNearLimits(limits, used metadata.Limits, topicsAndGroups int64) {
	var near []string
	for i, limit := range limits {
		if limit > 0 && float64(used[i]) >= nearLimit*float64(limit) {
			kind := metadata.LimitKind(i)
			near = append(near, fmt.Sprintf("%s: %d of %d (%s)", kind, used[i], limit, kind.Setting()))
		}
	}
	share := o.topicsAndGroupsShare(topicsAndGroups)
	if share >= nearLimit {
		near = append(near, fmt.Sprintf("memory of topics, configs, groups, offsets and transactions: %d of %.0f bytes (--memory-limit)",
			topicsAndGroups, newGroups.topicsAndGroups*o.maxBytes()))
	}
	if len(near) == 0 {
		return
	}
	o.size.limits.Do(func() {
		o.cfg.Logger.Warn("virtual cluster is near its limits, beyond which growth is refused: delete what is not needed, or raise the limits "+
			"of every control plane (logged once a minute)", zap.Strings("limits", near), zap.Float64("topics_and_groups_share", share))
	})
}

// topicsAndGroupsShare returns the bytes of topic and group metadata as a share of the bound of new topics and groups, or 0 without a bound.
func (o *Owner) topicsAndGroupsShare(bytes int64) float64 {
	bound := o.maxBytes()
	if bound == 0 {
		return 0
	}
	return float64(bytes) / (newGroups.topicsAndGroups * bound)
}

// offsetRoom returns the growth up to which no limit of the state refuses a commit of offsets, even if the commit creates its group.
func offsetRoom(limits, used metadata.Limits) int64 {
	room := int64(math.MaxInt64)
	for _, kind := range []metadata.LimitKind{metadata.LimitGroups, metadata.LimitOffsetBytes, metadata.LimitTextBytes} {
		left := limits[kind] - used[kind]
		switch {
		case limits[kind] == 0 || kind == metadata.LimitGroups && left > 0:
		default:
			room = min(room, max(left, 0))
		}
	}
	return room
}

// answerRefused answers a proposal at once, without the log, if a limit of the applied state refuses it. It does not regard commands in
// flight, which may make room or take it. So Apply decides again about each proposal in the log. Errors: ErrNotOwner.
func (o *Owner) answerRefused(p *Proposal) error {
	switch c := p.cmd.(type) {
	case *metadata.CommitOffsets:
		if c.Transaction == nil && metadata.GrowthOf(c).Bytes <= o.size.offsets.Load() {
			return nil // without the lock, since these are the most frequent commands beside commits of records
		}
	case *metadata.CreateTopic, *metadata.CreatePartitions, *metadata.SetConfigs, *metadata.UpdateGroup, *metadata.AddOffsets:
	default:
		return nil
	}
	var result metadata.Result
	var refused bool
	var limits, used metadata.Limits
	index, err := o.Read(func(s *metadata.State) {
		result, refused = s.Refused(p.cmd)
		limits, used = s.Limits()
	})
	if err != nil || !refused {
		return err
	}
	o.warnNearLimits(limits, used, o.size.load.Load().TopicsAndGroups)
	p.stay.Store(taken)
	p.succeed(result, index)
	return nil
}
