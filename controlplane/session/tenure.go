package session

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/internal/periodic"
	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// errTenureOver ends the streams when this replica is not the owner any more.
var errTenureOver = errors.New("this replica is not the owner any more")

// tenure serves agents while this replica owns the virtual cluster. Nothing of it outlives the ownership.
type tenure struct {
	cluster  *Cluster
	owner    *owner.Owner
	limits   Limits
	log      *zap.Logger
	metrics  *metrics
	forwards Forwards
	jobs     Jobs // nil if none are run
	loads    load.Table
	writers  ZoneWriters // nil if none are planned
	errands  Errands     // nil if none are given
	began    time.Time
	ctx      context.Context
	cancel   context.CancelCauseFunc
	work     sync.WaitGroup
	waits    []func()      // for periodic work, set by run
	looks    periodic.Loop // at the sessions

	forwardBytes forwardBytes

	openings     *rate.Limiter // of sessions
	unnamedCheck string        // id of the BucketCheck of buckets without an id, for any number of agents
	sample       sample

	mu struct {
		sync.Mutex
		stopped   bool
		announced uint64                      // effects up to this index were announced
		agents    map[id.Session]*agent       // connected
		streams   uint64                      // attached so far
		sessions  map[id.Session]*openSession // open, connected or not
		opening   int                         // sessions about to open
		stale     stale
		watchers  map[id.TopicPartition]map[*agent]uint64 // index from which on (exclusive) notices go
		stamps    map[*agent]stamp                        // waiting for announced to reach their index
		parking   parking
		lapsed    map[id.Session]lapsedSession // agents that stopped without closing their session
		check     bucketCheck                  // the newest one
		remarked  time.Time                    // when agents were last asked to mark their bucket again
		marking   bool                         // an agent has been asked, and has not answered
	}
}

// openSession is what the tenure keeps of a session that is open in the state.
type openSession struct {
	heard    time.Time     // last sign of life; the tenure's begin for a session that has not been heard of
	rests    time.Duration // maximum time from then to the next one, as the agent told; 0: it did not
	closing  bool          // CloseSession was proposed
	draining bool          // left the membership
	serves   bool          // clients are sent to it
	hidden   bool          // from clients, as of the last change of the membership
	hiding   bool          // HideSession was proposed
	hiddenAt time.Time     // when this owner saw it hidden last
	again    bool          // it had been hidden within hiddenAgain before that
	zone     string
	info     metadata.SessionInfo // as of the time at which the tenure learned of the session
	came     time.Time            // when its stream with this owner began
	broke    time.Time            // when its stream with this owner broke; zero: it has one, or had none yet
	lost     time.Time            // broke or later (see unseen)
	commits  *sequence
}

func newTenure(c *Cluster, o *owner.Owner) *tenure {
	t := &tenure{cluster: c, owner: o, limits: c.cfg.Limits, log: c.log, metrics: c.metrics, began: time.Now(), unnamedCheck: rand.Text()}
	t.openings = rate.NewLimiter(rate.Every(time.Minute/time.Duration(t.limits.Sessions)), t.limits.Sessions)
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	t.mu.agents = map[id.Session]*agent{}
	t.mu.sessions = map[id.Session]*openSession{}
	t.mu.watchers = map[id.TopicPartition]map[*agent]uint64{}
	t.mu.stamps = map[*agent]stamp{}
	t.mu.parking = newParking()
	t.mu.lapsed = map[id.Session]lapsedSession{}
	if c.cfg.NewForwards != nil {
		t.forwards = c.cfg.NewForwards(o, t.spawnWithContext)
	}
	if c.cfg.NewJobs != nil {
		t.jobs = c.cfg.NewJobs(o, t)
	}
	if c.cfg.NewZoneWriters != nil {
		t.writers = c.cfg.NewZoneWriters(&t.loads, t)
	}
	if c.cfg.NewErrands != nil {
		t.errands = c.cfg.NewErrands(t)
	}
	return t
}

// begin takes over the sessions in the state: each has a full time-out to come back.
func (t *tenure) begin(s *metadata.State) {
	if t.jobs != nil {
		t.jobs.Begin(s)
	}
	if t.writers != nil {
		t.writers.Members(s)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.announced = s.Index()
	for info := range s.Sessions() {
		t.forgetLapsed(&info)
		switch {
		case !info.Closed:
			open := t.newOpenSession(info)
			open.rests = maxRest // an idle agent whose former owner fell silent notices at its next probe
			t.mu.sessions[info.ID] = open
		case !info.Draining: // an agent that ends by itself drains first
			t.noteClosed(s, &info)
		}
	}
}

func (t *tenure) newOpenSession(info metadata.SessionInfo) *openSession {
	return &openSession{heard: time.Now(), draining: info.Draining, hidden: info.Hidden, zone: info.Zone, info: info, serves: info.Roles.ServesClients(), commits: newSequence(t, info)}
}

func (t *tenure) run() {
	t.waits = append(t.waits, t.watch())
	if t.jobs != nil {
		t.waits = append(t.waits, t.jobs.Start(t.ctx))
	}
	if t.writers != nil {
		t.waits = append(t.waits, t.writers.Start(t.ctx))
	}
}

// stop ends the tenure and waits for what it started.
func (t *tenure) stop() {
	t.mu.Lock()
	t.mu.stopped = true
	t.mu.Unlock()
	t.cancel(errTenureOver)
	for _, wait := range t.waits {
		wait()
	}
	t.work.Wait()
	t.membershipSent(time.Now()) // nothing else runs any more
	for _, open := range t.mu.sessions {
		open.commits.close()
	}
	for p := range t.mu.parking.parked {
		p.timer.Stop()
		t.metrics.parked.Dec()
	}
}

// spawn runs fn as part of the tenure; false if that has ended.
func (t *tenure) spawn(fn func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.stopped {
		return false
	}
	t.work.Go(fn)
	return true
}

// spawnWithContext is spawn for what needs to know when the tenure ends.
func (t *tenure) spawnWithContext(fn func(ctx context.Context)) bool {
	return t.spawn(func() { fn(t.ctx) })
}

// propose brings one of the tenure's own commands into the log.
func (t *tenure) propose(ctx context.Context, c metadata.Command) (metadata.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, t.limits.ProposeTimeout)
	defer cancel()
	result, _, err := t.owner.Propose(ctx, c)
	return result, err
}

// announce is the owner's apply hook. Zone writers come after the members that they are among.
func (t *tenure) announce(s *metadata.State, index uint64, fx *metadata.Effects) {
	members := fx.Members && t.membershipDue(index, fx)
	t.tell(s, index, fx, members)
	if members && t.writers != nil {
		t.writers.Members(s)
	}
}

// tell tells agents what entry index changed, wakes parked resubmissions, and sends the stamps that waited for it. The
// cost is that of the partitions touched and of the agents watching them. members reports whether agents are told the membership.
func (t *tenure) tell(s *metadata.State, index uint64, fx *metadata.Effects, members bool) {
	catalogue := catalogueDelta(s, index, fx, members)
	var draining []id.Session
	var hidden map[id.Session]bool
	if fx.Members {
		draining, hidden = drainingSessions(s), hiddenSessions(s)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if catalogue != nil {
		item := catalogueItem(catalogue)
		for _, a := range t.mu.agents {
			if index > a.since {
				a.out.push(item)
			}
		}
	}
	if members {
		t.membershipSent(time.Now())
	}
	t.notify(index, fx)
	for _, session := range draining {
		t.drained(session)
	}
	if fx.Members {
		t.noteHidden(hidden)
	}
	for _, session := range fx.Opened {
		t.sessionOpened(s, session)
	}
	for _, session := range fx.Closed {
		t.sessionClosed(session)
	}
	t.mu.announced = index
	t.sendStamps()
	t.wakeParked(s, fx)
}

// notify sends each watcher of a touched partition what changed there. Called with mu held.
func (t *tenure) notify(index uint64, fx *metadata.Effects) {
	if len(fx.Partitions) == 0 {
		return
	}
	notices := map[*agent]*api.Notice{}
	for i := range fx.Partitions {
		effect := &fx.Partitions[i]
		var message *api.PartitionNotice
		for a, since := range t.mu.watchers[effect.Partition] {
			if index <= since {
				continue
			}
			if message == nil {
				message = partitionNotice(effect)
			}
			n := notices[a]
			if n == nil {
				n = &api.Notice{Index: index}
				notices[a] = n
			}
			n.Partitions = append(n.Partitions, message)
		}
	}
	for a, n := range notices {
		t.metrics.notices.Inc()
		a.out.push(noticeItem(n))
	}
}

// sessionOpened gives a new session the time-out to be spoken for, whether or not its agent is still there: it may have gone
// while the command was on its way into the log. Called with mu held.
func (t *tenure) sessionOpened(s *metadata.State, session id.Session) {
	if info, ok := s.Session(session); ok && !info.Closed {
		t.forgetLapsed(&info)
		t.mu.sessions[session] = t.newOpenSession(info)
		t.looks.Wake()
	}
}

// sessionClosed ends what the tenure has of a session. Called with mu held.
func (t *tenure) sessionClosed(session id.Session) {
	a := t.mu.agents[session]
	if open := t.mu.sessions[session]; open != nil && open.closing && !open.draining && (a == nil || !a.leaving) {
		t.noteLapsed(&open.info, open.heard)
	}
	delete(t.mu.sessions, session)
	t.loads.Forget(session)
	if a != nil && !a.leaving { // a goodbye is answered and ends its stream itself
		a.end(refusedItem(api.Refused_SESSION_CLOSED, "the session was closed"))
	}
}

// attach makes the agent the session's connected one and ends an earlier stream. Called inside owner.Read, so that
// index is the state's; what is announced beyond it goes to the agent. It returns false if the session is not open.
func (t *tenure) attach(a *agent, index uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	open := t.mu.sessions[a.session]
	if open == nil || t.mu.stopped {
		return false
	}
	if before := t.mu.agents[a.session]; before != nil {
		t.metrics.cut.WithLabelValues(cutReplaced).Inc()
		t.forget(before)
		before.cancel(errReplaced)
	}
	now := time.Now()
	open.heard, open.came, open.broke, open.lost, open.rests = now, now, time.Time{}, time.Time{}, 0
	t.mu.streams++
	a.since, a.commits, a.stream = index, open.commits, t.mu.streams
	t.mu.agents[a.session] = a
	if t.writers != nil {
		t.writers.Connected(a.session)
	}
	t.metrics.streams.Inc()
	return true
}

// detach ends a stream's subscriptions.
func (t *tenure) detach(a *agent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(a)
}

// forget drops everything that would send to the agent. Called with mu held.
func (t *tenure) forget(a *agent) {
	if t.mu.agents[a.session] == a {
		delete(t.mu.agents, a.session)
		if open := t.mu.sessions[a.session]; open != nil {
			open.lost = time.Now()
			open.broke = open.lost
			t.looks.Wake()
		}
		t.metrics.streams.Dec()
		if t.errands != nil {
			t.errands.Left(a.session)
		}
	}
	for tp := range a.watching {
		t.unwatch(a, tp)
	}
	delete(t.mu.stamps, a)
}

// unwatch ends one subscription. Called with mu held.
func (t *tenure) unwatch(a *agent, tp id.TopicPartition) {
	delete(a.watching, tp)
	watchers := t.mu.watchers[tp]
	delete(watchers, a)
	if len(watchers) == 0 {
		delete(t.mu.watchers, tp)
	}
}

// heard notes a sign of life.
func (t *tenure) heard(a *agent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if open := t.mu.sessions[a.session]; open != nil && t.mu.agents[a.session] == a {
		open.heard = time.Now()
	}
}
