package writer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

// Writer gathers batches into bundles, stores and commits them. It follows the agent session: OnWelcome begins one,
// OnSessionClosed ends it, both as the owner's stream tells (client.Handler). Nothing happens before Run, and Add
// waits while there is no session.
type Writer struct {
	cfg     Config
	log     *zap.Logger
	trouble *trouble
	outage  outage
	metrics *metrics

	intake        *semaphore.Weighted // one Add at a time, in order of arrival
	resubmissions *semaphore.Weighted
	tasks         sync.WaitGroup  // bundles and resubmissions on their way
	life          context.Context // ends when Run gives up what is still under way
	end           context.CancelFunc

	mu struct {
		sync.Mutex
		session  *session      // nil: none at the moment
		changed  chan struct{} // closed and replaced when session or draining changes
		draining bool
	}
}

// New builds a Writer. It fails on an invalid configuration.
func New(cfg Config, reg prometheus.Registerer) (*Writer, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("writer: %w", err)
	}
	w := &Writer{
		cfg: cfg, log: cfg.Log, trouble: newTrouble(cfg.Log), metrics: newMetrics(reg), intake: semaphore.NewWeighted(1),
		resubmissions: semaphore.NewWeighted(int64(cfg.MaxResubmissions)), outage: outage{log: cfg.Log},
	}
	w.life, w.end = context.WithCancel(context.Background())
	w.mu.changed = make(chan struct{})
	w.cfg.Retry.OnRetry = w.onRetry(cfg.Retry.OnRetry)
	return w, nil
}

// Add takes the batches of one produce request in, in order, copying their bytes: they are the caller's again when it
// returns. It waits, after those that came before it, while the write buffers are used up or there is no session;
// when ctx ends meanwhile the batches not yet taken in end with ErrNotTaken. Batches of one partition are committed in
// the order of the Adds that brought them (I2).
func (w *Writer) Add(ctx context.Context, batches []Batch) *Produce {
	p := NewProduce(len(batches), leaseOf(batches))
	if err := w.intake.Acquire(ctx, 1); err != nil {
		w.refuse(p, 0, fmt.Errorf("%w: %w", ErrNotTaken, err))
		return p
	}
	defer w.intake.Release(1)
	taken := 0
	// Not before they are taken: a batch above the write buffers gets memory only while nothing else counts there.
	defer func() { w.cfg.Pool.Charge(int64(taken) * entryOverhead) }()
	for i := range batches {
		switch err := w.take(ctx, &batches[i], p, int32(i)); {
		case err == nil:
			taken++
		case errors.Is(err, ErrMalformed): // others are not concerned
			w.resolve(p, int32(i), Failed(err))
		default:
			w.refuse(p, i, err)
			return p
		}
	}
	return p
}

// refuse ends the batches from the i-th on.
func (w *Writer) refuse(p *Produce, from int, err error) {
	for i := from; i < len(p.mu.stages); i++ {
		w.resolve(p, int32(i), Failed(err))
	}
}

// take puts one batch into the open bundle of the session at that time.
func (w *Writer) take(ctx context.Context, b *Batch, p *Produce, index int32) error {
	if err := b.validate(); err != nil {
		return err
	}
	for {
		s, err := w.awaitSession(ctx)
		if err != nil {
			return err
		}
		if err = s.place(ctx, b, p, index); !errors.Is(err, ErrSessionClosed) {
			return err
		}
	}
}

// awaitSession gives the open session, waiting for one if there is none.
func (w *Writer) awaitSession(ctx context.Context) (*session, error) {
	for waited := false; ; waited = true {
		w.mu.Lock()
		s, changed, draining := w.mu.session, w.mu.changed, w.mu.draining
		w.mu.Unlock()
		switch {
		case draining:
			return nil, ErrDraining
		case s != nil:
			return s, nil
		case !waited:
			w.metrics.waits.WithLabelValues(waitSession).Inc()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: no agent session: %w", ErrNotTaken, ctx.Err())
		}
	}
}

// OnWelcome begins a session, or goes on with the one there is. Part of client.Handler.
func (w *Writer) OnWelcome(m *api.Welcome) {
	w.mu.Lock()
	old := w.mu.session
	same := old != nil && old.id == id.Session(m.GetSession())
	if !same {
		w.mu.session = newSession(w, m)
		w.announce()
	}
	w.mu.Unlock()
	switch {
	case same:
		old.grant(0) // the owner's account begins anew too
	case old != nil:
		old.close()
	}
}

// OnSessionClosed ends the session: what is not handed in for commit yet never will be (I9), and its waiters are told
// at once. Part of client.Handler.
func (w *Writer) OnSessionClosed() {
	w.mu.Lock()
	old := w.mu.session
	w.mu.session = nil
	w.announce()
	w.mu.Unlock()
	if old != nil {
		w.metrics.sessionLost.Inc()
		old.close()
	}
}

// announce wakes who waits for a change. Called with mu held.
func (w *Writer) announce() {
	close(w.mu.changed)
	w.mu.changed = make(chan struct{})
}

// Run seals, stores and commits until ctx ends. It then drops what is not settled, with retriable errors to its
// waiters, and returns when nothing of the writer's runs any more; call Drain first to lose nothing.
func (w *Writer) Run(ctx context.Context) error {
	defer w.stop()
	for ctx.Err() == nil {
		w.mu.Lock()
		s, changed := w.mu.session, w.mu.changed
		w.mu.Unlock()
		if s != nil && s.ctx.Err() == nil {
			s.loop(ctx)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil
}

func (w *Writer) stop() {
	w.mu.Lock()
	s := w.mu.session
	w.mu.session = nil
	w.mu.draining = true
	w.announce()
	w.mu.Unlock()
	if s != nil {
		s.close()
	}
	w.end()
	w.tasks.Wait()
}

// Drain takes no more batches, seals what is gathered, and waits until everything is settled and answered, or ctx
// ends. Batches that wait for a sequence gap to close are answered as retriable. Run goes on until its context ends.
func (w *Writer) Drain(ctx context.Context) error {
	w.mu.Lock()
	s := w.mu.session
	w.mu.draining = true
	w.announce()
	w.mu.Unlock()
	if s == nil {
		return nil
	}
	select {
	case <-s.drain():
		return nil
	case <-s.ctx.Done(): // everything was answered by that
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain writer: %w", ctx.Err())
	}
}

// Flush has what is gathered now stored without further waiting, for whoever waits until what it handed in is settled.
func (w *Writer) Flush() {
	w.mu.Lock()
	s := w.mu.session
	w.mu.Unlock()
	if s != nil {
		s.flush()
	}
}

// Stuck reports whether bundles have been on their way to the object store, or were refused by it, for so long that others
// should not hand their batches to this writer: this agent alone may not reach the store.
func (w *Writer) Stuck() bool {
	if w.outage.stuck(time.Now()) {
		return true
	}
	w.mu.Lock()
	s := w.mu.session
	w.mu.Unlock()
	return s != nil && s.stuck(time.Now())
}

// Settling tells whether the bundle is one that this writer has under way: its memory is handed to the Sink, or
// dropped, when done is closed. A reader that was told of a commit waits for that instead of reading the object store.
func (w *Writer) Settling(b id.Bundle) (done <-chan struct{}, ok bool) {
	w.mu.Lock()
	s := w.mu.session
	w.mu.Unlock()
	if name := b.Submission(); s != nil && s.id == name.Session {
		return s.settling(name.N)
	}
	return nil, false
}
