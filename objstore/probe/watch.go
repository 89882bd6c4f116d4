package probe

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/objstore"
)

// Watch runs a probe, logs its failures, and reports readiness. After the first success Watch stays ready: later failures of the store
// affect every process, and PUTs and GETs report them.
type Watch struct {
	log   *zap.Logger
	probe func(context.Context, objstore.Bucket, func(*Fault, time.Duration)) error // CreateOnly or Reach
	told  chan struct{}                                                             // closed after the first attempt
	works chan struct{}                                                             // closed after the first success

	mu struct {
		sync.Mutex
		fault *Fault // of the last attempt; nil after a success and before the first attempt
	}
}

// NewWatch returns a Watch that runs probe, which is CreateOnly or Reach.
func NewWatch(probe func(context.Context, objstore.Bucket, func(*Fault, time.Duration)) error, log *zap.Logger) *Watch {
	return &Watch{log: log, probe: probe, told: make(chan struct{}), works: make(chan struct{})}
}

// Run probes until the store works, and then waits until ctx ends. It returns nil or ErrReplaces. Run may be called once.
func (w *Watch) Run(ctx context.Context, bucket objstore.Bucket) error {
	err := w.probe(ctx, bucket, func(f *Fault, pause time.Duration) {
		w.log.Warn(f.Kind, zap.String("check", f.Check), zap.Error(f.Err), zap.Duration("retry_in", pause))
		w.note(f)
	})
	switch {
	case err == nil:
		w.succeed()
	case errors.Is(err, ErrReplaces):
		return err
	}
	<-ctx.Done()
	return nil
}

// note stores the fault of a failed attempt.
func (w *Watch) note(f *Fault) {
	w.mu.Lock()
	first := w.mu.fault == nil
	w.mu.fault = f
	w.mu.Unlock()
	if first {
		close(w.told)
	}
}

func (w *Watch) succeed() {
	w.mu.Lock()
	first := w.mu.fault == nil
	w.mu.fault = nil
	w.mu.Unlock()
	if !first {
		w.log.Info("object store works now")
	}
	close(w.works)
	if first {
		close(w.told)
	}
}

// Told returns a channel that is closed after the first attempt, failed or not.
func (w *Watch) Told() <-chan struct{} { return w.told }

// Works returns a channel that is closed after the first success.
func (w *Watch) Works() <-chan struct{} { return w.works }

// errUnknown is returned by Ready until the first attempt has ended.
var errUnknown = errors.New("the object store has not answered yet")

// Ready returns nil after the first success, and the last fault before.
func (w *Watch) Ready() error {
	select {
	case <-w.works:
		return nil
	default:
	}
	if f := w.fault(); f != nil {
		return f
	}
	return errUnknown
}

// Refused returns the last fault if Fault.Refused is true, else nil.
func (w *Watch) Refused() error {
	if f := w.fault(); f != nil && f.Refused() {
		return f
	}
	return nil
}

func (w *Watch) fault() *Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.fault
}
