package session

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
)

// forward hands a Kafka request to what answers it. Requests of one connection are begun one after the other, each when
// the one before has its answer; those of different connections overlap.
func (a *agent) forward(ctx context.Context, f *api.Forward) {
	if a.t.forwards == nil {
		a.answerForward(f, nil, fault(api.Error_INVALID, "no API is served here"))
		return
	}
	if !a.forwards.add(ctx, f, a.t.cluster.waits(f.ApiKey)) {
		a.answerForward(f, nil, fault(api.Error_UNAVAILABLE, "too many requests under way"))
	}
}

// waits tells whether an API's answers wait for what other clients do.
func (c *Cluster) waits(apiKey int32) bool { return c.cfg.Waits != nil && c.cfg.Waits(apiKey) }

func (a *agent) forwardFault(f *api.Forward, err error) *api.Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrBadRequest):
		return fault(api.Error_INVALID, err.Error())
	}
	a.t.log.Debug("forwarded request not answered", zap.Int32("api_key", f.ApiKey), zap.Error(err))
	return commandFault(err)
}

// answerForward sends an answer. One that fits no message must not end the stream, which would be asked again on the
// next one: it is refused, which closes the one connection that asked.
func (a *agent) answerForward(f *api.Forward, body []byte, e *api.Error) {
	if len(body) > MaxAnswerBytes {
		a.t.log.Warn("answer too large to be sent", zap.Int32("api_key", f.ApiKey), zap.Int("bytes", len(body)))
		body, e = nil, fault(api.Error_INVALID, "the answer is too large")
	}
	a.out.push(&api.OwnerItem{Item: &api.OwnerItem_Forward{Forward: &api.ForwardAnswer{Request: f.Request, Body: body, Error: e}}})
}

// forwardQueue keeps the order of one stream's forwarded requests: per connection one is under way and the others wait
// for its answer. What is answered at once costs no goroutine.
//
// Two bounds: Limits.Waiting of requests whose answer waits for what other clients do (JoinGroup, SyncGroup), which may
// be minutes, and Limits.Forwards of all others, so that members waiting for a rebalance never keep out the requests
// that end it. Those behind a waiting one of their connection count among the others; an agent sends the next request
// of a connection when it has the answer to the one before, so they are few.
type forwardQueue struct {
	limits Limits
	start  func(ctx context.Context, f *api.Forward, reply func(body []byte, err error))
	answer func(f *api.Forward, body []byte, err error)
	spawn  func(func()) bool
	mu     struct {
		sync.Mutex
		queues  map[uint64][]*forwarding // by connection, there while one is under way; the slice is what comes after
		waiting int
		others  int
	}
}

// forwarding is one request on its way.
type forwarding struct {
	ctx   context.Context //nolint:containedctx // of the stream that it came by, for when its turn comes
	f     *api.Forward
	waits bool
	stage atomic.Int32
}

// Stages of a request under way. Whoever finds that the other side was there first goes on with the connection's next.
const (
	starting int32 = iota // start has not returned, there is no answer
	answered              // there is an answer, start has not returned
	started               // start has returned, there is no answer
)

func newForwardQueue(a *agent) *forwardQueue {
	q := &forwardQueue{limits: a.t.limits, spawn: a.t.spawn}
	q.answer = func(f *api.Forward, body []byte, err error) { a.answerForward(f, body, a.forwardFault(f, err)) }
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

// enter counts a request; first tells that its connection has none under way.
func (q *forwardQueue) enter(fw *forwarding) (first, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if count, limit := q.count(fw); *count >= limit {
		return false, false
	} else {
		*count++
	}
	queue, busy := q.mu.queues[fw.f.Connection]
	if !busy {
		q.mu.queues[fw.f.Connection] = nil
		return true, true
	}
	q.mu.queues[fw.f.Connection] = append(queue, fw)
	return false, true
}

// count gives the number that a request counts in, and its bound. Called with mu held.
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
		q.start(fw.ctx, fw.f, q.reply(fw))
		if fw.stage.CompareAndSwap(starting, started) {
			return // reply goes on
		}
		fw = q.leave(fw)
	}
}

// reply gives the function that takes a request's answer, once. It may be called while locks of the one who answers
// are held, so it begins nothing itself.
func (q *forwardQueue) reply(fw *forwarding) func(body []byte, err error) {
	return func(body []byte, err error) {
		q.answer(fw.f, body, err)
		if fw.stage.CompareAndSwap(starting, answered) {
			return // run goes on
		}
		if next := q.leave(fw); next != nil {
			q.spawn(func() { q.run(next) }) // refused: the tenure is over, and with it the stream that would be answered
		}
	}
}

// leave takes a request out and gives the connection's next.
func (q *forwardQueue) leave(fw *forwarding) *forwarding {
	q.mu.Lock()
	defer q.mu.Unlock()
	count, _ := q.count(fw)
	*count--
	queue := q.mu.queues[fw.f.Connection]
	if len(queue) == 0 || fw.ctx.Err() != nil { // when the stream has ended, its agent asks again on another
		for _, dropped := range queue {
			count, _ := q.count(dropped)
			*count--
		}
		delete(q.mu.queues, fw.f.Connection)
		return nil
	}
	q.mu.queues[fw.f.Connection] = queue[1:]
	return queue[0]
}
