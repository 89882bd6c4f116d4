package session

import (
	"cmp"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/owner"
)

// Cluster is the session side of one virtual cluster on this replica. It has a tenure while the replica is the owner.
type Cluster struct {
	cfg     ClusterConfig
	log     *zap.Logger
	metrics *metrics
	tenure  atomic.Pointer[tenure]
	agents  atomic.Pointer[AgentList] // as of the end of the last tenure, or as another replica answered
	secret  atomic.Pointer[string]    // by which agents know each other, nil before the first SetPeerSecret

	refusals rate.Sometimes // log lines about refused answers
	full     rate.Sometimes // log lines about refused sessions
	callers  *callers
	messages *share
}

// NewCluster builds a Cluster without a tenure.
func NewCluster(cfg ClusterConfig) *Cluster {
	cfg.Limits.ApplyDefaults()
	cfg.Log = cmp.Or(cfg.Log, zap.NewNop())
	cfg.Protocol = cmp.Or(cfg.Protocol, api.Protocol)
	cfg.Answers = cmp.Or(cfg.Answers, NewAnswers(0))
	cfg.Messages = cmp.Or(cfg.Messages, NewMessages(0))
	return &Cluster{
		cfg: cfg, log: cfg.Log.With(zap.String("virtual_cluster", cfg.Name)), metrics: newMetrics(cfg.Registerer),
		refusals: rate.Sometimes{Interval: time.Minute}, full: rate.Sometimes{Interval: time.Minute}, callers: newCallers(cfg.Limits.Sessions),
		messages: cfg.Messages.share(),
	}
}

// Own begins a tenure: agents are served until the owner is done or stop is called. It must be called before the
// owner runs. stop returns when every stream has ended.
func (c *Cluster) Own(o *owner.Owner) (stop func()) {
	t := newTenure(c, o)
	o.OnApply(t.announce)
	// Nothing is applied before the owner runs, so what begin sees is what announce goes on from. Whether the fence
	// still stands is checked with every answer.
	_, _ = o.Read(t.begin)
	t.run()
	c.tenure.Store(t)
	return func() {
		c.NoteAgents(t.agents(time.Now()))
		c.tenure.CompareAndSwap(t, nil)
		t.stop()
	}
}
