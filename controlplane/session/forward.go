package session

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
)

// forward hands a Kafka request to its handler. Requests of one connection are begun one after the other, each when the one before has its
// answer. Requests of different connections overlap.
func (a *agent) forward(ctx context.Context, f *api.Forward) {
	if a.t.forwards == nil {
		a.answerForward(f, nil, nil, fault(api.Error_INVALID, "no API is served here"))
		return
	}
	if !a.forwards.add(ctx, f, a.t.cluster.waits(f.ApiKey)) {
		a.answerForward(f, nil, nil, fault(api.Error_UNAVAILABLE, "too many requests under way"))
	}
}

// waits reports whether an API's answers wait for other clients.
func (c *Cluster) waits(apiKey int32) bool { return c.cfg.Waits != nil && c.cfg.Waits(apiKey) }

func (a *agent) forwardFault(f *api.Forward, err error) *api.Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrAnswerTooLarge):
		a.refuseAnswer(f, boundAnswer, err)
		return fault(api.Error_INVALID, err.Error())
	case errors.Is(err, ErrBadRequest):
		return fault(api.Error_INVALID, err.Error())
	case errors.Is(err, ErrAnswerLarge):
		return fault(api.Error_LARGE, err.Error())
	case errors.Is(err, ErrAnswersFull):
		a.refuseAnswer(f, boundAnswers, err)
	}
	a.t.log.Debug("forwarded request not answered", zap.Int32("api_key", f.ApiKey), zap.Error(err))
	return commandFault(err)
}

// refuseAnswer counts an answer beyond a bound, and logs one a minute.
func (a *agent) refuseAnswer(f *api.Forward, bound string, err error) {
	a.t.metrics.refusedAnswers.WithLabelValues(bound).Inc()
	a.t.cluster.refusals.Do(func() {
		a.t.log.Warn("answer to a client refused at a bound; answers of this bound are logged once a minute", zap.String("bound", bound),
			zap.Int32("api_key", f.ApiKey), zap.String("client_id", f.ClientId), zap.String("client_host", f.Host), zap.Error(err))
	})
}

// answerForward sends an answer. An answer that fits no message must not end the stream, since the request would be sent again on the next
// stream. It is refused, which closes the client's connection.
func (a *agent) answerForward(f *api.Forward, answer *Answer, body []byte, e *api.Error) {
	switch room := int(f.MaxAnswerBytes); {
	case len(body) > MaxAnswerBytes:
		body, e = nil, a.forwardFault(f, ErrAnswerTooLarge)
	case room > 0 && len(body) > room:
		body, e = nil, a.forwardFault(f, ErrAnswerLarge)
	}
	answer.set(len(body))
	out := &api.ForwardAnswer{Request: f.Request, Body: body, Error: e}
	if answer != nil && e == nil {
		out.RepeatMs = uint32(answer.repeat.Milliseconds())
	}
	a.out.pushAnswer(answer, &api.OwnerItem{Item: &api.OwnerItem_Forward{Forward: out}})
}

// recallAnswers ends the repetition of all answers at all agents, which then forward the requests again.
func (t *tenure) recallAnswers() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.mu.agents {
		if a.repeats.Swap(false) {
			a.out.push(&api.OwnerItem{Item: &api.OwnerItem_RecallAnswers{RecallAnswers: &api.RecallAnswers{}}})
		}
	}
}

// forwardQueue keeps the order of one stream's forwarded requests: per connection one is under way and the others wait
// for its answer. A request that is answered at once costs no goroutine.
//
// Two bounds: Limits.Waiting of requests whose answer waits for other clients (JoinGroup, SyncGroup), which may be minutes, and
// Limits.Forwards of all others, so that members waiting for a rebalance never keep out the requests that end it. A request behind a waiting
// one of its connection counts among the others. An agent sends the next request of a connection when it has the answer to the one before,
// so they are few.
type forwardQueue struct {
	limits      Limits
	start       func(ctx context.Context, f *api.Forward, reply func(body []byte, err error))
	answer      func(f *api.Forward, answer *Answer, body []byte, err error)
	spawn       func(func()) bool
	allowRepeat func() (recall func()) // see Answer.Repeat
	bounds      *Answers
	bytes       *forwardBytes
	mu          struct {
		sync.Mutex
		queues  map[uint64][]*forwarding // by connection, there while one is under way; the slice has the requests behind it
		waiting int
		others  int
	}
}

// forwarding is one request on its way.
type forwarding struct {
	ctx   context.Context //nolint:containedctx // of the request's stream, for when its turn comes
	f     *api.Forward
	waits bool
	stage atomic.Int32
}

// Stages of a request under way. The second of run and reply goes on with the connection's next.
const (
	starting int32 = iota // start has not returned, there is no answer
	answered              // there is an answer, start has not returned
	started               // start has returned, there is no answer
)

func newForwardQueue(a *agent) *forwardQueue {
	q := &forwardQueue{limits: a.t.limits, spawn: a.t.spawn, bounds: a.t.cluster.cfg.Answers, bytes: &a.t.forwardBytes}
	q.allowRepeat = func() (recall func()) {
		a.repeats.Store(true)
		return a.t.recallAnswers
	}
	q.answer = func(f *api.Forward, answer *Answer, body []byte, err error) {
		a.answerForward(f, answer, body, a.forwardFault(f, err))
	}
	if a.t.forwards != nil {
		q.start = a.t.forwards.Start
	}
	q.mu.queues = map[uint64][]*forwarding{}
	return q
}

// add begins a request or queues it behind those of its connection; false if there are too many.
func (q *forwardQueue) add(ctx context.Context, f *api.Forward, waits bool) bool {
	fw := &forwarding{ctx: ctx, f: f, waits: waits}
	first, ok := q.enter(fw)
	if first {
		q.run(fw)
	}
	return ok
}

// enter counts a request. first reports whether its connection has no other under way.
func (q *forwardQueue) enter(fw *forwarding) (first, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	count, limit := q.count(fw)
	if *count >= limit || !q.bytes.take(fw, q.limits.ForwardBytes) {
		return false, false
	}
	*count++
	queue, busy := q.mu.queues[fw.f.Connection]
	if !busy {
		q.mu.queues[fw.f.Connection] = nil
		return true, true
	}
	q.mu.queues[fw.f.Connection] = append(queue, fw)
	return false, true
}

// drop takes a request out of the bounds. Called with mu held.
func (q *forwardQueue) drop(fw *forwarding) {
	count, _ := q.count(fw)
	*count--
	q.bytes.give(fw)
}

// smallForward is the largest body, in bytes, that does not count in Limits.ForwardBytes.
const smallForward = 4 << 10

// forwardBytes counts the bodies of a tenure's forwarded requests.
type forwardBytes struct {
	mu           sync.Mutex
	all, waiting int64
}

// take counts a request, or returns false if there is no room for it.
func (b *forwardBytes) take(fw *forwarding, limit int64) bool {
	n := int64(len(fw.f.Body))
	if n <= smallForward {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all+n > limit || fw.waits && b.waiting+n > limit/2 {
		return false
	}
	b.all += n
	if fw.waits {
		b.waiting += n
	}
	return true
}

// give takes a counted request out.
func (b *forwardBytes) give(fw *forwarding) {
	n := int64(len(fw.f.Body))
	if n <= smallForward {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= n
	if fw.waits {
		b.waiting -= n
	}
}

// count returns the number that a request counts in, and its bound. Called with mu held.
func (q *forwardQueue) count(fw *forwarding) (count *int, limit int) {
	if fw.waits {
		return &q.mu.waiting, q.limits.Waiting
	}
	return &q.mu.others, q.limits.Forwards
}

// run begins a request, and the next ones of its connection as long as each is answered at once.
func (q *forwardQueue) run(fw *forwarding) {
	for fw != nil {
		if fw.ctx.Err() != nil { // asked again on the next stream, where later requests must not come before it
			q.leave(fw)
			return
		}
		answer := &Answer{of: q.bounds, room: int(fw.f.MaxAnswerBytes)}
		if fw.f.Repeats {
			answer.allowRepeat = q.allowRepeat
		}
		q.start(context.WithValue(fw.ctx, answerKey{}, answer), fw.f, q.reply(fw, answer))
		if fw.stage.CompareAndSwap(starting, started) {
			return // reply goes on
		}
		fw = q.leave(fw)
	}
}

// reply returns the function that takes a request's answer, once. It may be called while locks of the handler are held, so it begins
// nothing itself.
func (q *forwardQueue) reply(fw *forwarding, answer *Answer) func(body []byte, err error) {
	return func(body []byte, err error) {
		q.answer(fw.f, answer, body, err)
		if fw.stage.CompareAndSwap(starting, answered) {
			return // run goes on
		}
		if next := q.leave(fw); next != nil {
			q.spawn(func() { q.run(next) }) // refused: the tenure is over, and with it the stream that would be answered
		}
	}
}

// leave takes a request out and returns the connection's next.
func (q *forwardQueue) leave(fw *forwarding) *forwarding {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.drop(fw)
	queue := q.mu.queues[fw.f.Connection]
	if len(queue) == 0 || fw.ctx.Err() != nil { // when the stream has ended, its agent asks again on another
		for _, dropped := range queue {
			q.drop(dropped)
		}
		delete(q.mu.queues, fw.f.Connection)
		return nil
	}
	q.mu.queues[fw.f.Connection] = queue[1:]
	return queue[0]
}
