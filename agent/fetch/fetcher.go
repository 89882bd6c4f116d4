package fetch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata/extent"
)

// Fetcher answers fetches. Methods are safe for concurrent use.
type Fetcher struct {
	cfg     Config
	metrics *metrics
	ahead   *readAhead
	unsent  unsent
	parked  *parked
	lost    *lost
	warns   *rate.Limiter // of failed reads
	unsaid  atomic.Int64  // warnings not logged since the last one
	drain   chan struct{}
	once    sync.Once
}

// holdTimeout bounds the probe for partitions that are empty in an answer which has bytes of others.
const holdTimeout = 250 * time.Millisecond

// New checks the configuration.
func New(cfg Config) (*Fetcher, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	f := &Fetcher{
		cfg: cfg, warns: rate.NewLimiter(1, 5), ahead: newReadAhead(cfg.Bytes.ReadAhead()),
		unsent: unsent{limit: cfg.UnsentBytes, reclaim: cfg.Reclaim}, lost: newLost(cfg.Views.Invalidate, cfg.Log), drain: make(chan struct{}),
		parked: newParked(cfg.RequestBytes, cfg.Reclaim),
	}
	f.parked.register(cfg.Registerer)
	f.metrics = newMetrics(cfg.Registerer, func() float64 { return float64(f.unsent.held.Load()) }, f.ahead.count, f.lost.extents)
	return f, nil
}

// Drain makes parked fetches answer at once with what there is, and later ones soon, so that clients move on.
func (f *Fetcher) Drain() { f.once.Do(func() { close(f.drain) }) }

// Draining tells whether Drain was called.
func (f *Fetcher) Draining() bool {
	select {
	case <-f.drain:
		return true
	default:
		return false
	}
}

// Leave drops the read-ahead state of a reader that is gone.
func (f *Fetcher) Leave(reader uint64) { f.ahead.leave(reader) }

// Bounds of one fetch.
const (
	// maxGone bounds the look-ups in a row, without a wait, of a fetch that finds objects gone and brings no records.
	maxGone = 3
	// retryPause is between look-ups while the control plane is away.
	retryPause = 100 * time.Millisecond
	// drainWait bounds the wait of fetches that come while draining. None at all would have clients come back at once.
	drainWait = 100 * time.Millisecond
)

// Fetch reads as Kafka's ReplicaManager.fetchMessages does: it answers once min bytes are there, an error is, or max
// wait is over. It always gives a response; partitions that could not be read have retriable errors in it.
func (f *Fetcher) Fetch(ctx context.Context, req *Request) *Response {
	req.MaxBytes = min(max(req.MaxBytes, 0), f.cfg.MaxBytes)
	req.MinBytes = min(max(req.MinBytes, 0), req.MaxBytes)
	a := newAttempt(f, req)
	defer a.close()
	if at := req.internal(); len(at) > 0 {
		a.withInternal(ctx, at)
	} else {
		for !a.round(ctx) {
		}
	}
	a.limitLostErrors()
	f.count(a.resp)
	return a.resp
}

func (f *Fetcher) count(r *Response) {
	result := resultEmpty
	if r.Bytes > 0 {
		result = resultData
	}
	for i := range r.Results {
		if r.Results[i].Err != nil {
			result = resultError
		}
	}
	f.metrics.answers.WithLabelValues(result).Inc()
}

// attempt is one fetch under way.
type attempt struct {
	f        *Fetcher
	req      *Request
	deadline time.Time
	drain    <-chan struct{} // ends the wait; nil if it came before the fetch
	resp     *Response

	read  []int // indexes of the partitions that are read
	wants []view.Want
	plans []view.Plan
	gone  int

	planned uint64 // number of the plans: lost.planning
	lost    []bool // by plan: ends before a lost extent

	waiter *view.Waiter
	timer  *time.Timer
}

func newAttempt(f *Fetcher, req *Request) *attempt {
	a := &attempt{
		f: f, req: req, deadline: req.Arrived.Add(req.MaxWait), drain: f.drain,
		resp: &Response{Results: make([]Result, len(req.Partitions))},
	}
	select {
	case <-f.drain:
		a.drain, a.deadline = nil, req.Arrived.Add(min(req.MaxWait, drainWait))
	default:
	}
	for i := range req.Partitions {
		p := &req.Partitions[i]
		if p.Refused != nil || internaltopic.Has(p.ID.Topic) {
			continue
		}
		a.read = append(a.read, i)
		a.wants = append(a.wants, view.Want{Partition: p.ID, Offset: p.Offset, Committed: req.ReadCommitted})
	}
	a.plans, a.lost = make([]view.Plan, len(a.wants)), make([]bool, len(a.wants))
	if len(a.wants) == 0 && len(req.internal()) == 0 {
		a.deadline = time.Time{}
	}
	return a
}

func (a *attempt) close() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// over tells whether there is no waiting any more.
func (a *attempt) over(ctx context.Context) bool {
	select {
	case <-a.drain:
		return true
	default:
		return ctx.Err() != nil || !time.Now().Before(a.deadline)
	}
}

// round plans, and reads or waits; it reports whether the response is done.
func (a *attempt) round(ctx context.Context) (done bool) {
	a.resp.reset()
	a.refuse()
	if len(a.wants) == 0 {
		return true
	}
	if err := a.plan(ctx); err != nil {
		if !a.over(ctx) {
			a.pause(ctx)
			return false
		}
		a.giveUp()
		return true
	}
	available, settled := a.judge()
	switch {
	case !settled && !a.confirm(ctx, a.f.cfg.AskTimeout):
		a.answerFresh()
		return true
	case !settled:
		if err := a.plan(ctx); err != nil {
			a.giveUp()
			return true
		}
		if available, settled = a.judge(); !settled {
			return false // voided in between: look again
		}
	}
	missing := int64(a.req.MinBytes) - available
	switch {
	case missing <= 0 || a.failed() || a.over(ctx):
	case a.degraded():
		a.pause(ctx) // no notice will come
		return false
	default:
		if a.behind() { // more is there than the plans name
			available = a.extend(ctx)
			missing = int64(a.req.MinBytes) - available
		}
		if missing > 0 && !a.behind() {
			a.wait(ctx, missing)
			return false
		}
	}
	return a.answer(ctx)
}

// plan asks the views, within the time that there is.
func (a *attempt) plan(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.f.cfg.AskTimeout)
	defer cancel()
	for range 2 { // a plan that names a missing object may be outdated, and is made once more
		a.planned = a.f.lost.planning()
		if err := a.f.cfg.Views.Plan(ctx, a.wants, a.plans); err != nil {
			return err
		}
		again := false
		for n := range a.plans {
			again = a.cut(n) || again
		}
		if !again {
			break
		}
	}
	return nil
}

// cut ends plan n before its first lost extent. It reports whether the plan is outdated, and changes nothing then. Stale
// plans stay as they are, because no look-up can replace them.
func (a *attempt) cut(n int) (outdatedPlan bool) {
	plan := &a.plans[n]
	a.lost[n] = false
	if plan.Stale {
		return false
	}
	exts := below(plan)
	at, v := a.f.lost.check(a.wants[n].Partition, exts, a.planned)
	if v == confirmedLost {
		plan.End, a.lost[n] = exts[at].Base, true
	}
	return v == outdated
}

// refuse sets the errors that were found before.
func (a *attempt) refuse() {
	for i := range a.req.Partitions {
		if err := a.req.Partitions[i].Refused; err != nil {
			a.resp.Results[i].fail(err)
			a.resp.Results[i].Refused = true
		}
	}
}

// giveUp answers for partitions of which nothing is known: the control plane is away.
func (a *attempt) giveUp() {
	a.f.metrics.unknown.Inc()
	a.refuseAll()
}

// refuseAll answers with an error that makes clients ask again.
func (a *attempt) refuseAll() {
	for _, i := range a.read {
		a.resp.Results[i].fail(kerr.NotLeaderForPartition)
	}
}

// judge sets marks and errors from the plans and sums up the bytes that may be read. settled is false if an error
// among them rests on knowledge older than the request (I4).
func (a *attempt) judge() (available int64, settled bool) {
	settled = true
	for n, i := range a.read {
		plan, r, p := &a.plans[n], &a.resp.Results[i], &a.req.Partitions[i]
		fresh := plan.FreshFor(a.req.Arrived)
		*r = Result{Marks: plan.Marks, Confirmed: fresh}
		switch {
		case plan.Away:
			r.fail(kerr.NotLeaderForPartition)
		case plan.Unknown:
			settled = settled && fresh
			r.fail(kerr.UnknownTopicOrPartition)
		case p.Offset < plan.Marks.LogStart || p.Offset > plan.Marks.HighWatermark:
			settled = settled && fresh
			r.fail(kerr.OffsetOutOfRange)
		case a.lost[n] && p.Offset >= plan.End:
			r.fail(kerr.KafkaStorageError)
			r.Lost = true
		default:
			available += a.available(plan, p)
		}
	}
	return available, settled
}

// available estimates what a plan brings, as Kafka does: extents count whole.
func (a *attempt) available(plan *view.Plan, p *Partition) int64 {
	n := int64(0)
	if p.Offset >= plan.End {
		return 0
	}
	for i := range plan.Extents {
		if n >= int64(p.MaxBytes) || plan.Extents[i].Base >= plan.End {
			break
		}
		n += max(view.Size(&plan.Extents[i]), 1)
	}
	return max(min(n, int64(p.MaxBytes)), 1)
}

// failed reports whether a partition that is read has an error that ends the wait. Errors of refused partitions and of lost
// extents do not: clients would repeat the fetch without a pause. Kafka treats refused partitions in the same way.
func (a *attempt) failed() bool {
	return slices.ContainsFunc(a.read, func(i int) bool { return a.resp.Results[i].Err != nil && !a.resp.Results[i].Lost })
}

// limitLostErrors removes errors of lost extents that this reader already got within max wait. That happens if records of
// other partitions ended the wait early. Such a partition then has its high watermark, no records and no error.
func (a *attempt) limitLostErrors() {
	for n, i := range a.read {
		r, p := &a.resp.Results[i], &a.req.Partitions[i]
		if r.Lost && !a.f.lost.errorDue(a.req.Reader, p.ID, a.req.MaxWait) {
			*r = Result{Marks: a.plans[n].Marks, Confirmed: a.plans[n].FreshFor(a.req.Arrived)}
		}
	}
}

// degraded tells whether plans are from before the session stream broke.
func (a *attempt) degraded() bool {
	return slices.ContainsFunc(a.plans, func(p view.Plan) bool { return p.Stale })
}

// confirm makes the plans fresh for this request by a probe.
func (a *attempt) confirm(ctx context.Context, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return a.f.cfg.Views.Confirm(ctx) == nil
}

// answer reads, and sees to it that what is empty is so now. It reports whether the response is done.
func (a *attempt) answer(ctx context.Context) (done bool) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.f.cfg.ReadTimeout, errNotReady)
	defer cancel()
	read, ok := a.f.unsent.await(ctx)
	if !ok {
		a.f.metrics.noRoom.Inc()
		a.refuseAll()
		return true
	}
	gone := a.readAll(ctx)
	read()
	if gone && a.resp.Bytes == 0 && !a.failed() && ctx.Err() == nil {
		if a.gone++; a.gone < maxGone {
			return false
		}
		a.giveUpGone()
		return true
	}
	if !a.stale() {
		return true
	}
	timeout := a.f.cfg.AskTimeout
	if a.resp.Bytes > 0 {
		timeout = holdTimeout
	}
	if a.confirm(ctx, timeout) && a.plan(ctx) == nil {
		return a.recheck()
	}
	a.answerFresh()
	return true
}

// stale tells whether a partition is answered as at its end by knowledge older than the request.
func (a *attempt) stale() bool {
	for n, i := range a.read {
		if a.atEnd(n, i) && !a.resp.Results[i].Confirmed {
			return true
		}
	}
	return false
}

// atEnd tells whether the answer says that there is nothing after the partition's offset.
func (a *attempt) atEnd(n, i int) bool {
	r := &a.resp.Results[i]
	return r.Err == nil && r.Size == 0 && a.req.Partitions[i].Offset >= a.limit(n)
}

// limit is the first offset that is not readable, as the plan's marks have it.
func (a *attempt) limit(n int) int64 { return a.plans[n].Marks.Limit(a.req.ReadCommitted) }

// recheck takes the marks of fresh plans for what was empty. An answer without bytes is planned again if there is
// something now.
func (a *attempt) recheck() (done bool) {
	for n, i := range a.read {
		r, plan := &a.resp.Results[i], &a.plans[n]
		if r.Err != nil || r.Size > 0 {
			continue
		}
		switch fresh := plan.FreshFor(a.req.Arrived); {
		case plan.Stale: // there is more, and the answer says so
			continue
		case plan.Away:
			r.fail(kerr.NotLeaderForPartition)
			continue
		case !fresh, plan.Unknown, a.req.Partitions[i].Offset < plan.Marks.LogStart:
			return false
		default:
			*r = Result{Marks: plan.Marks, Confirmed: fresh}
		}
		if a.resp.Bytes == 0 && a.req.Partitions[i].Offset < a.limit(n) {
			return false
		}
	}
	return true
}

// answerFresh is for when no probe came back: one look-up settles what is empty or out of range; if that fails too,
// nothing is known of it.
func (a *attempt) answerFresh() {
	ctx, cancel := context.WithTimeout(context.Background(), holdTimeout)
	defer cancel()
	var again []int
	for n, i := range a.read {
		if r := &a.resp.Results[i]; r.Size == 0 && !r.Lost && (r.Err != nil || a.atEnd(n, i)) {
			again = append(again, n)
		}
	}
	wants, plans := make([]view.Want, len(again)), make([]view.Plan, len(again))
	for k, n := range again {
		wants[k] = a.wants[n]
	}
	err := a.f.cfg.Views.PlanAnew(ctx, wants, plans)
	if err != nil {
		a.f.metrics.unknown.Inc()
	}
	for k, n := range again {
		r, p := &a.resp.Results[a.read[n]], &a.req.Partitions[a.read[n]]
		switch plan := &plans[k]; {
		case err != nil:
			r.fail(kerr.NotLeaderForPartition)
		case plan.Unknown:
			r.fail(kerr.UnknownTopicOrPartition)
		case p.Offset < plan.Marks.LogStart || p.Offset > plan.Marks.HighWatermark:
			r.fail(kerr.OffsetOutOfRange)
		default:
			*r = Result{Marks: plan.Marks, Confirmed: true}
			if plan.Extents != nil { // the window missed it
				a.f.cfg.Views.Invalidate(p.ID)
			}
		}
	}
}

// giveUpGone answers partitions after maxGone look-ups in a row, each of which named another object that is gone.
func (a *attempt) giveUpGone() {
	for n, i := range a.read {
		if r := &a.resp.Results[i]; r.Err == nil && r.Size == 0 && !a.atEnd(n, i) {
			r.fail(a.f.translate(cache.ErrGone, &a.req.Partitions[i]))
		}
	}
}

// wait parks the fetch until enough bytes came, something changed, or its time is over.
func (a *attempt) wait(ctx context.Context, missing int64) {
	views := a.f.cfg.Views
	if a.waiter == nil {
		a.waiter = view.NewWaiter(missing, a.req.ReadCommitted)
		a.timer = time.NewTimer(time.Until(a.deadline))
	}
	a.waiter.Reset(missing)
	a.gone = 0
	var again <-chan time.Time // fires when lost extents may be read again
	for n := range a.wants {
		if !a.lost[n] { // new records would lie behind the lost extent
			views.Park(a.waiter, a.wants[n].Partition, a.plans[n].Marks)
		} else if again == nil {
			t := time.NewTimer(lostFor)
			defer t.Stop()
			again = t.C
		}
	}
	views.Parked(1)
	select {
	case <-a.waiter.Ready():
	case <-again:
	case <-a.timer.C:
	case <-ctx.Done():
	case <-a.drain:
	}
	views.Parked(-1)
	for n := range a.wants {
		views.Leave(a.waiter, a.wants[n].Partition)
	}
}

// pause waits a little before the control plane is asked again.
func (a *attempt) pause(ctx context.Context) {
	t := time.NewTimer(min(retryPause, time.Until(a.deadline)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-a.drain:
	}
}

// class of a plan's reads. What was compacted is history, though it be an idle partition's newest.
func class(plan *view.Plan) cache.Class {
	if plan.Live && plan.Extents[0].Kind != extent.Absolute {
		return cache.Live
	}
	return cache.CatchUp
}
