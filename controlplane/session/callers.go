package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// callsPerSession is the number of calls in progress, streams included, for each session of Limits.Sessions.
	callsPerSession = 4
	// callRate is the number of calls a second for each session of Limits.Sessions. An agent without an owner makes fewer.
	callRate = 4
	// refusalPause is the time after which a call is refused for want of room, so that an agent that repeats it at once costs little.
	refusalPause = time.Second
)

// callers bounds the calls of the agents of one virtual cluster on this replica, so that one key cannot take the replica from other virtual
// clusters (I10). Calls above the rate wait.
type callers struct {
	most  int // calls in progress
	turns *rate.Limiter
	mu    struct {
		sync.Mutex
		calls    int
		refusals int // calls that wait for their refusal
	}
}

func newCallers(sessions int) *callers {
	return &callers{most: callsPerSession * sessions, turns: rate.NewLimiter(rate.Limit(callRate*sessions), callsPerSession*callRate*sessions)}
}

// enter counts a call and waits for its turn. leave ends the call. Error: ResourceExhausted.
func (c *callers) enter(ctx context.Context) (leave func(), err error) {
	c.mu.Lock()
	full := c.mu.calls >= c.most
	if !full {
		c.mu.calls++
	}
	c.mu.Unlock()
	if full {
		c.waitForRefusal(ctx)
		return nil, status.Errorf(codes.ResourceExhausted, "the agents of the virtual cluster have %d calls in progress, the limit of this replica", c.most)
	}
	leave = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.calls--
	}
	if err := c.turns.Wait(ctx); err != nil {
		leave()
		return nil, status.Errorf(codes.ResourceExhausted, "the agents of the virtual cluster call too often: %v", err)
	}
	return leave, nil
}

// waitForRefusal waits for refusalPause, unless as many calls wait as may be in progress: a call that waits costs about as much as those.
func (c *callers) waitForRefusal(ctx context.Context) {
	c.mu.Lock()
	full := c.mu.refusals >= c.most
	if !full {
		c.mu.refusals++
	}
	c.mu.Unlock()
	if full {
		return
	}
	pause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.refusals--
}

// pause waits for refusalPause, or the end of the call.
func pause(ctx context.Context) {
	timer := time.NewTimer(refusalPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// reserve takes a place for a session that is about to open. done gives it back once the session is among the open ones, or has failed to
// open. Error: ResourceExhausted.
func (t *tenure) reserve() (done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.mu.sessions)+t.mu.opening >= t.limits.Sessions:
		err = fmt.Errorf("the virtual cluster has %d agents, the limit", t.limits.Sessions)
	case !t.openings.Allow():
		err = fmt.Errorf("the agents of the virtual cluster have opened %d sessions in the last minute, the limit", t.limits.Sessions)
	default:
		t.mu.opening++
		return func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.mu.opening--
		}, nil
	}
	t.cluster.full.Do(func() {
		t.log.Warn("agent refused, retries: stop other agents first; such refusals are logged once a minute", zap.Error(err))
	})
	return nil, status.Error(codes.ResourceExhausted, err.Error())
}

// pause waits for refusalPause, or the end of the stream or of the tenure.
func (t *tenure) pause(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	pause(ctx)
}
