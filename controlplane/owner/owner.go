// Package owner runs one virtual cluster's state machine on the replica that owns its log. It gathers proposals into
// groups, appends each group as one log entry, then applies and answers the durable groups.
//
// Two goroutines make a pipeline of depth two. One collects a group and appends it, with one append in flight. The other
// applies the previous group. No entry is applied or answered before its append and all earlier ones have succeeded. When an
// append fails, the owner ends. The proposals of that group have an unknown outcome, and later proposals have no effect.
package owner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// ApplyFunc is called with the effects of the log entry at index, in log order, on the apply goroutine. The entry is durable
// and applied then, and its proposals are not answered yet. Concurrent Reads may already have seen the change. An ApplyFunc
// may read s during the call, except for Now, which skipped Ticks change meanwhile. It must not keep fx or anything reachable
// from its slices, and must be quick: it delays every commit.
type ApplyFunc func(s *metadata.State, index uint64, fx *metadata.Effects)

// Owner is one tenure's state machine. Its state has one writer, the apply goroutine; other goroutines read through
// Read. It assumes that the tenure fences itself (metalog.Tenure).
type Owner struct {
	cfg     Config
	queue   *queue
	metrics *metrics
	size    size
	hooks   []ApplyFunc
	done    chan struct{}
	err     error // reason of the end; written before done is closed

	now atomic.Int64 // see time

	mu     sync.RWMutex
	state  *metadata.State // nil when the owner has ended; guarded by mu
	logged int64           // command time of the tenure's last applied entry, ms, 0 before the first; guarded by mu

	// The append loop's.
	next     uint64 // index of the next entry
	scratch  []byte
	reserved func() // ends the reservation of the group (Config.ReserveRoom); nil: it has none
}

// New returns an owner that has not started: Read works, proposals wait for Run.
func New(cfg Config) (*Owner, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("owner: %w", err)
	}
	o := &Owner{
		cfg: cfg, queue: newQueue(cfg.QueueBytes), metrics: newMetrics(cfg.Registerer), done: make(chan struct{}),
		state: cfg.State, next: cfg.Tenure.Tail() + 1,
	}
	o.now.Store(cfg.State.Now())
	o.size.limits = rate.Sometimes{Interval: limitWarnings}
	if o.next <= cfg.State.Index() {
		return nil, fmt.Errorf("owner: state at %d is past the log's tail %d", cfg.State.Index(), o.next-1)
	}
	o.weigh()
	for _, cmd := range cfg.First {
		// A full log must not keep an owner from its start: only the owner can trim it.
		if _, err := o.enqueue(context.Background(), cmd); err != nil {
			return nil, fmt.Errorf("owner: first commands: %w", err)
		}
	}
	return o, nil
}

// OnApply adds a hook. It must be called before Run.
func (o *Owner) OnApply(fn ApplyFunc) { o.hooks = append(o.hooks, fn) }

// Done returns a channel that is closed when the owner has ended: every proposal is answered and every further call returns ErrNotOwner.
func (o *Owner) Done() <-chan struct{} { return o.done }

// Err returns the reason why the owner ended. It is nil before the end, and if the context of Run ended.
func (o *Owner) Err() error {
	select {
	case <-o.done:
		return o.err
	default:
		return nil
	}
}

// Enqueue queues a command without waiting for its answer. Commands enter the log in the order of their Enqueue
// calls. The command must not change any more. Enqueue blocks while the queue is full. Errors: ErrNotOwner,
// metalog.ErrLogFull, ErrOverloaded, ErrTooLarge, the context's. After an error, the command has no effect. ErrLogFull also comes before
// the log is full, if the command would wait longer than Config.MaxWait while groups are delayed: its client would time out and
// send it again. If a limit of the applied state refuses the command (metadata.State.Refused), the proposal is answered at
// once and takes no room in the log. So is a Tick that is not due (metadata.State.NextDue).
func (o *Owner) Enqueue(ctx context.Context, cmd metadata.Command) (*Proposal, error) {
	p, err := o.admitted(ctx, cmd)
	if err != nil {
		o.countRefusal(err)
		return nil, err
	}
	if p.answered() {
		return p, nil
	}
	if err := o.queue.put(ctx, o.done, p); err != nil {
		return nil, err
	}
	return p, nil
}

// runBytes bounds the weight of a run: half of what one log entry holds, or some 200 small commands.
const runBytes = 128 << 10

// EnqueueRun is Enqueue for callers with many commands at a full queue, where each wait for space lets other callers go first. The
// leading commands of cmds, up to runBytes together, wait once and enter the log side by side.
// EnqueueRun returns their proposals, at least one; the commands beyond are the next run. A run ends before the first refused command.
// An error is that of the first command, and no command was taken. cmds must have no commits (*metadata.CommitBundle), which are delayed one by one.
func (o *Owner) EnqueueRun(ctx context.Context, cmds []metadata.Command) ([]*Proposal, error) {
	var run, queued []*Proposal
	var weight int64
	for _, cmd := range cmds {
		p, err := o.admitted(ctx, cmd)
		if err != nil && len(run) == 0 {
			o.countRefusal(err)
			return nil, err
		}
		if err != nil {
			break
		}
		if len(run) > 0 && weight+p.weight() > min(runBytes, o.cfg.QueueBytes) {
			o.queue.unreserve(p)
			break
		}
		run = append(run, p)
		if !p.answered() {
			queued, weight = append(queued, p), weight+p.weight()
		}
	}
	if err := o.queue.put(ctx, o.done, queued...); err != nil {
		return nil, err
	}
	return run, nil
}

// admitted returns the proposal of a command, which is answered if a limit of the state refuses the command. admitted refuses the command if the
// log or the state has no room, and delays commits: see Enqueue.
func (o *Owner) admitted(ctx context.Context, cmd metadata.Command) (*Proposal, error) {
	if !urgent(cmd) && (o.logFull() || o.expectedWait() > o.cfg.MaxWait) {
		return nil, metalog.ErrLogFull
	}
	p, err := o.proposal(cmd)
	if err != nil {
		return nil, err
	}
	if err := o.answerRefused(p); err != nil || p.answered() {
		return p, err
	}
	if err := o.skipTick(p); err != nil || p.answered() {
		return p, err
	}
	return p, o.admit(ctx, p)
}

func (o *Owner) enqueue(ctx context.Context, cmd metadata.Command) (*Proposal, error) {
	p, err := o.proposal(cmd)
	if err != nil {
		return nil, err
	}
	if err := o.queue.put(ctx, o.done, p); err != nil {
		return nil, err
	}
	return p, nil
}

func (o *Owner) proposal(cmd metadata.Command) (*Proposal, error) {
	p := &Proposal{cmd: cmd, size: encodedSize(cmd), came: time.Now(), done: make(chan struct{})}
	if p.size > o.cfg.CommandBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, p.size, o.cfg.CommandBytes)
	}
	return p, nil
}

// Propose enqueues a command and waits for its answer: see Enqueue and Proposal.Wait.
func (o *Owner) Propose(ctx context.Context, cmd metadata.Command) (metadata.Result, uint64, error) {
	p, err := o.Enqueue(ctx, cmd)
	if err != nil {
		return metadata.Result{}, 0, err
	}
	return p.Wait(ctx)
}

// Read calls fn with the state under a read lock, then checks that this replica still is the owner. A caller uses the results
// of fn only after this check (I9). Read returns the index of the last applied entry. fn must not keep s, must not call
// Read, and must be quick. Errors: ErrNotOwner.
func (o *Owner) Read(fn func(s *metadata.State)) (index uint64, err error) {
	index, ok := o.readLocked(fn)
	if !ok || !o.cfg.Tenure.Valid() {
		return 0, ErrNotOwner
	}
	return index, nil
}

func (o *Owner) readLocked(fn func(s *metadata.State)) (index uint64, ok bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.state == nil {
		return 0, false
	}
	fn(o.state)
	return o.state.Index(), true
}

// Freeze is Read that also returns a frozen copy of the state as of fn, for long reads: a walk over many topics under the
// lock would delay every commit. fn may be nil. The cost is the number of tables, and later a copy of each
// changed node. A caller may use results of the copy only if this replica still is the owner afterwards: see ReadFrozen.
func (o *Owner) Freeze(fn func(s *metadata.State)) (*metadata.State, error) {
	frozen := o.freezeLocked(fn)
	if frozen == nil || !o.cfg.Tenure.Valid() {
		return nil, ErrNotOwner
	}
	return frozen, nil
}

func (o *Owner) freezeLocked(fn func(s *metadata.State)) *metadata.State {
	o.mu.Lock() // a snapshot counts as a change of the tables it shares
	defer o.mu.Unlock()
	if o.state == nil {
		return nil
	}
	if fn != nil {
		fn(o.state)
	}
	return o.state.Snapshot()
}

// ReadFrozen is Read for a fn that takes long: it is called with a frozen copy, without any lock.
func (o *Owner) ReadFrozen(fn func(s *metadata.State)) (index uint64, err error) {
	s, err := o.Freeze(nil)
	if err != nil {
		return 0, err
	}
	fn(s)
	if !o.cfg.Tenure.Valid() {
		return 0, ErrNotOwner
	}
	return s.Index(), nil
}

// Run appends and applies until ctx ends or the tenure is over. When ctx ends, the append under way is finished, no
// further one is begun, and Run returns nil. After Run the caller may use Config.State again, which is the state after
// the last applied entry. The caller resigns the tenure.
func (o *Owner) Run(ctx context.Context) error {
	groups := make(chan *group)
	var applying sync.WaitGroup
	applying.Go(func() {
		fx := new(metadata.Effects)
		for g := range groups {
			o.apply(g, fx)
		}
	})
	err := o.appendGroups(ctx, groups)
	close(groups)
	applying.Wait()
	if errors.Is(err, errStopped) {
		err = nil
	}
	o.finish(err)
	return err
}

// finish answers all waiting proposals. None of them was appended.
func (o *Owner) finish(err error) {
	o.err = err
	cause := ErrNotOwner
	if err != nil {
		cause = fmt.Errorf("%w: %w", ErrNotOwner, err)
		o.cfg.Logger.Warn("owner ended", zap.Int64("tenure", o.cfg.Tenure.ID()), zap.Error(err))
	}
	o.mu.Lock()
	o.state = nil // the caller may use it again
	o.mu.Unlock()
	o.metrics.forget()
	left := o.queue.close()
	close(o.done)
	for _, p := range left {
		p.fail(cause)
	}
	o.queue.release(left)
}

// logFull reports whether the log budget is used up.
func (o *Owner) logFull() bool {
	_, hard := o.logLimits()
	return o.cfg.Tenure.Bytes() >= hard
}

// logLimits returns the limits of the log as of now.
func (o *Owner) logLimits() (soft, hard int64) {
	room := o.cfg.LogRoom()
	return int64(room * float64(o.cfg.SoftLogBytes)), int64(room * float64(o.cfg.HardLogBytes))
}

// expectedWait returns the delay of a new command by the log budget, with the delay of its own group.
func (o *Owner) expectedWait() time.Duration {
	d := o.delay()
	if d == 0 {
		return 0
	}
	bytes, count := o.queue.ahead()
	groups := max(bytes/int64(o.cfg.GroupBytes), int64(count/o.cfg.GroupCommands)) + 1
	return d * time.Duration(groups)
}

// delay returns the delay of the next group by the log budget, in proportion to the bytes above the soft limit.
func (o *Owner) delay() time.Duration {
	soft, hard := o.logLimits()
	over := o.cfg.Tenure.Bytes() - soft
	if over <= 0 {
		return 0
	}
	share := float64(over) / float64(max(hard-soft, 1))
	return time.Duration(min(share, 1) * float64(o.cfg.MaxDelay))
}
