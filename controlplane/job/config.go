package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// Owner is what is needed of the owner of the virtual cluster (package owner).
type Owner interface {
	Propose(ctx context.Context, c metadata.Command) (metadata.Result, uint64, error)
	Read(fn func(*metadata.State)) (index uint64, err error)
	ReadFrozen(fn func(*metadata.State)) (index uint64, err error)
}

// Runners are the agents connected to the owner (package session, where the methods are described).
type Runners interface {
	Connected(runner id.Session) bool
	Give(runner, job id.Session, plan []byte, last bool) bool
	Cancel(runner, job id.Session)
}

// Settings are what an operator can set. Zero fields take the defaults.
type Settings struct {
	// Off starts no jobs; those that are open go on.
	Off bool
	// Interval is how often work is looked for, besides when a job has ended. Default 10 s.
	Interval time.Duration
	// PerAgent is how many jobs an agent runs at once. Default 1.
	PerAgent int
	// Lease is how long a runner may be silent about a job. Default 1 min.
	Lease time.Duration
	// First and Second say when to compact.
	First  FirstLevel
	Second SecondLevel
	// DeadBytes is how many bytes of a bundle's object must be dead, and at least half of it, for the live ones to be rewritten.
	// Default 16 MiB: storing them for a day costs about as much as the GETs and the PUTs.
	DeadBytes int64
}

// FirstLevel says when bundles as agents wrote them are compacted.
type FirstLevel struct {
	Bundles int           // so many are one job; also the most. Default 64.
	Bytes   int64         // so many live bytes of them are one job. Default 512 MiB.
	Age     time.Duration // two are one job once the oldest is so old. Default 10 min.
}

// SecondLevel says when what the first level left is compacted: averages over the partitions of a job. It is compacted earlier
// when live extents come near their bound (package comment).
type SecondLevel struct {
	Bytes      int64         // for each partition. Default 16 MiB.
	Extents    int           // or so many extents. Default 96.
	Age        time.Duration // or two, once the oldest is so old. Default 6 h.
	JobBytes   int64         // of one job at most. Default 4 GiB.
	FinalBytes int64         // extents so long need not be compacted again. Default 16 MiB.
}

// ApplyDefaults fills the fields left zero.
func (s *Settings) ApplyDefaults() {
	s.Interval = cmp.Or(s.Interval, 10*time.Second)
	s.PerAgent = cmp.Or(s.PerAgent, 1)
	s.Lease = cmp.Or(s.Lease, time.Minute)
	s.First.Bundles = cmp.Or(s.First.Bundles, 64)
	s.First.Bytes = cmp.Or(s.First.Bytes, 512<<20)
	s.First.Age = cmp.Or(s.First.Age, 10*time.Minute)
	s.Second.Bytes = cmp.Or(s.Second.Bytes, 16<<20)
	s.Second.Extents = cmp.Or(s.Second.Extents, 96)
	s.Second.Age = cmp.Or(s.Second.Age, 6*time.Hour)
	s.Second.JobBytes = cmp.Or(s.Second.JobBytes, 4<<30)
	s.Second.FinalBytes = cmp.Or(s.Second.FinalBytes, 16<<20)
	s.DeadBytes = cmp.Or(s.DeadBytes, 16<<20)
}

// Validate gives all faults at once.
func (s *Settings) Validate() error {
	var errs []error
	if s.Interval < minInterval || s.First.Age < 0 || s.Second.Age < 0 {
		errs = append(errs, fmt.Errorf("jobs: times must be positive, the interval of planning at least %v", minInterval))
	}
	if s.PerAgent < 1 || s.PerAgent > maxPerAgent {
		errs = append(errs, fmt.Errorf("jobs at once per agent %d: 1 to %d", s.PerAgent, maxPerAgent))
	}
	if s.Lease < minLease {
		errs = append(errs, fmt.Errorf("job lease %v: at least %v, runners speak every few seconds", s.Lease, minLease))
	}
	if s.First.Bundles < 2 || s.First.Bundles > maxFanIn || s.First.Bytes < 1 {
		errs = append(errs, fmt.Errorf("jobs of the first level: 2 to %d bundles, and bytes", maxFanIn))
	}
	if s.Second.Bytes < 1 || s.Second.Extents < 2 || s.Second.FinalBytes < 1 || s.Second.JobBytes < s.Second.Bytes {
		errs = append(errs, errors.New("jobs of the second level: bytes, at least 2 extents, and a job that holds a partition's bytes"))
	}
	if s.DeadBytes < 1 {
		errs = append(errs, fmt.Errorf("dead bytes of a bundle %d: at least 1", s.DeadBytes))
	}
	return errors.Join(errs...)
}

// Bounds.
const (
	maxPerAgent = 64
	// maxFanIn bounds the inputs that a runner reads at once in a job of the first level.
	maxFanIn = 64
	// maxInputs bounds the inputs of a job of the second level, and of one that rewrites half-dead bundles.
	maxInputs = 256
	// worthwhile is how many extents of a partition, on average, are worth to be made one before they are due.
	worthwhile = 4
	// jobExtents bounds the extents in one plan, 18 MiB of memory: 64 bundles of 5,000 partitions each.
	jobExtents = 5 << 16
	// roundExtents is the number of extents from which on a round plans no further job. The next one follows at once.
	roundExtents = jobExtents
	// roundBundles bounds the candidates of the first level that one round looks at, the oldest, and the half-dead ones, with the
	// most dead bytes.
	roundBundles = 1024
	// roundJobs bounds the jobs that one round starts.
	roundJobs = 16
	// partExtents is about how many extents of a plan are sent in one part.
	partExtents = 1 << 14
	// minLease is the least lease: runners speak every 5 s.
	minLease = 15 * time.Second
	// stallLease is how long a runner may speak of a job without progress: it read stallBytes more of the inputs, or handed in
	// a part of the outcome.
	stallLease = 15 * time.Minute
	stallBytes = 1 << 20
	// storeTimeAge is how long an answer of the store's clock is good for; it counts as the time for all of that.
	storeTimeAge = time.Minute
	// storeTimeout bounds the question to the store for its time.
	storeTimeout = 5 * time.Second
	// startLease is the lease of a job that its runner has not spoken of: the plan may have been lost with the stream.
	startLease = 20 * time.Second
	// minInterval is the least interval of planning: each round has the next commits copy what they change.
	minInterval = 50 * time.Millisecond
	// quietPause is the pause between rounds once quietRounds of them found the state as it was and had nothing to do. Such a state changes by
	// its age alone.
	quietPause  = time.Minute
	quietRounds = 6
	// leaseCheck is how often leases are looked at.
	leaseCheck = time.Second
	// minPause is the least time between the ends of rounds and the next: many jobs may end at once.
	minPause = time.Second
	// load is the share of one core that rounds may take: as one in so many.
	load = 20
	// deadExtents is how many live extents of a half-dead bundle are worth Settings.DeadBytes, so 1 KiB each by default: the log
	// takes about 20 bytes of an extent that moves, 2 % of that.
	deadExtents = 1 << 14
	// reclaimPause is the least time between two walks for half-dead bundles. seenPause is how long a bundle that a walk looked for
	// is left out.
	reclaimPause = time.Minute
	seenPause    = 10 * time.Minute
	// reclaimLoad is the share of one core that these walks may take: as one in so many.
	reclaimLoad = 10 * load
	// proposeTimeout bounds the way of one of the planner's commands into the log.
	proposeTimeout = 10 * time.Second
)

// Config of the planner of one virtual cluster.
type Config struct {
	Settings Settings
	// MaxExtents is how many live extents the virtual cluster may have, as the owner's (owner.Config). Default 4 Mi.
	MaxExtents int64
	// StoreTime asks the object store for the time. What cleaning removes goes by the earlier of it and the state's time.
	// Required.
	StoreTime  func(ctx context.Context) (time.Time, error)
	Log        *zap.Logger
	Registerer prometheus.Registerer
}

func (c *Config) validate() error {
	var missing error
	if c.StoreTime == nil {
		missing = errors.New("no clock of the object store")
	}
	return errors.Join(missing, c.Settings.Validate())
}

func (c *Config) applyDefaults() {
	c.Settings.ApplyDefaults()
	c.MaxExtents = cmp.Or(c.MaxExtents, 4<<20)
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}
