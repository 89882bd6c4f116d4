package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// Handler is told what the owner sends. Its methods are called on one goroutine, in stream order, and must not block
// or call the Session's waiting methods.
type Handler interface {
	// OnWelcome begins a stream: the session is open (a new one, or the same one going on).
	OnWelcome(*api.Welcome)
	// OnCatalogue brings topics, members and configs; the first of a stream is full.
	OnCatalogue(*api.Catalogue)
	// OnNotice brings what commits changed in partitions subscribed to on this stream.
	OnNotice(*api.Notice)
	// OnDisconnect ends the stream: its subscriptions are gone.
	OnDisconnect()
	// OnSessionClosed tells that the session was closed: its commits are refused for ever. A new one is opened.
	OnSessionClosed()
}

// LookupHandler is an optional part of a Handler. OnLookup is called in stream order, before the look-up's caller gets
// the answer, so that a subscription's first answer and the notices that follow it come on one goroutine.
type LookupHandler interface {
	OnLookup(asked []*api.PartitionLookup, answer *api.LookupAnswer)
}

// Session is one agent's standing conversation with the owner of its virtual cluster. Methods are safe for concurrent
// use. Nothing happens before Run.
type Session struct {
	cfg     Config
	log     *zap.Logger
	metrics *metrics
	conns   *connections
	// Unanswered calls are bounded by these. Members that wait for a rebalance must not keep commits waiting, so
	// forwarded requests have a bound of their own.
	budget, forwards, waits *semaphore.Weighted
	probes                  prober
	repeats                 repeats
	clock                   ownerClock

	mu struct {
		sync.Mutex
		calls    calls
		stream   *stream // welcomed, or nil
		instance string  // of the session that is open or being opened
		welcome  *api.Welcome
		opened   chan struct{} // closed by the first Welcome
		draining bool          // Drain was asked for
		leaving  bool          // Goodbye was asked for
		fault    error         // what ended the newest attempt to reach the owner, or the newest stream
	}
}

// New builds a Session. It fails on an invalid configuration.
func New(cfg Config) (*Session, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("control-plane client: %w", err)
	}
	s := &Session{
		cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Registerer), conns: newConnections(cfg),
		budget: semaphore.NewWeighted(cfg.MaxPendingBytes), forwards: semaphore.NewWeighted(cfg.MaxPendingBytes),
		waits: semaphore.NewWeighted(cfg.MaxPendingBytes),
	}
	s.mu.calls.pending = map[uint64]*call{}
	s.mu.opened = make(chan struct{})
	s.mu.instance = freshInstance()
	return s, nil
}

// freshInstance names a session before it has an id: 128 random bits.
func freshInstance() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// Failing attempts to reach the owner are logged at once, then after reportFirst, and ever more rarely down to every
// reportEvery: the first failure is not always the one that tells.
const (
	reportFirst = time.Second
	reportEvery = 10 * time.Second
)

// Bounds of the pause between attempts to reach the owner.
const (
	retryMin = 20 * time.Millisecond
	retryMax = 500 * time.Millisecond
)

// startPatience is the time after the start in which the control plane may still be starting too.
const startPatience = 10 * time.Second

// mayStart reports whether the replicas that failed may only be starting: they accept no connection, do not answer, or know no owner.
func mayStart(err error) bool {
	var all *ownerError
	if !errors.As(err, &all) {
		return startsNow(err)
	}
	return !slices.ContainsFunc(all.answers, func(answer error) bool { return answer != nil && !startsNow(answer) })
}

// startsNow is mayStart for the error of one replica. gRPC has one code for a closed port and for a failed TLS handshake.
func startsNow(err error) bool {
	if status.Code(err) == codes.DeadlineExceeded {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "Error while dialing") || strings.Contains(text, "find the owner") ||
		errors.Is(err, errRefused) && strings.Contains(text, api.Refused_NOT_OWNER.String())
}

// Run keeps the session until ctx ends or Goodbye was answered. Unanswered calls then end with ErrUnavailable. Errors that no
// further attempt cures end it too: WrongBucketError, and RefusedError where the session never was open.
func (s *Session) Run(ctx context.Context) error {
	defer s.conns.close()
	defer s.failAll(fmt.Errorf("%w: the agent is shutting down", ErrUnavailable))
	pause := retryMin
	var reported time.Time
	var silence time.Duration
	var opened bool // at any time
	began, waits := time.Now(), false
	var refusals refusals
	for ctx.Err() == nil && !s.left() {
		welcomed, err := s.converse(ctx)
		if ctx.Err() != nil || s.left() {
			break
		}
		if ends(err) {
			return err
		}
		err = explainCertificate(err)
		opened = opened || welcomed
		if !opened {
			if refused := refusals.after(ctx, s, err); refused != nil {
				return refused
			}
		}
		if welcomed {
			pause, silence = retryMin, 0
		}
		s.metrics.reconnects.Inc()
		s.mu.Lock()
		s.mu.fault = err
		s.mu.Unlock()
		switch {
		case !opened && time.Since(began) < startPatience && mayStart(err):
			if !waits {
				s.log.Info("waiting for the control plane", zap.Strings("control_plane", s.cfg.Replicas))
				waits = true
			}
		case time.Since(reported) > silence:
			reported, silence = time.Now(), min(max(2*silence, reportFirst), reportEvery)
			s.log.Warn("no session stream with the owner", zap.Bool("was_open", welcomed), zap.Error(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, retryMax)
	}
	return nil
}

// ends reports whether an error ends the session for good.
func ends(err error) bool {
	var wrong *WrongBucketError
	return errors.As(err, &wrong)
}

// left tells that Goodbye was answered: no further stream is wanted.
func (s *Session) left() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.leaving && !s.goodbyePending()
}

// goodbyePending tells whether an unanswered Goodbye waits. Called with mu held.
func (s *Session) goodbyePending() bool {
	for _, c := range s.mu.calls.pending {
		if c.item.GetGoodbye() != nil {
			return true
		}
	}
	return false
}

// failAll ends every unanswered call.
func (s *Session) failAll(err error) {
	s.mu.Lock()
	pending := s.mu.calls.inOrder()
	s.mu.calls.pending = map[uint64]*call{}
	s.mu.Unlock()
	for _, c := range pending {
		s.finish(c, nil, err)
	}
}

// finish resolves a call that was taken from the table.
func (s *Session) finish(c *call, answer *api.OwnerItem, err error) {
	if err == nil && c.seen != nil {
		c.seen(answer)
	}
	c.answer, c.err = answer, err
	close(c.done)
	s.budgetOf(c).Release(c.weight)
}

// Opened is closed once a session is open for the first time.
func (s *Session) Opened() <-chan struct{} { return s.mu.opened }

// Connected tells whether there is a stream with the owner at the moment.
func (s *Session) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stream != nil
}

// Fault tells what keeps this agent from a stream with the owner; nil if there is one, or none was tried yet.
func (s *Session) Fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stream != nil {
		return nil
	}
	return s.mu.fault
}

// ID is the open session's id; 0 before the first Welcome and between sessions.
func (s *Session) ID() id.Session {
	return id.Session(s.lastWelcome().GetSession())
}

// BundlePrefix is the prefix of this virtual cluster's objects in the bucket; "" before the first Welcome.
func (s *Session) BundlePrefix() string { return s.lastWelcome().GetBundlePrefix() }

// NodeIDs are the node ids of Config.Endpoints, in their order; nil before the first Welcome and between sessions.
func (s *Session) NodeIDs() []int32 { return s.lastWelcome().GetNodeIds() }

func (s *Session) lastWelcome() *api.Welcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.welcome
}

// submit registers a call, sends it if there is a stream, and waits for its answer. After ctx ended the call is
// forgotten here; whether it took effect is unknown.
func (s *Session) submit(ctx context.Context, c *call) (*api.OwnerItem, error) {
	c.done = make(chan struct{})
	c.weight = min(c.weight+callOverhead, s.cfg.MaxPendingBytes)
	if c.waits {
		if !s.waits.TryAcquire(c.weight) {
			return nil, fmt.Errorf("%w: the requests that wait for other clients have %d bytes", ErrThrottled, s.cfg.MaxPendingBytes)
		}
	} else if err := s.budgetOf(c).Acquire(ctx, c.weight); err != nil {
		return nil, unavailable(ctx)
	}
	s.mu.Lock()
	s.mu.calls.add(c)
	if s.mu.stream != nil {
		s.mu.stream.call(c)
	}
	s.mu.Unlock()
	select {
	case <-c.done:
		return c.answer, c.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	mine := s.mu.calls.take(c.id)
	s.mu.Unlock()
	if mine == nil { // answered at the same moment
		<-c.done
		return c.answer, c.err
	}
	s.budgetOf(c).Release(c.weight)
	return nil, unavailable(ctx)
}

func (s *Session) budgetOf(c *call) *semaphore.Weighted {
	switch {
	case c.waits:
		return s.waits
	case c.item.GetForward() != nil:
		return s.forwards
	default:
		return s.budget
	}
}

// checkCommit tells whether the bytes begin as a commit of some session; the owner validates the rest.
func (s *Session) checkCommit(encoded []byte) error {
	h, err := commit.ParseHeader(encoded)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if h.Submission.Session == 0 {
		return fmt.Errorf("%w: commit names no session", ErrInvalid)
	}
	return nil
}
