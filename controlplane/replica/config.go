package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/objstore"
)

// Config configures a Replica.
type Config struct {
	Replica  string // id of this control-plane replica, unique among those that share the log
	Address  string // its gRPC address for agents
	TakeOver bool   // see metalog.Candidate
	// Cold has the replica read the log only to become the owner. Otherwise it follows the log, so that it takes over sooner. A cold replica
	// needs a log with a lease.
	Cold bool

	Log            metalog.Log
	Bucket         objstore.Bucket // of the virtual cluster
	SnapshotPrefix string          // of snapshots' keys in the bucket: "snapshots/"
	BucketLocation string          // of Bucket for people, as --bucket has it, without secrets

	// Turn returns how long this replica lets others claim a log without an owner first. former is the replica that was the owner last, "" if that
	// is not known. nil means that it never waits.
	Turn func(former string) time.Duration
	// Admit waits until this replica may take the log over, and returns a function to call when it has, or has failed. nil means at once.
	Admit func(ctx context.Context) (done func(), err error)

	// OnOwner is called when this replica has become the owner, before the first command is taken: it may register
	// owner.OnApply hooks and keep the owner; it must not wait for a proposal. The function it returns is called
	// when the owner has ended, before ownership is given up; it should return within StopTimeout.
	OnOwner func(*owner.Owner) (stop func())
	// Beside begins the work beside the owner, which lasts until ctx ends. wait returns after its end.
	Beside func(ctx context.Context, t Tenure) (wait func())

	// BeforeBootstrap is called before a new virtual cluster gets its id; an error keeps it from that. nil: nothing is asked.
	BeforeBootstrap func(context.Context) error
	// ConfirmBucket returns nil if the bucket belongs to the virtual cluster. The replica calls it before it returns an OlderError.
	// nil means that the bucket always belongs to it.
	ConfirmBucket func(context.Context) error
	// Final reports whether an error of BeforeBootstrap or ConfirmBucket ends the replica. Other errors are tried again. nil means
	// that none ends it.
	Final func(error) bool
	// ClusterID is the id of the virtual cluster, which a new one gets; default: random, as Kafka makes them.
	ClusterID string
	// Version is the state machine version that all replicas support now, 0 if that is not known; default
	// metadata.MaxVersion.
	Version func() uint32

	// Owner holds the bounds of the owner; Tenure, State, First, Marked and Checked are the replica's to set.
	// Its Now is command time, for tests and benchmarks; nil means this machine's clock as compared with the object store's.
	Owner owner.Config

	// MaxProducers is the bound of the state's active producers. Default metadata.MaxProducers.
	MaxProducers int64
	// Limits returns the limits of the state, which may change. The owner proposes them at a Tick, once the state has metadata.LimitsVersion. nil means
	// that there are none.
	Limits func() metadata.Limits

	Poll        time.Duration // between two reads of ownership and tail: 100 ms; up to maxPoll times as long while the log does not grow
	ReadBytes   int           // of log read at once: 4 MiB
	Tick        time.Duration // between Tick commands: 10 s
	StopTimeout time.Duration // for OnOwner's stop before ownership is given up regardless: 200 ms

	MaxSkew time.Duration // of this machine's clock against the store's: 30 s
	// Clocks returns the clocks to ask if this machine's and the store's differ by more than MaxSkew. If a majority of all clocks that
	// answer, at least three, agrees with this machine's, the replica may become the owner. nil means that there are no other clocks.
	Clocks func() []Clock

	SnapshotBytes    int64         // log after which a snapshot is taken: 64 MiB
	SnapshotInterval time.Duration // or time: 5 min
	SnapshotMinBytes int64         // if there is this much log at all: 64 KiB
	SnapshotPoll     time.Duration // how often that is looked at: 1 s; up to maxSnapshotPoll as long while the log stays as it is
	SnapshotBackoff  time.Duration // after the first failure, doubling up to a minute: 5 s
	// SnapshotSlots bounds the snapshots that several Replicas take at a time. Each needs the memory of a second state. nil means no bound.
	SnapshotSlots *semaphore.Weighted

	Logger     *zap.Logger           // default: none
	Registerer prometheus.Registerer // default: a private one
}

// Tenure is what Config.Beside works with.
type Tenure struct {
	Owner *owner.Owner
	// Kept gives the log index of the older of the two retained snapshots, 0 while there are fewer: what was so then
	// is so in every state that can come back.
	Kept func() uint64
	// WantSnapshot asks for a snapshot when its interval is over, however little log there is.
	WantSnapshot func()
}

const (
	// maxSnapshotBackoff bounds the pause after failed snapshots.
	maxSnapshotBackoff = time.Minute
	// maxSnapshotPoll bounds the pause of looks at the log, in SnapshotPoll.
	maxSnapshotPoll = 8
)

// ApplyDefaults sets the fields that are zero.
func (c *Config) ApplyDefaults() {
	c.Poll = cmp.Or(c.Poll, 100*time.Millisecond)
	c.ReadBytes = cmp.Or(c.ReadBytes, 4<<20)
	c.Tick = cmp.Or(c.Tick, 10*time.Second)
	c.MaxProducers = cmp.Or(c.MaxProducers, metadata.MaxProducers)
	c.StopTimeout = cmp.Or(c.StopTimeout, 200*time.Millisecond)
	c.MaxSkew = cmp.Or(c.MaxSkew, 30*time.Second)
	c.SnapshotBytes = cmp.Or(c.SnapshotBytes, 64<<20)
	c.SnapshotInterval = cmp.Or(c.SnapshotInterval, 5*time.Minute)
	c.SnapshotMinBytes = cmp.Or(c.SnapshotMinBytes, 64<<10)
	c.SnapshotPoll = cmp.Or(c.SnapshotPoll, time.Second)
	c.SnapshotBackoff = cmp.Or(c.SnapshotBackoff, 5*time.Second)
	if c.OnOwner == nil {
		c.OnOwner = func(*owner.Owner) func() { return func() {} }
	}
	if c.Beside == nil {
		c.Beside = func(context.Context, Tenure) (wait func()) { return func() {} }
	}
	if c.Turn == nil {
		c.Turn = func(string) time.Duration { return 0 }
	}
	if c.Admit == nil {
		c.Admit = func(context.Context) (func(), error) { return func() {}, nil }
	}
	if c.BeforeBootstrap == nil {
		c.BeforeBootstrap = func(context.Context) error { return nil }
	}
	if c.ConfirmBucket == nil {
		c.ConfirmBucket = func(context.Context) error { return nil }
	}
	if c.Final == nil {
		c.Final = func(error) bool { return false }
	}
	if c.Clocks == nil {
		c.Clocks = func() []Clock { return nil }
	}
	if c.Limits == nil {
		c.Limits = func() metadata.Limits { return metadata.Limits{} }
	}
	if c.Version == nil {
		c.Version = func() uint32 { return metadata.MaxVersion }
	}
	c.Logger = cmp.Or(c.Logger, zap.NewNop())
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
	c.Owner.Logger = cmp.Or(c.Owner.Logger, c.Logger)
	c.Owner.Registerer = cmp.Or(c.Owner.Registerer, c.Registerer)
	c.Owner.ApplyDefaults()
}

// Validate tells every fault.
func (c *Config) Validate() error {
	var errs []error
	if c.Replica == "" {
		errs = append(errs, errors.New("no replica id"))
	}
	if c.Log == nil || c.Bucket == nil {
		errs = append(errs, errors.New("no log or no bucket"))
	}
	if !strings.HasSuffix(c.SnapshotPrefix, "/") || strings.HasPrefix(c.SnapshotPrefix, "/") {
		errs = append(errs, fmt.Errorf("snapshot prefix %q: must end and must not begin with a slash", c.SnapshotPrefix))
	}
	if 3*c.SnapshotBytes > c.Owner.HardLogBytes {
		errs = append(errs, fmt.Errorf("a snapshot every %d bytes does not fit the log budget of %d, which holds up to two "+
			"intervals", c.SnapshotBytes, c.Owner.HardLogBytes))
	}
	return errors.Join(errs...)
}
