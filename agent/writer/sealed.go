package writer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/slab"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// sealed is a named bundle on its way to be settled. One goroutine carries it: run. Fields are that goroutine's,
// except those the session's lock guards.
type sealed struct {
	s    *session
	n    uint32
	at   time.Time // when it was sealed
	size uint32    // of the object, bytes, once laid out

	entries []entry
	groups  []group
	bytes   int // of batches
	slabs   []*slab.Slab

	turn chan struct{} // closed when all bundles before it were handed in, or never will be
	over chan struct{} // closed when its memory was handed over or released

	// Guarded by the session's lock.
	submitted bool // handed in for commit
	handed    bool // so, or given up: those behind it need not wait
	answered  bool // its result was received
	left      bool // gone
}

func newSealed(s *session, n uint32, g *gathering) *sealed {
	return &sealed{
		s: s, n: n, at: time.Now(), entries: g.entries, groups: g.groups, bytes: g.size, slabs: g.slabs,
		turn: make(chan struct{}), over: make(chan struct{}),
	}
}

func (b *sealed) name() id.Submission { return id.Submission{Session: b.s.id, N: b.n} }

// run carries the bundle from its PUT to its end.
func (b *sealed) run() {
	defer b.s.gone(b)
	free := make(chan struct{}) // closed when no PUT attempt reads the memory any more
	err := b.put(free)
	b.s.putEnded()
	result := b.settle(err, free)
	<-free
	runtime.Gosched() // those just answered go first: readers of megabytes are about to be woken
	b.handOver(result)
}

// settle commits or abandons the bundle and tells the waiters. It gives the result if there are accepted batches to
// hand over.
func (b *sealed) settle(putErr error, free <-chan struct{}) *commit.Result {
	defer b.s.answered(b)
	if putErr != nil {
		b.abandon(putErr)
		return nil
	}
	b.s.w.outage.stored()
	select {
	case <-free:
		b.compact()
	default: // an attempt still reads; the memory stays as it is
	}
	b.awaitStamps()
	result, err := b.commit()
	if err == nil {
		err = statusError(result.Status)
	}
	if err != nil {
		b.fail(err)
		return nil
	}
	b.answer(result)
	return result
}

// put lays the bundle out and stores it. free is closed, here or later, when nothing reads the memory any more.
func (b *sealed) put(free chan struct{}) error {
	released := func() { close(free) }
	ctx, cancel := context.WithDeadline(b.s.ctx, b.at.Add(b.s.w.cfg.SubmissionDeadline))
	defer cancel()
	body, err := b.layOut()
	if err != nil {
		released()
		return err
	}
	m := b.s.w.metrics
	m.putting.Inc()
	defer m.putting.Dec()
	defer b.watch()()
	began := time.Now()
	err = b.s.w.cfg.Retry.Put(ctx, b.s.w.cfg.Bucket, bundle.Key(b.s.prefix, b.name().Bundle()), body, released)
	m.putSeconds.Observe(time.Since(began).Seconds())
	m.bundleBytes.Observe(float64(body.Size))
	m.bundleBatches.Observe(float64(len(b.entries)))
	return err
}

// layOut groups the batches by partition and gives every batch its position.
func (b *sealed) layOut() (objstore.Body, error) {
	var e bundle.Encoder
	e.Reset(b.name())
	sortGroups(b.groups)
	for _, g := range b.groups {
		position := e.Section(g.partition)
		for i := g.first; i >= 0; i = b.entries[i].next {
			if err := e.Batch(b.entries[i].bytes); err != nil {
				return objstore.Body{}, fmt.Errorf("lay out bundle: %w", err)
			}
			b.entries[i].position = position
			position += uint32(len(b.entries[i].bytes))
		}
	}
	body, _ := e.Finish()
	b.size = uint32(body.Size)
	return body, nil
}

// abandon gives the bundle up: its waiters are told, and the sequencer must not wait for it.
func (b *sealed) abandon(cause error) {
	if b.s.ctx.Err() == nil { // else the session's end ended the PUT
		b.s.w.outage.abandoned(zap.Stringer("bundle", b.name()), cause)
	}
	b.fail(fmt.Errorf("%w: %w", ErrStore, cause))
	if !b.awaitTurn() {
		return
	}
	b.s.passOn(b)
	w := b.s.w
	w.metrics.abandoned.Inc()
	_, err := again(b.s.ctx, func() (*commit.Result, error) { return w.cfg.Committer.Abandon(b.s.ctx, b.name()) })
	if err != nil && b.s.ctx.Err() == nil {
		w.log.Error("bundle could not be abandoned", zap.Stringer("bundle", b.name()), zap.Error(err))
	}
}

// awaitTurn waits until all bundles before this one were handed in; false if the session ended.
func (b *sealed) awaitTurn() bool {
	select {
	case <-b.turn:
	case <-b.s.ctx.Done():
	}
	return b.s.ctx.Err() == nil
}

// remains returns what the session needs of a bundle that is gone until all earlier results are there.
func (b *sealed) remains() *sealed {
	return &sealed{n: b.n, submitted: true, handed: b.handed, answered: b.answered, left: true}
}

// drop ends a bundle whose PUT never began. Its waiters were told.
func (b *sealed) drop() {
	b.release()
	b.s.gone(b)
}

// fail ends every batch that has no result yet.
func (b *sealed) fail(err error) {
	r := Failed(err)
	if b.s.ctx.Err() != nil && !errors.Is(err, ErrUnknownOutcome) {
		r = Failed(ErrSessionClosed)
	}
	for i := range b.entries {
		b.s.w.resolve(b.entries[i].owner, b.entries[i].index, r)
	}
}

// release gives the memory back: nothing reads it any more.
func (b *sealed) release() {
	for _, s := range b.slabs {
		s.Release()
	}
	b.slabs = nil
	b.s.w.cfg.Pool.Charge(-int64(len(b.entries)) * entryOverhead)
}
