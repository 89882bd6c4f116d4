package writer

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

const (
	// slowPut is from when on a bundle that is not stored yet is worth a warning.
	slowPut = 3 * time.Second
	// troubleEvery is how often trouble with the object store is logged, at most.
	troubleEvery = 10 * time.Second
)

// trouble tells the operator, at a bounded rate, that the object store fails or does not answer.
type trouble struct {
	log    *zap.Logger
	warns  *rate.Limiter
	unsaid atomic.Int64 // warnings not logged since the last one
}

func newTrouble(log *zap.Logger) *trouble {
	return &trouble{log: log, warns: rate.NewLimiter(rate.Every(troubleEvery), 1)}
}

func (t *trouble) warn(message string, fields ...zap.Field) {
	if !t.warns.Allow() {
		t.unsaid.Add(1)
		return
	}
	t.log.Warn(message, append(fields, zap.Int64("warnings_not_logged", t.unsaid.Swap(0)))...)
}

// watch warns if the bundle's PUT is still under way after slowPut; stop ends that.
func (b *sealed) watch() (stop func() bool) {
	return time.AfterFunc(slowPut, func() {
		b.s.w.trouble.warn("object store is slow: bundle not stored yet", zap.Stringer("bundle", b.name()),
			zap.Duration("waiting", slowPut))
	}).Stop
}
