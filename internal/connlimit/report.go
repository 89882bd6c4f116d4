package connlimit

import (
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// reportInterval is the shortest time between two warnings of a Limit.
const reportInterval = time.Minute

type metrics struct{ evicted, refused *prometheus.CounterVec }

func newMetrics(prefix string, registerer prometheus.Registerer) metrics {
	vector := func(name, help string, reasons ...Reason) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, []string{"reason"})
		registerer.MustRegister(v)
		for _, reason := range reasons {
			v.WithLabelValues(string(reason))
		}
		return v
	}
	return metrics{
		evicted: vector("connections_evicted_total", "Connections closed to make room, or for want of a first request, by reason.",
			Fresh, Idle, Busy, Silent),
		refused: vector("connections_refused_total", "Connections closed at once because a bound was reached, by reason.", Total, Address),
	}
}

// report counts the closes and refusals since the last warning.
type report struct {
	sync.Mutex
	last   time.Time
	counts map[Reason]int
}

// warn logs a close or refusal at a bound, at most once in reportInterval. key is the address of the connection.
func (l *Limit) warn(reason Reason, key netip.Addr) {
	counts := l.report.add(reason)
	if counts == nil {
		return
	}
	bound, setting := l.cfg.Max, l.cfg.Setting
	if reason == Address {
		bound, setting = l.cfg.MaxPerAddress, l.cfg.SettingPerAddress
	}
	l.mu.Lock()
	open, ofAddress := l.mu.open, 0
	if a := l.mu.addresses[key]; a != nil {
		ofAddress = a.open
	}
	l.mu.Unlock()
	fields := []zap.Field{
		zap.String("server", l.cfg.Server), zap.String("reason", string(reason)), zap.Int("bound", bound), zap.Int("connections", open),
		zap.Stringer("address", key), zap.Int("connections_of_address", ofAddress),
		zap.Int("closed_fresh", counts[Fresh]), zap.Int("closed_idle", counts[Idle]), zap.Int("closed_busy", counts[Busy]), zap.Int("refused", counts[Total]+counts[Address]),
	}
	if setting != "" {
		fields = append(fields, zap.String("setting", setting))
	}
	message := "connection closed to make room: too many connections"
	if reason == Total || reason == Address {
		message = "connection refused: too many connections"
	}
	l.cfg.Log.Warn(message, fields...)
}

// add counts a close or refusal. It returns the counts if a warning is due, else nil.
func (r *report) add(reason Reason) map[Reason]int {
	r.Lock()
	defer r.Unlock()
	if r.counts == nil {
		r.counts = make(map[Reason]int)
	}
	r.counts[reason]++
	now := time.Now()
	if !r.last.IsZero() && now.Sub(r.last) < reportInterval {
		return nil
	}
	counts := r.counts
	r.last, r.counts = now, nil
	return counts
}
