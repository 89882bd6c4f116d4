package session

import (
	"context"
	"errors"
	"sync"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
)

// forward hands a Kafka request to the admin APIs. Requests of one connection are answered one after the other, in
// their order; those of different connections overlap.
func (a *agent) forward(ctx context.Context, f *api.Forward) {
	if a.t.forwards == nil {
		a.answerForward(f, nil, fault(api.Error_INVALID, "no API is served here"))
		return
	}
	work := func() {
		body, err := a.t.forwards.Handle(ctx, f)
		a.answerForward(f, body, a.forwardFault(f, err))
	}
	if !a.chains.add(f.Connection, work, a.t.spawn) {
		a.answerForward(f, nil, fault(api.Error_UNAVAILABLE, "too many requests under way"))
	}
}

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

func (a *agent) answerForward(f *api.Forward, body []byte, e *api.Error) {
	a.out.push(&api.OwnerItem{Item: &api.OwnerItem_Forward{Forward: &api.ForwardAnswer{Request: f.Request, Body: body, Error: e}}})
}

// chains run work one after the other per key, bounded in all.
type chains struct {
	limit int
	mu    struct {
		sync.Mutex
		queues map[uint64][]func() // a key is there while its work runs; the slice is what comes after
		count  int
	}
}

func newChains(limit int) *chains {
	c := &chains{limit: limit}
	c.mu.queues = map[uint64][]func(){}
	return c
}

// add queues work behind that of its key; false if there is too much or spawn refuses.
func (c *chains) add(key uint64, work func(), spawn func(func()) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.count >= c.limit {
		return false
	}
	if queue, running := c.mu.queues[key]; running {
		c.mu.queues[key] = append(queue, work)
		c.mu.count++
		return true
	}
	if !spawn(func() { c.run(key, work) }) {
		return false
	}
	c.mu.queues[key] = nil
	c.mu.count++
	return true
}

func (c *chains) run(key uint64, work func()) {
	for work != nil {
		work()
		work = c.next(key)
	}
}

// next takes the key's next work; nil ends its chain.
func (c *chains) next(key uint64) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.count--
	queue := c.mu.queues[key]
	if len(queue) == 0 {
		delete(c.mu.queues, key)
		return nil
	}
	c.mu.queues[key] = queue[1:]
	return queue[0]
}
