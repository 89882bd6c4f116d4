package session

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/controlplane/owner"
)

// Forwards answers forwarded Kafka requests.
type Forwards interface {
	// Start begins to answer f and calls reply exactly once, at once or later, from any goroutine, with the response's
	// body. An error means that there is no answer for now. Start must not block. ctx is that of the stream that f came
	// by; when it has ended nobody takes the answer any more, and the agent asks again. Once the tenure is over, reply
	// need not be called.
	Start(ctx context.Context, f *api.Forward, reply func(body []byte, err error))
}

// Spawn runs fn on a goroutine of a tenure, with a context that ends when the tenure does; the tenure waits for it.
// False, and fn is not run, if the tenure is over.
type Spawn func(fn func(ctx context.Context)) bool

// ErrBadRequest marks a forwarded request that has no answer and never will: malformed, or of an unknown API.
var ErrBadRequest = errors.New("bad request")

// Locator tells who owns a virtual cluster and where replicas are.
type Locator interface {
	// Owner gives the owner's replica id and gRPC address, empty if there is none.
	Owner(ctx context.Context) (replica, address string, err error)
	// Replicas gives the gRPC addresses of the known replicas.
	Replicas() []string
}

// ClusterConfig describes one virtual cluster's session side.
type ClusterConfig struct {
	// Name of the virtual cluster.
	Name string
	// BundlePrefix returns the prefix of the bundles of a cluster id in the bucket, which Welcome names.
	BundlePrefix func(clusterID string) string
	// Locator answers Locate.
	Locator Locator
	// NewForwards makes what answers forwarded requests under one owner, for one tenure. It is called before the owner
	// runs.
	NewForwards func(*owner.Owner, Spawn) Forwards
	// Waits tells whether the answers of an API wait for what other clients do; nil: none does. They are bounded apart.
	Waits func(apiKey int32) bool
	// NewJobs makes what plans background jobs under one owner, for one tenure; nil for none. It is called before the
	// owner runs.
	NewJobs func(*owner.Owner, Runners) Jobs
	// NewZoneWriters makes what plans zone writers by what agents say of their load, for one tenure; nil for none.
	NewZoneWriters func(*load.Table, ZoneAgents) ZoneWriters

	// NewErrands returns the errands of one tenure; nil for none.
	NewErrands func(ErrandAgents) Errands

	// Marked reports whether the cluster's id is in the control plane's bucket. Agents without an id in theirs wait until it is;
	// nil: agents are not compared.
	Marked func() bool
	// AgentsBucket reports that the control plane does not reach the bucket of the records. Agents mark it, and Marked is not called.
	AgentsBucket bool
	// Protocol is the owner's; default api.Protocol. Tests make others up.
	Protocol uint32

	Limits     Limits
	Answers    *Answers  // shared by the virtual clusters of a process; default: NewAnswers(0)
	Messages   *Messages // likewise; default: NewMessages(0)
	Log        *zap.Logger
	Registerer prometheus.Registerer // of one virtual cluster, or of several that count together
}

// Limits are the bounds and times of sessions. Zero fields take the defaults.
type Limits struct {
	// Sessions bounds the open sessions, and those that open within a minute; 10,000. At the bound, an agent without a session waits.
	Sessions int
	// SessionTimeout is how long an agent that commits may be silent before its session is closed; 5 s. An idle agent, which probes once in
	// 12.5 s, may be silent for 12.5 s more while its stream stands.
	SessionTimeout time.Duration
	// HoldTimeout is how long a commit waits for those before it; 60 s.
	HoldTimeout time.Duration
	// ParkTimeout is how long a resubmission waits for the batches its producers' sequences need; 2 s. Agents give up after 1.5 s
	// (writer.Config.GapTimeout).
	ParkTimeout time.Duration
	// ProposeTimeout bounds the way of a session's own commands (open, drain, close) into the log; 10 s.
	ProposeTimeout time.Duration
	// OutboxBytes bounds the unsent items of one agent without answers to clients' requests. At the bound the stream is cut. 64 MiB.
	OutboxBytes int
	// HeldBytes and HeldCommits bound the commits of one session that wait for their turn or for the log; 64 MiB, 1024.
	HeldBytes   int
	HeldCommits int
	// Parked bounds the resubmissions waiting in one virtual cluster; 65536.
	Parked int
	// Subscriptions bounds the partitions that one stream gets notices of; 2^20.
	Subscriptions int
	// ForwardBytes bounds the bodies of the forwarded requests of one virtual cluster that are under way, over all agents, but for bodies of
	// up to 4 KiB. Requests that wait for other clients take at most half of it. 256 MiB.
	ForwardBytes int64
	// Forwards bounds the forwarded requests of one stream that are under way, those that wait for other clients not
	// counted; 4096. Waiting bounds those; 65536.
	Forwards, Waiting int
}

// DefaultSessions is the default of Limits.Sessions.
const DefaultSessions = 10_000

// Bounds of single messages.
const (
	// maxMessageBytes is the largest gRPC message taken or sent.
	maxMessageBytes = 64 << 20
	// MaxAnswerBytes bounds the answer to a forwarded request: half of a message's bound.
	MaxAnswerBytes = 32 << 20
	// batchBytes is about how much goes into one message.
	batchBytes = 1 << 20
	// maxLookupPartitions bounds one look-up.
	maxLookupPartitions = 1 << 17
	// maxLookupExtents bounds the extents in one answer; once reached, further partitions get one each.
	maxLookupExtents = 1 << 18
	// defaultExtents is what a look-up that names no maximum gets of one partition.
	defaultExtents = 1000
	// helloTimeout is how long a new stream may take to say Hello.
	helloTimeout = 10 * time.Second
)

// ApplyDefaults sets what is zero to its default.
func (l *Limits) ApplyDefaults() {
	l.Sessions = cmp.Or(l.Sessions, DefaultSessions)
	l.SessionTimeout = cmp.Or(l.SessionTimeout, 5*time.Second)
	l.HoldTimeout = cmp.Or(l.HoldTimeout, 60*time.Second)
	l.ParkTimeout = cmp.Or(l.ParkTimeout, 2*time.Second)
	l.ProposeTimeout = cmp.Or(l.ProposeTimeout, 10*time.Second)
	l.OutboxBytes = cmp.Or(l.OutboxBytes, 64<<20)
	l.HeldBytes = cmp.Or(l.HeldBytes, 64<<20)
	l.HeldCommits = cmp.Or(l.HeldCommits, 1024)
	l.Parked = cmp.Or(l.Parked, 1<<16)
	l.Subscriptions = cmp.Or(l.Subscriptions, 1<<20)
	l.ForwardBytes = cmp.Or(l.ForwardBytes, 256<<20)
	l.Forwards = cmp.Or(l.Forwards, 4096)
	l.Waiting = cmp.Or(l.Waiting, 1<<16)
}
