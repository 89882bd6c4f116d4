package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/grpcerr"
	"github.com/freshet-io/freshet/internal/wait"
)

var (
	errSilent  = errors.New("the owner sent nothing for too long")
	errRefused = errors.New("stream refused")
)

// stream is one Session stream: a sender goroutine, and the caller's goroutine that receives.
type stream struct {
	rpc    grpc.BidiStreamingClient[api.ToOwner, api.ToAgent]
	out    *outbox
	began  time.Time
	heard  atomic.Int64 // time since began of the last message received
	cancel context.CancelCauseFunc
	plans  plans          // of the receiving goroutine
	steady steady         // the owner's clock; guarded by Session.mu
	parts  *api.Catalogue // received parts of a full catalogue, joined; used by the receiving goroutine
	next   time.Duration  // maximum time until the next probe, as told with each probe; guarded by Session.mu
	rest   time.Duration  // next while the agent is idle: idleInterval, or less for older owners
	// The others are used by begin, and then by the sending goroutine.
	asked   time.Time // when the agent's load was asked for last
	load    *api.Load // the answer; nil: none
	said    *api.Load // what was sent last; nil: nothing
	due     time.Time // when next ends
	commits bool      // a commit was sent since the last tick
}

// idle reports whether the newest heartbeat told the owner that the agent is idle. Called by the sending goroutine, or with Session.mu held.
func (st *stream) idle() bool { return st.next == st.rest && st.rest > reportInterval }

// call sends a call. Called with Session.mu held.
func (st *stream) call(c *call) {
	if !c.until.IsZero() {
		c.item.GetCommit().UntilMs = st.steady.of(c.until)
	}
	st.out.push(c.item)
	c.sent = true
}

// converse finds the owner, opens a stream and serves it until it ends. welcomed reports whether the owner sent Welcome. All calls of the
// handler come from this goroutine.
func (s *Session) converse(ctx context.Context) (welcomed bool, err error) {
	address, err := s.conns.owner(ctx)
	if err != nil {
		return false, err
	}
	s.conns.streams(address)
	defer s.conns.streams("")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	st, first, err := s.open(ctx, cancel, address)
	if err != nil {
		if errors.Is(context.Cause(ctx), errSilent) {
			s.conns.drop(address)
		}
		return false, fmt.Errorf("open a stream with %s: %w", address, grpcerr.Plain(err))
	}
	switch item := first.Item.(type) {
	case *api.OwnerItem_Refused:
		return false, s.refused(address, item.Refused)
	case *api.OwnerItem_Welcome:
		if _, ok := api.Agree(item.Welcome.Protocol, s.cfg.Protocol); !ok {
			return false, &protocolError{address, fmt.Sprintf("the control plane speaks protocol %d, this agent %d", item.Welcome.Protocol, s.cfg.Protocol)}
		}
	default:
		return false, fmt.Errorf("%w: the owner's first item is neither Welcome nor Refused", errRefused)
	}
	s.log.Info("session stream with the owner opened", zap.String("owner", address), zap.Uint32("session", first.GetWelcome().Session))
	err = s.serve(ctx, st, first.GetWelcome(), address)
	if errors.Is(err, errSilent) {
		s.conns.drop(address)
	}
	return true, err
}

// open sends Hello and returns the owner's first item. It fails if the owner's first message has another item.
func (s *Session) open(ctx context.Context, cancel context.CancelCauseFunc, address string) (*stream, *api.OwnerItem, error) {
	timer := time.AfterFunc(s.cfg.DialTimeout, func() { cancel(errSilent) })
	defer timer.Stop()
	rpc, err := s.conns.client(address).Session(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := rpc.Send(&api.ToOwner{Items: []*api.AgentItem{{Item: &api.AgentItem_Hello{Hello: s.hello()}}}}); err != nil {
		_, err = rpc.Recv() // the status is there
		return nil, nil, err
	}
	message, err := rpc.Recv()
	if err != nil {
		return nil, nil, err
	}
	if len(message.Items) != 1 {
		return nil, nil, fmt.Errorf("%w: the first message has %d items", errRefused, len(message.Items))
	}
	return &stream{rpc: rpc, out: newOutbox(), began: time.Now(), cancel: cancel}, message.Items[0], nil
}

func (s *Session) hello() *api.Hello {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &api.Hello{
		VirtualCluster: s.cfg.VirtualCluster, Instance: s.mu.instance, Zone: s.cfg.Zone,
		Endpoints: s.cfg.Endpoints, Version: s.cfg.Version, Session: s.mu.welcome.GetSession(),
		PeerAddress: s.cfg.Peer, Roles: s.cfg.Roles, Protocol: s.cfg.Protocol,
		BucketMarker: s.marker(),
	}
}

func (s *Session) marker() *api.BucketMarker {
	if s.cfg.Marker == nil {
		return nil
	}
	return s.cfg.Marker()
}

// refused returns the error of a refused stream. If the session was closed, it ends the session first.
func (s *Session) refused(address string, r *api.Refused) error {
	switch r.Reason {
	case api.Refused_SESSION_CLOSED:
		s.sessionClosed()
	case api.Refused_WRONG_BUCKET:
		return &WrongBucketError{ClusterID: r.ClusterId, VirtualCluster: r.VirtualCluster, Check: r.Check}
	case api.Refused_OTHER_PROTOCOL:
		return &protocolError{address, r.Message}
	default:
	}
	return fmt.Errorf("%w: %s: %s", errRefused, r.Reason, r.Message)
}

// sessionClosed forgets the closed session, so that the next stream opens a new one.
func (s *Session) sessionClosed() {
	s.mu.Lock()
	had := s.mu.welcome != nil && !s.mu.leaving // after Goodbye the agent expects the close
	s.mu.welcome = nil
	s.mu.instance = freshInstance()
	var gone []*call
	for _, c := range s.mu.calls.inOrder() {
		switch {
		case c.item.GetGoodbye() != nil, c.item.GetAbandon() != nil, c.item.GetDrain() != nil:
			gone = append(gone, s.mu.calls.take(c.id))
		}
	}
	s.mu.Unlock()
	for _, c := range gone {
		s.finish(c, &api.OwnerItem{}, closedCallError(c))
	}
	if had {
		s.metrics.closed.Inc()
		s.cfg.Handler.OnSessionClosed()
	}
}

// closedCallError returns the error of a Goodbye, Abandon or Drain whose session was closed. Commits stay pending: the next session
// asks for their results by name.
func closedCallError(c *call) error {
	if c.item.GetGoodbye() != nil {
		return nil // Goodbye asked for the close
	}
	return ErrSessionClosed
}

// serve runs a welcomed stream with the owner at an address to its end.
func (s *Session) serve(ctx context.Context, st *stream, welcome *api.Welcome, address string) error {
	s.cfg.Handler.OnWelcome(welcome)
	s.begin(st, welcome)
	var sender sync.WaitGroup
	sender.Go(func() { s.send(ctx, st) })
	sender.Go(func() { s.conns.refresh(ctx, address) })
	err := s.receive(st)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	s.leaveStream()
	st.cancel(err)
	sender.Wait()
	s.probes.reset()
	s.metrics.connected.Set(0)
	s.cfg.Handler.OnDisconnect()
	var closed *closedError
	if errors.As(err, &closed) {
		s.sessionClosed()
	}
	return err
}

// begin makes st the current stream and sends every unanswered call on it, in order.
func (s *Session) begin(st *stream, welcome *api.Welcome) {
	s.metrics.connected.Set(1)
	s.mu.Lock()
	newSession := s.mu.welcome.GetSession() != welcome.Session
	s.mu.welcome = welcome
	s.mu.stream = st
	select {
	case <-s.mu.opened:
	default:
		close(s.mu.opened)
	}
	st.steady = steadyAt(welcome.SteadyMs)
	st.rest = max(reportInterval, min(idleInterval, time.Duration(welcome.MaxNextMs)*time.Millisecond))
	for _, c := range s.mu.calls.inOrder() {
		st.call(c)
	}
	if newSession && s.mu.draining {
		drain := drainCall()
		drain.done = make(chan struct{})
		s.mu.calls.add(drain)
		st.out.push(drain.item)
	}
	s.mu.Unlock()
	s.report(st)
}

// leaveStream detaches the session from its stream. Calls that were sent and must not be repeated fail with ErrUnavailable.
func (s *Session) leaveStream() {
	s.repeats.recall()
	s.mu.Lock()
	s.mu.stream = nil
	spent := s.mu.calls.takeSpent()
	s.mu.Unlock()
	for _, c := range spent {
		s.finish(c, nil, fmt.Errorf("%w: the stream ended before the answer came", ErrUnavailable))
	}
}

const (
	// probeInterval is the maximum time between two probes, which are also heartbeats, of an agent that commits.
	probeInterval = 500 * time.Millisecond
	// reportInterval is the maximum time between two load reports of an agent that is not idle.
	reportInterval = 2 * probeInterval
	// idleInterval is the maximum time between two probes, and between two load reports, of an idle agent. Probes are most of what such an
	// agent costs the owner. A Kafka consumer sends a heartbeat every 3 s by default. Its agent forwards one of them every 12 s (see repeats), and
	// the probe is in the same message.
	idleInterval = api.MaxRest - 2500*time.Millisecond
	// idleSlack is the interval of the times at which idle agents send to the owner: multiples of it by their clocks. So the owner of many idle
	// virtual clusters wakes once for several of them. Other agents send at any time: one burst of all their probes would delay commits.
	idleSlack = 100 * time.Millisecond
)

// send writes the outbox in batches, and sends probes and load reports. It ends the stream if the owner leaves a probe without an answer and is
// silent for StreamTimeout.
func (s *Session) send(ctx context.Context, st *stream) {
	tick := time.NewTimer(probeInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.probes.unanswered(s.cfg.StreamTimeout) && time.Since(st.began)-time.Duration(st.heard.Load()) > s.cfg.StreamTimeout {
				st.cancel(errSilent)
				return
			}
			nearest := time.Now().Add(probeInterval / 2) // this tick is the nearest to all times before
			switch {
			case nearest.Sub(st.asked) > reportInterval, nearest.After(st.due):
				s.report(st)
			case st.commits:
				s.heartbeat(st, reportInterval, false)
			}
			st.commits = false
			pause := probeInterval
			if st.idle() {
				pause = wait.Align(pause-idleSlack, idleSlack) // below probeInterval
			}
			tick.Reset(pause)
		case <-st.out.signal:
			if err := s.flush(st); err != nil {
				st.cancel(fmt.Errorf("send: %w", grpcerr.Plain(err)))
				return
			}
		}
	}
}

func (s *Session) flush(st *stream) error {
	for {
		items := st.out.take()
		if len(items) == 0 {
			return nil
		}
		if st.idle() && time.Until(st.due) < st.rest-reportInterval {
			s.heartbeat(st, st.rest, true)
			items = append(items, st.out.take()...)
		}
		st.commits = st.commits || slices.ContainsFunc(items, func(i *api.AgentItem) bool { return i.GetCommit() != nil })
		s.metrics.items.Add(float64(len(items)))
		s.metrics.messages.Inc()
		if err := st.rpc.Send(&api.ToOwner{Items: items}); err != nil {
			return err
		}
	}
}

// closedError ends a stream whose session the owner has closed.
type closedError struct{ message string }

func (e *closedError) Error() string { return "session closed: " + e.message }

// receive dispatches the owner's items until the stream ends.
func (s *Session) receive(st *stream) error {
	for {
		message, err := st.rpc.Recv()
		if err != nil {
			return fmt.Errorf("receive: %w", grpcerr.Plain(err))
		}
		st.heard.Store(int64(time.Since(st.began)))
		for _, item := range message.Items {
			if err := s.dispatch(st, item); err != nil {
				return err
			}
		}
	}
}

func (s *Session) dispatch(st *stream, item *api.OwnerItem) error {
	switch i := item.Item.(type) {
	case *api.OwnerItem_Catalogue:
		if whole := st.join(i.Catalogue); whole != nil {
			s.cfg.Handler.OnCatalogue(whole)
		}
	case *api.OwnerItem_Notice:
		s.cfg.Handler.OnNotice(i.Notice)
	case *api.OwnerItem_Job:
		s.job(st, i.Job)
	case *api.OwnerItem_CancelJob:
		s.cancelJob(i.CancelJob)
	case *api.OwnerItem_Errand:
		s.errand(i.Errand)
	case *api.OwnerItem_ZoneWriter:
		s.zoneWriter(i.ZoneWriter)
	case *api.OwnerItem_RecallAnswers:
		s.repeats.recall()
	case *api.OwnerItem_Welcome:
		s.peerSecret(i.Welcome.PeerSecret)
	case *api.OwnerItem_Stamp:
		answered, more := s.probes.stamped(i.Stamp.Token, i.Stamp.Index)
		if answered {
			s.clock.stamped(time.UnixMilli(i.Stamp.NowMs))
		}
		s.mu.Lock()
		st.steady = steadyAt(i.Stamp.SteadyMs)
		s.mu.Unlock()
		if more {
			s.probe(false)
		}
	case *api.OwnerItem_Refused:
		if i.Refused.Reason == api.Refused_SESSION_CLOSED {
			return &closedError{message: i.Refused.Message}
		}
		return fmt.Errorf("%w: %s: %s", errRefused, i.Refused.Reason, i.Refused.Message)
	default:
		s.answer(st, item)
	}
	return nil
}

// join returns a whole catalogue after its last part, and nil before.
func (st *stream) join(part *api.Catalogue) *api.Catalogue {
	if st.parts != nil {
		st.parts.Topics = append(st.parts.Topics, part.Topics...)
	} else {
		st.parts = part
	}
	if part.More {
		return nil
	}
	whole := st.parts
	st.parts, whole.More = nil, false
	return whole
}

// answer finishes the call that an item answers. After UNAVAILABLE, the call is sent again: on this stream after repeatAfter, or on the next
// stream, until its caller gives up.
func (s *Session) answer(st *stream, item *api.OwnerItem) {
	request, fault, ok := answered(item)
	if !ok {
		return
	}
	if fault.GetCode() == api.Error_UNAVAILABLE {
		time.AfterFunc(repeatAfter, func() { s.repeat(st, request) })
		return
	}
	s.mu.Lock()
	c := s.mu.calls.take(request)
	s.mu.Unlock()
	if c != nil {
		s.finish(c, item, callError(fault))
	}
}

func (s *Session) repeat(st *stream, request uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.mu.calls.pending[request]; c != nil && s.mu.stream == st {
		s.metrics.repeats.Inc()
		st.call(c)
	}
}
