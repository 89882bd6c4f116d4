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
// affect every process, and PUTs and GETs report them. Warning reports them too.
type Watch struct {
	log     *zap.Logger
	address string                                                                    // of the store
	probe   func(context.Context, objstore.Bucket, func(*Fault, time.Duration)) error // CreateOnly or Reach
	told    chan struct{}                                                             // closed after the first attempt
	works   chan struct{}                                                             // closed after the first success
	wanted  chan struct{}                                                             // holds one item while a check is wanted
	began   time.Time                                                                 // when the Watch was built

	mu struct {
		sync.Mutex
		fault   *Fault        // of the last attempt before the first success; nil after it and before the first attempt
		later   *Fault        // of the last check after the first success; nil if it succeeded
		checked time.Time     // end of the last attempt or check
		worked  time.Time     // start of the last check that succeeded
		failing time.Time     // start of the first request that failed since the last check that succeeded; zero if none
		ended   chan struct{} // closed and replaced at the end of each check
	}
}

// Bounds of the checks after the first success. Each is one GET, which happens only if Warning or Check is called: at most 520,000 a
// month for Warning, and at most two a second for Check.
const (
	checkPause  = 5 * time.Second // between two checks
	failedPause = time.Second     // after a failed check
	recent      = time.Second     // maximum age of a check whose outcome Check returns
	// startPatience is the time after the start in which the store may still be starting too.
	startPatience = 10 * time.Second
)

// NewWatch returns a Watch that runs probe, which is CreateOnly or Reach. address names the store in faults; "" for none.
func NewWatch(probe func(context.Context, objstore.Bucket, func(*Fault, time.Duration)) error, address string, log *zap.Logger) *Watch {
	w := &Watch{
		log: log, address: address, probe: probe, began: time.Now(),
		told: make(chan struct{}), works: make(chan struct{}), wanted: make(chan struct{}, 1),
	}
	w.mu.ended = make(chan struct{})
	return w
}

// Run probes until the store works, and then makes the checks that Warning asks for until ctx ends. It returns nil or ErrReplaces. Run
// may be called once.
func (w *Watch) Run(ctx context.Context, bucket objstore.Bucket) error {
	began, warned := time.Now(), false
	err := w.probe(ctx, bucket, func(f *Fault, pause time.Duration) {
		w.note(f, began)
		if !warned && f.away() && time.Since(began) < startPatience {
			w.log.Info("waiting for the object store", zap.String("store", w.address), zap.Duration("retry_in", pause))
			return
		}
		warned = true
		w.log.Warn(f.Kind, zap.String("check", f.Check), zap.String("store", w.address), zap.Error(f.Err), zap.Duration("retry_in", pause))
	})
	switch {
	case err == nil:
		w.succeed()
	case errors.Is(err, ErrReplaces):
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wanted:
			w.check(ctx, bucket)
		}
	}
}

// check reads Key, which may be absent, and notes the outcome.
func (w *Watch) check(ctx context.Context, bucket objstore.Bucket) {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := silence(bounded, get(bounded, bucket))
	if errors.Is(err, objstore.ErrNotFound) {
		err = nil
	}
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	before := w.mu.later
	w.mu.later, w.mu.checked = nil, time.Now()
	if err == nil {
		w.mu.failing, w.mu.worked = time.Time{}, began
	} else {
		w.fails(began)
		w.mu.later = diagnose(err)
		w.mu.later.Address, w.mu.later.Since = w.address, w.mu.failing
	}
	later := w.mu.later
	close(w.mu.ended)
	w.mu.ended = make(chan struct{})
	w.mu.Unlock()
	switch {
	case later != nil && before == nil:
		w.log.Warn(later.Kind, zap.String("check", later.Check), zap.String("store", w.address), zap.Error(later.Err))
	case later == nil && before != nil:
		w.log.Info("object store works again", zap.String("store", w.address), zap.Duration("away", time.Since(before.Since)))
	}
}

// fails notes that a request which began at a time failed. A fault does not begin before a check that succeeded. mu is held.
func (w *Watch) fails(began time.Time) {
	if began.Before(w.mu.worked) {
		began = w.mu.worked
	}
	if w.mu.failing.IsZero() || began.Before(w.mu.failing) {
		w.mu.failing = began
	}
}

// NoteFailure notes that another request to the store failed, which began at a time after the first success. It asks Run for a check and
// does not wait. If that check fails too, the fault began with the request.
func (w *Watch) NoteFailure(began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails(began)
	w.want()
}

// Warning returns the fault of the last check after the first success, or nil. It asks Run for a check if the last one is old, and does
// not wait.
func (w *Watch) Warning() *Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	pause := checkPause
	if w.mu.later != nil {
		pause = failedPause
	}
	if time.Since(w.mu.checked) >= pause {
		w.want()
	}
	return w.mu.later
}

// Check returns the fault of the store, or nil if it works. If the last check is older than a second, Check asks Run for another one and
// waits until it ends. If ctx ends first, the store counts as silent. Before the first success, Check returns the last fault and does
// not wait.
func (w *Watch) Check(ctx context.Context) *Fault {
	began := time.Now()
	select {
	case <-w.works:
	default:
		if f := w.fault(); f != nil {
			return f
		}
		return &Fault{Kind: "object store does not answer", Address: w.address, Since: w.began, Err: errSilent}
	}
	w.mu.Lock()
	ended, fault, checked := w.mu.ended, w.mu.later, w.mu.checked
	w.mu.Unlock()
	if began.Sub(checked) < recent {
		return fault
	}
	w.want()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.later == nil && w.mu.checked.Before(began) {
		w.fails(began)
		return &Fault{Kind: "object store does not answer", Address: w.address, Since: w.mu.failing, Err: errSilent}
	}
	return w.mu.later
}

// want asks Run for a check and does not wait.
func (w *Watch) want() {
	select {
	case w.wanted <- struct{}{}:
	default:
	}
}

// note stores the fault of a failed attempt of a probe that began at a time.
func (w *Watch) note(f *Fault, began time.Time) {
	f.Address, f.Since = w.address, began
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
	w.mu.fault, w.mu.checked = nil, time.Now()
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
