package consumer

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/assignor"
	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/metadata/id"
)

// Defaults of Config, Kafka's.
const (
	DefaultSessionTimeout     = 45 * time.Second // group.consumer.session.timeout.ms
	DefaultHeartbeatInterval  = 5 * time.Second  // group.consumer.heartbeat.interval.ms
	DefaultAssignmentInterval = time.Second      // group.consumer.assignment.interval.ms (KIP-1263)
)

// regexInterval is the least time between two resolutions of a group's regular expressions
// (REGEX_BATCH_REFRESH_MIN_INTERVAL_MS).
const regexInterval = 10 * time.Second

// Migration says which online conversions are allowed: group.consumer.migration.policy.
type Migration uint8

// The migration policies.
const (
	MigrationDisabled Migration = iota
	MigrationUpgrade
	MigrationDowngrade
	MigrationBidirectional
)

func (m Migration) upgrades() bool   { return m == MigrationUpgrade || m == MigrationBidirectional }
func (m Migration) downgrades() bool { return m == MigrationDowngrade || m == MigrationBidirectional }

// Config is what the coordinator and the group's own configuration say.
type Config struct {
	SessionTimeout    time.Duration // consumer.session.timeout.ms; default DefaultSessionTimeout
	HeartbeatInterval time.Duration // consumer.heartbeat.interval.ms, told to members; default DefaultHeartbeatInterval
	// AssignmentInterval is the least time between two computations of the target assignment; 0 for none, there is no
	// default: DefaultAssignmentInterval is Kafka's.
	AssignmentInterval time.Duration
	MaxSize            int          // group.consumer.max.size; 0 for no bound
	MemberLimit        func() int64 // metadata.LimitGroupMembers of the state, 0 for no bound; nil is none
	Assignors          []string     // group.consumer.assignors, the default one first; default assignor.Names

	Budget *classic.Budget // of the members of all groups, which classic groups share; nil for no bound

	Migration         Migration     // group.consumer.migration.policy
	ClassicMaxSize    int           // group.max.size, for a downgrade; 0 for no bound
	ClassicMinSession time.Duration // group.min.session.timeout.ms; default classic.DefaultMinSession
	ClassicMaxSession time.Duration // group.max.session.timeout.ms; default classic.DefaultMaxSession

	// NewMemberID makes an id for a member that brings none. No two calls may give the same.
	NewMemberID func() string

	// Log has lines about members that join, leave and are fenced; nil for none.
	Log *zap.Logger
}

// WithDefaults returns the configuration with the defaults of zero fields.
func (c Config) WithDefaults() Config {
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, DefaultHeartbeatInterval)
	if len(c.Assignors) == 0 {
		c.Assignors = assignor.Names()
	}
	c.ClassicMinSession = cmp.Or(c.ClassicMinSession, classic.DefaultMinSession)
	c.ClassicMaxSession = cmp.Or(c.ClassicMaxSession, classic.DefaultMaxSession)
	c.Log = cmp.Or(c.Log, zap.NewNop())
	return c
}

// Validate returns all faults at once.
func (c Config) Validate() error {
	var errs []error
	if c.SessionTimeout <= 0 || c.HeartbeatInterval <= 0 || c.HeartbeatInterval >= c.SessionTimeout {
		errs = append(errs, errors.New("session time-out and heartbeat interval must be above 0, the interval the smaller one"))
	}
	if c.AssignmentInterval < 0 {
		errs = append(errs, errors.New("assignment interval must not be negative"))
	}
	if c.MaxSize < 0 || c.ClassicMaxSize < 0 {
		errs = append(errs, errors.New("max sizes must not be negative"))
	}
	if !slices.ContainsFunc(c.Assignors, assignor.Known) {
		errs = append(errs, errors.New("no known assignor"))
	}
	if c.NewMemberID == nil {
		errs = append(errs, errors.New("no NewMemberID"))
	}
	return errors.Join(errs...)
}

// Client is the sender of a request.
type Client = classic.Client

// Catalogue has the cluster's topics as of one log index. It does not change during a call.
type Catalogue interface {
	// Topic returns a topic's id and partition count.
	Topic(name string) (topic id.Topic, partitions int32, ok bool)
	// TopicName is the name of a topic that exists.
	TopicName(topic id.Topic) (name string, ok bool)
	// Matching returns the topics whose whole names a regular expression of RE2 matches. If the topics are unknown or of an earlier version, a
	// later call returns newer ones.
	Matching(expression string) Matches
	// Version changes when a topic is created, is deleted or gets partitions.
	Version() uint64
}

// Matches are the topics of a regular expression.
type Matches struct {
	Known   bool     // false: neither topics nor error are known yet
	Version uint64   // of the catalogue
	Topics  []string // in any order; must not be changed
	Err     error    // the expression is invalid, and matches no topic; for clients
}
