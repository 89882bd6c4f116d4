package owner

import (
	"fmt"
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

// weighLimits updates the metrics of the limits, and logs a warning about limits that are nearly used up. The memory of the catalog
// (metadata.Load.Catalog) has a limit too.
func (o *Owner) weighLimits(catalog int64) {
	limits, used := o.state.Limits()
	o.metrics.limits.set(limits, used)
	var near []string
	for i, limit := range limits {
		if limit > 0 && float64(used[i]) >= nearLimit*float64(limit) {
			kind := metadata.LimitKind(i)
			near = append(near, fmt.Sprintf("%s: %d of %d (%s)", kind, used[i], limit, kind.Setting()))
		}
	}
	if bound := newGroups.catalog * float64(o.cfg.MaxBytes); bound > 0 && float64(catalog) >= nearLimit*bound {
		near = append(near, fmt.Sprintf("memory of topics, configs, groups, offsets and transactions: %d of %.0f bytes (--memory-limit)", catalog, bound))
	}
	if len(near) == 0 {
		return
	}
	o.load.limits.Do(func() {
		o.cfg.Logger.Warn("virtual cluster is near its limits, beyond which growth is refused: delete what is not needed, or raise the limits "+
			"of every control plane (logged once a minute)", zap.Strings("limits", near))
	})
}
