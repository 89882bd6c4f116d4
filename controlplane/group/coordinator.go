package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/controlplane/group/consumer"
	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
)

// Owner is what the coordinator needs of the owner of the virtual cluster (package owner).
type Owner interface {
	Enqueue(ctx context.Context, c metadata.Command) (*owner.Proposal, error)
	EnqueueRun(ctx context.Context, cmds []metadata.Command) ([]*owner.Proposal, error)
	Read(fn func(*metadata.State)) (index uint64, err error)
	OnApply(fn owner.ApplyFunc)
}

// Coordinator answers the group and offset APIs for one tenure. Safe for concurrent use. It implements session.Forwards.
type Coordinator struct {
	cfg      Config
	classic  classic.Config
	consumer consumer.Config
	owner    Owner
	spawn    session.Spawn
	log      *zap.Logger
	metrics  *metrics
	warns    *rate.Limiter // of failed writes: when the log is full, they fail for every group
	refusals rate.Sometimes

	// enqueueing is a context that has ended: Enqueue then refuses instead of waiting for space in the owner's queue.
	enqueueing context.Context //nolint:containedctx // see above
	overflow   overflow
	completed  *completions
	closed     atomic.Bool
	patterns   *patterns
	topics     atomic.Pointer[catalogue]
	members    atomic.Int64  // metadata.LimitGroupMembers of the state
	configs    atomic.Uint64 // counts changes of configs other than topics
	groups     sync.Map      // of *group by name: those loaded, or being looked at
}

// New gives the coordinator of a tenure that has not begun: the owner does not run yet. What it starts runs by spawn.
func New(cfg Config, o Owner, spawn session.Spawn) (*Coordinator, error) {
	cfg.ApplyDefaults()
	if err := cfg.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("group coordinator: %w", err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	c := &Coordinator{
		warns: rate.NewLimiter(1, 5), refusals: rate.Sometimes{Interval: time.Minute},
		cfg: cfg, owner: o, spawn: spawn, log: cfg.Log, metrics: newMetrics(cfg.Registerer), enqueueing: ended,
		completed: &completions{spawn: spawn}, classic: cfg.Settings.classic(cfg.Log), consumer: cfg.Settings.consumer(cfg.Log),
	}
	c.classic.Budget = classic.NewBudget(cfg.MemberBytes)
	c.consumer.Budget = c.classic.Budget
	c.classic.MemberLimit, c.consumer.MemberLimit = c.members.Load, c.members.Load
	c.patterns = newPatterns(cfg.Patterns)
	if _, err := o.Read(func(s *metadata.State) {
		c.topics.Store(newCatalogue(s, c.patterns))
		c.readLimits(s)
	}); err != nil {
		c.topics.Store(&catalogue{resolve: c.patterns}) // the tenure is over before it began: everything will say so
	}
	o.OnApply(c.applied)
	spawn(c.run)
	return c, nil
}

// applied is the owner's apply hook.
func (c *Coordinator) applied(s *metadata.State, _ uint64, fx *metadata.Effects) {
	c.readLimits(s)
	if fx.Configs {
		c.configs.Add(1)
	}
	if len(fx.Topics) > 0 || fx.Internal {
		c.topics.Store(c.topics.Load().changed(s, fx.Topics))
	}
}

// readLimits takes the limits of the state that the coordinator enforces.
func (c *Coordinator) readLimits(s *metadata.State) {
	limits, _ := s.Limits()
	c.members.Store(limits[metadata.LimitGroupMembers])
}

// run does what the tenure needs besides requests, until it is over.
func (c *Coordinator) run(ctx context.Context) {
	stop := c.metrics.observe(c)
	defer stop()
	var work sync.WaitGroup
	work.Go(func() { c.loadAll(ctx) })
	c.expireOffsets(ctx) // until ctx ends
	c.closed.Store(true)
	c.patterns.end()
	for _, g := range c.groups.Range {
		g.(*group).stop()
	}
	work.Wait()
}

// handlers answer decoded requests by API key.
var handlers = map[int16]func(*call, kmsg.Request){
	int16(kmsg.JoinGroup):              on((*call).joinGroup),
	int16(kmsg.SyncGroup):              on((*call).syncGroup),
	int16(kmsg.Heartbeat):              on((*call).heartbeat),
	int16(kmsg.LeaveGroup):             on((*call).leaveGroup),
	int16(kmsg.ConsumerGroupHeartbeat): on((*call).consumerGroupHeartbeat),
	int16(kmsg.ConsumerGroupDescribe):  on((*call).consumerGroupDescribe),
	int16(kmsg.DescribeGroups):         on((*call).describeGroups),
	int16(kmsg.ListGroups):             on((*call).listGroups),
	int16(kmsg.DeleteGroups):           on((*call).deleteGroups),
	int16(kmsg.OffsetCommit):           on((*call).offsetCommit),
	int16(kmsg.TxnOffsetCommit):        on((*call).txnOffsetCommit),
	int16(kmsg.OffsetFetch):            on((*call).offsetFetch),
	int16(kmsg.OffsetDelete):           on((*call).offsetDelete),
}

func on[In kmsg.Request](h func(*call, In)) func(*call, kmsg.Request) {
	return func(c *call, in kmsg.Request) { h(c, in.(In)) }
}

// Keys gives the API keys answered here.
func (*Coordinator) Keys() []int16 { return slices.Collect(maps.Keys(handlers)) }

// Waits tells whether an API's answers wait for what other members do.
func Waits(apiKey int32) bool {
	return apiKey == int32(kmsg.JoinGroup) || apiKey == int32(kmsg.SyncGroup)
}

// Start implements session.Forwards. The reply's error is session.ErrBadRequest if the request cannot be decoded;
// any other means that there is no answer for now and that asking again is safe.
func (c *Coordinator) Start(ctx context.Context, f *api.Forward, reply func(body []byte, err error)) {
	handle := handlers[int16(f.ApiKey)]
	in := kmsg.RequestForKey(int16(f.ApiKey))
	if handle == nil || in == nil || f.ApiVersion < 0 || f.ApiVersion > int32(in.MaxVersion()) {
		reply(nil, fmt.Errorf("%w: api key %d version %d is not answered here", session.ErrBadRequest, f.ApiKey, f.ApiVersion))
		return
	}
	in.SetVersion(int16(f.ApiVersion))
	called := &call{Coordinator: c, ctx: ctx, forward: f, in: in, reply: reply}
	if most, bounded := maxBody[int16(f.ApiKey)]; bounded && len(f.Body) > most {
		c.refuse(f, kerr.InvalidRequest, zap.Int("bytes", len(f.Body)), zap.Int("max_bytes", most))
		called.answer(refusal(in, kerr.InvalidRequest.Code))
		return
	}
	answer := func() {
		if err := in.ReadFrom(f.Body); err != nil {
			reply(nil, fmt.Errorf("%w: %s: %w", session.ErrBadRequest, kmsg.NameForKey(int16(f.ApiKey)), err))
			return
		}
		handle(called, in)
	}
	if (walks[int16(f.ApiKey)] || len(f.Body) > smallBody) && c.spawn(func(context.Context) { answer() }) {
		return
	}
	answer()
}

// boundErrors are the errors of members at a bound (docs/limits.md).
var boundErrors = map[int16]*kerr.Error{
	kerr.InvalidRequest.Code:            kerr.InvalidRequest,
	kerr.GroupMaxSizeReached.Code:       kerr.GroupMaxSizeReached,
	kerr.CoordinatorLoadInProgress.Code: kerr.CoordinatorLoadInProgress,
}

// countRefusal counts an answer with an error of boundErrors.
func (c *call) countRefusal(code int16, group string) {
	if with := boundErrors[code]; with != nil {
		c.refuse(c.forward, with, zap.String("group", group[:min(len(group), 255)]))
	}
}

// refuse counts a request beyond a bound, and logs one a minute.
func (c *Coordinator) refuse(f *api.Forward, with *kerr.Error, fields ...zap.Field) {
	c.metrics.refused.WithLabelValues(with.Message).Inc()
	c.refusals.Do(func() {
		c.cfg.Log.Warn("request of a group member refused at a bound (docs/limits.md); logged once a minute", append(fields, zap.String("error", with.Message),
			zap.Int32("api_key", f.ApiKey), zap.String("client_id", f.ClientId), zap.String("client_host", f.Host), zap.String("principal", f.Principal))...)
	})
}

// smallBody is the largest body, in bytes, that is decoded on the goroutine of its stream.
const smallBody = 64 << 10

// maxBody bounds the bodies, in bytes, of requests that groups keep a large part of. A JoinGroup has at most 1 MiB of protocols with their
// metadata, and a SyncGroup as much as a group may have.
var maxBody = map[int16]int{
	int16(kmsg.JoinGroup):              classic.MaxMemberBytes + smallBody,
	int16(kmsg.SyncGroup):              classic.MaxBytes + smallBody,
	int16(kmsg.ConsumerGroupHeartbeat): 4 << 20,
}

// walks are the APIs whose requests look at many groups or offsets: they must not delay other requests of the same stream.
var walks = map[int16]bool{
	int16(kmsg.DescribeGroups):        true,
	int16(kmsg.ListGroups):            true,
	int16(kmsg.DeleteGroups):          true,
	int16(kmsg.ConsumerGroupDescribe): true,
	int16(kmsg.OffsetFetch):           true,
}

// lookup gives the entry of a group, a new one if there is none. It may be gone by the time it is locked.
func (c *Coordinator) lookup(name string) *group {
	if g, ok := c.groups.Load(name); ok {
		return g.(*group)
	}
	g, _ := c.groups.LoadOrStore(name, newGroup(c, name))
	return g.(*group)
}

// with loads a group, calls fn with its entry locked, and carries out the step that fn gives. An error means that the
// group could not be loaded, and fn was not called. A name that nothing is known of gives a classic group that is not
// Stored.
func (c *Coordinator) with(name string, fn func(g *group) step.Step) error {
	for {
		g := c.lookup(name)
		ready, err := g.do(fn)
		if errors.Is(err, errGone) {
			continue
		}
		give(ready)
		return err
	}
}
