// Package owner runs one virtual cluster's state machine on the replica that owns its log: it gathers proposals into
// groups, appends each group as one log entry, then applies and answers the durable groups.
//
// Two goroutines make a pipeline of depth two: one collects a group and appends it, one append in flight; the other
// applies the group before it. Nothing is applied or answered past an index whose append is not resolved. When an
// append fails, the owner ends: the proposals of that group have an unknown outcome, those behind it none.
package owner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// ApplyFunc is told what the log entry at index changed, in log order, on the apply goroutine, when the entry is
// durable and applied and before its proposals are answered. Concurrent Reads may already have seen the change. It
// may read s during the call, must not keep fx or anything reachable from its slices, and must be quick: it holds up
// every commit.
type ApplyFunc func(s *metadata.State, index uint64, fx *metadata.Effects)

// Owner is one tenure's state machine. Its state has one writer, the apply goroutine; other goroutines read through
// Read. It assumes that the tenure fences itself (metalog.Tenure).
type Owner struct {
	cfg     Config
	queue   *queue
	metrics *metrics
	load    load
	hooks   []ApplyFunc
	done    chan struct{}
	err     error // why it ended; written before done is closed

	mu    sync.RWMutex
	state *metadata.State // nil when the owner has ended; guarded by mu

	// The append loop's.
	next    uint64 // index of the next entry
	now     int64  // command time of the last group, ms
	scratch []byte
}

// New gives an owner that has not started: Read works, proposals wait for Run.
func New(cfg Config) (*Owner, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("owner: %w", err)
	}
	o := &Owner{
		cfg: cfg, queue: newQueue(cfg.QueueBytes), metrics: newMetrics(cfg.Registerer), done: make(chan struct{}),
		state: cfg.State, next: cfg.Tenure.Tail() + 1, now: cfg.State.Now(),
	}
	o.load.limits = rate.Sometimes{Interval: limitWarnings}
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

// OnApply adds a hook. Only before Run.
func (o *Owner) OnApply(fn ApplyFunc) { o.hooks = append(o.hooks, fn) }

// Done is closed when the owner has ended: every proposal is answered and every further call gives ErrNotOwner.
func (o *Owner) Done() <-chan struct{} { return o.done }

// Err tells why the owner ended; nil while it has not, and when its context ended.
func (o *Owner) Err() error {
	select {
	case <-o.done:
		return o.err
	default:
		return nil
	}
}

// Enqueue hands a command in without waiting for its answer: commands enter the log in the order of their Enqueue
// calls. The command must not change any more. It blocks while the queue is full. Errors: ErrNotOwner,
// metalog.ErrLogFull, ErrOverloaded, ErrTooLarge, the context's; none of them leaves an effect. ErrLogFull comes before the log is
// full if groups are held back so long that the command would wait more than Config.MaxWait: its client would give it
// up and send it again, behind itself. If a limit of the applied state refuses the command (metadata.State.Refused), the proposal is answered at
// once and takes no room in the log.
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
// An error is about the first command alone, and none was taken. Commits (*metadata.CommitBundle), which are delayed each by itself, are not for it.
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

// Propose hands a command in and waits for its answer: see Enqueue and Proposal.Wait.
func (o *Owner) Propose(ctx context.Context, cmd metadata.Command) (metadata.Result, uint64, error) {
	p, err := o.Enqueue(ctx, cmd)
	if err != nil {
		return metadata.Result{}, 0, err
	}
	return p.Wait(ctx)
}

// Read calls fn with the state under a read lock, then checks that this replica still is the owner: only then what fn
// saw may be told (I9). It gives the index of the entry that the state is after. fn must not keep s, must not call
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

// Freeze is Read that also gives a frozen copy of the state as fn saw it, for reading at leisure: a walk over many
// topics under the lock would hold every commit up. fn may be nil. It costs the number of tables, and later a copy of each
// changed node. A caller may use results of the copy only if the owner still is the owner afterwards: see ReadFrozen.
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
// further one is begun, and Run returns nil. After Run the state given in Config is the caller's again; it is after
// the last entry that was applied. The tenure is the caller's to resign.
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
	o.state = nil // the caller's again
	o.mu.Unlock()
	o.metrics.forget()
	left := o.queue.close()
	close(o.done)
	for _, p := range left {
		p.fail(cause)
	}
	o.queue.release(left)
}

// logFull tells whether the log budget is used up.
func (o *Owner) logFull() bool { return o.cfg.Tenure.Bytes() >= o.cfg.HardLogBytes }

// expectedWait is how long a command that comes now is held back for the log budget, its own group included.
func (o *Owner) expectedWait() time.Duration {
	d := o.delay()
	if d == 0 {
		return 0
	}
	bytes, count := o.queue.ahead()
	groups := max(bytes/int64(o.cfg.GroupBytes), int64(count/o.cfg.GroupCommands)) + 1
	return d * time.Duration(groups)
}

// delay is how long the next group is held back for the log budget: in proportion to the bytes above the soft limit.
func (o *Owner) delay() time.Duration {
	over := o.cfg.Tenure.Bytes() - o.cfg.SoftLogBytes
	if over <= 0 {
		return 0
	}
	share := float64(over) / float64(o.cfg.HardLogBytes-o.cfg.SoftLogBytes)
	return time.Duration(min(share, 1) * float64(o.cfg.MaxDelay))
}
