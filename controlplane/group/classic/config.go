package classic

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// Defaults of Config, Kafka's unless said otherwise.
const (
	DefaultMinSession        = 6 * time.Second
	DefaultMaxSession        = 30 * time.Minute
	DefaultInitialDelay      = 3 * time.Second
	DefaultNewMemberTimeout  = 5 * time.Minute
	DefaultMaxPending        = 10_000 // Kafka has no bound
	MinRejoinWait            = time.Second
	maxLoggedReason          = 255 // bytes; what Kafka's clients cut it to (KIP-800)
	consumerProtocolType     = "consumer"
	requiresKnownMemberSince = 4 // JoinGroup version (KIP-394)
	skipsAssignmentSince     = 9 // JoinGroup version (KIP-814)
	mandatoryProtocolSince   = 5 // SyncGroup version (KIP-559)
	batchedLeaveSince        = 3 // LeaveGroup version (KIP-345)
)

// Bounds of a group. Apache Kafka has none but the size of a request.
const (
	// MaxProtocols bounds the protocols of a member.
	MaxProtocols = 100
	// MaxMemberBytes bounds the names and metadata of a member's protocols. It also bounds the member's assignment, separately.
	MaxMemberBytes = 1 << 20
	// smallMember is the part of each member, in bytes, that does not count in a Budget, so that large members keep no small one out.
	smallMember = 4 << 10
	// maxMemberPrefix bounds the part of a client ID or instance ID, in bytes, that a new member ID begins with.
	maxMemberPrefix = 255
	// MaxBytes bounds the bytes of all members of a group: the group's record is one command of the log, of at most 16 MiB.
	MaxBytes = 14 << 20
	// MemberOverhead is added for each member, beside its strings, protocols and assignment.
	MemberOverhead = 128
)

// Config is what the groups of one coordinator share.
type Config struct {
	MinSession       time.Duration // group.min.session.timeout.ms; default DefaultMinSession
	MaxSession       time.Duration // group.max.session.timeout.ms; default DefaultMaxSession
	InitialDelay     time.Duration // group.initial.rebalance.delay.ms; 0 for none, there is no default
	MaxSize          int           // group.max.size; 0 for no bound
	MemberLimit      func() int64  // metadata.LimitGroupMembers of the state, 0 for no bound; nil is none
	NewMemberTimeout time.Duration // how long a first join waits at most; default DefaultNewMemberTimeout
	MaxPending       int           // ids given out and not yet joined with, a group; default DefaultMaxPending

	// NewMemberID makes a member id of the client id, or of the instance id of a static member: Kafka's are the
	// prefix, a dash and a random UUID. No two calls may give the same id.
	NewMemberID func(prefix string) string

	// Budget is shared by the groups of a coordinator. Beyond it, a join is answered COORDINATOR_LOAD_IN_PROGRESS, and clients join again.
	Budget *Budget

	// Log is told of rebalances and lost members; nil for none.
	Log *zap.Logger
}

// WithDefaults fills in what is zero and has a default.
func (c Config) WithDefaults() Config {
	c.MinSession = cmp.Or(c.MinSession, DefaultMinSession)
	c.MaxSession = cmp.Or(c.MaxSession, DefaultMaxSession)
	c.NewMemberTimeout = cmp.Or(c.NewMemberTimeout, DefaultNewMemberTimeout)
	c.MaxPending = cmp.Or(c.MaxPending, DefaultMaxPending)
	c.Log = cmp.Or(c.Log, zap.NewNop())
	return c
}

// Validate tells everything that is wrong at once.
func (c Config) Validate() error {
	var errs []error
	if c.MinSession <= 0 || c.MaxSession < c.MinSession {
		errs = append(errs, fmt.Errorf("session time-outs %v to %v: must be above 0 and rising", c.MinSession, c.MaxSession))
	}
	if c.InitialDelay < 0 {
		errs = append(errs, fmt.Errorf("initial delay %v: must not be negative", c.InitialDelay))
	}
	if c.MaxSize < 0 {
		errs = append(errs, fmt.Errorf("max size %d: must not be negative", c.MaxSize))
	}
	if c.NewMemberTimeout <= 0 {
		errs = append(errs, fmt.Errorf("new member timeout %v: must be above 0", c.NewMemberTimeout))
	}
	if c.MaxPending <= 0 {
		errs = append(errs, fmt.Errorf("max pending %d: must be above 0", c.MaxPending))
	}
	if c.NewMemberID == nil {
		errs = append(errs, errors.New("no NewMemberID"))
	}
	return errors.Join(errs...)
}
