package probe

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/objstore"
)

// Watch runs a probe, says in the log what comes of it, and keeps it for who asks whether this process is ready. Once the
// store worked it stays so: later faults have other ways of showing, and are everybody's.
type Watch struct {
	log   *zap.Logger
	probe func(context.Context, objstore.Bucket, func(*Fault, time.Duration)) error // CreateOnly or Reach
	told  chan struct{}                                                             // closed when the first attempt has ended
	works chan struct{}                                                             // closed when one succeeded

	mu struct {
		sync.Mutex
		fault *Fault // of the newest attempt; nil: it succeeded, or there was none
	}
}

// NewWatch makes the Watch of a probe, CreateOnly or Reach.
func NewWatch(probe func(context.Context, objstore.Bucket, func(*Fault, time.Duration)) error, log *zap.Logger) *Watch {
	return &Watch{log: log, probe: probe, told: make(chan struct{}), works: make(chan struct{})}
}

// Run probes until the store works, and then waits for the end of ctx. Its error is ErrReplaces. To be called once.
func (w *Watch) Run(ctx context.Context, bucket objstore.Bucket) error {
	err := w.probe(ctx, bucket, func(f *Fault, pause time.Duration) {
		w.log.Warn(f.Kind, zap.String("check", f.Check), zap.Error(f.Err), zap.Duration("again_in", pause))
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

// note takes the fault of an attempt.
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

// Told is closed when the first attempt has ended, one way or the other.
func (w *Watch) Told() <-chan struct{} { return w.told }

// Works is closed when the store works.
func (w *Watch) Works() <-chan struct{} { return w.works }

// errUnknown: the first attempt has not ended.
var errUnknown = errors.New("nothing heard from the object store yet")

// Ready is nil once the store worked, and else says why it does not.
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

// Refused is the fault while the store refuses what this process is configured with, else nil.
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
