package group

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/controlplane/group/consumer"
	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/internal/pattern"
)

// Settings are what Kafka's brokers have in their configuration about groups, under the names given. Zero fields take
// Kafka's defaults.
type Settings struct {
	MinSession             time.Duration // group.min.session.timeout.ms; 6 s
	MaxSession             time.Duration // group.max.session.timeout.ms; 30 min
	InitialRebalanceDelay  time.Duration // group.initial.rebalance.delay.ms; 3 s, below 0 for none
	MaxSize                int           // group.max.size; 0 for no bound
	ConsumerSession        time.Duration // group.consumer.session.timeout.ms; 45 s
	ConsumerHeartbeat      time.Duration // group.consumer.heartbeat.interval.ms; 5 s
	ConsumerAssignment     time.Duration // group.consumer.assignment.interval.ms; 1 s, below 0 for none
	ConsumerMaxSize        int           // group.consumer.max.size; 0 for no bound
	ConsumerAssignors      []string      // group.consumer.assignors, the default one first; uniform, range
	ConsumerMigration      string        // group.consumer.migration.policy; bidirectional
	OffsetMetadataMaxBytes int           // offset.metadata.max.bytes; 4096
	OffsetsRetention       time.Duration // offsets.retention.minutes; 7 days
	OffsetsRetentionCheck  time.Duration // offsets.retention.check.interval.ms; 10 min
}

// migrations are the migration policies by Kafka's names.
var migrations = map[string]consumer.Migration{
	brokerconfig.MigrationBidirectional: consumer.MigrationBidirectional, brokerconfig.MigrationDisabled: consumer.MigrationDisabled,
	brokerconfig.MigrationDowngrade: consumer.MigrationDowngrade, brokerconfig.MigrationUpgrade: consumer.MigrationUpgrade,
}

// SettingsOf gives what the brokers' configs say.
func SettingsOf(b brokerconfig.Settings) Settings {
	return Settings{
		MinSession: b.Duration(brokerconfig.MinSessionTimeoutMs), MaxSession: b.Duration(brokerconfig.MaxSessionTimeoutMs),
		InitialRebalanceDelay: noneIfZero(b.Duration(brokerconfig.InitialRebalanceDelayMs)), MaxSize: int(b.Int(brokerconfig.MaxSize)),
		ConsumerSession:        b.Duration(brokerconfig.ConsumerSessionTimeoutMs),
		ConsumerHeartbeat:      b.Duration(brokerconfig.ConsumerHeartbeatIntervalMs),
		ConsumerAssignment:     noneIfZero(b.Duration(brokerconfig.ConsumerAssignmentIntervalMs)),
		ConsumerMaxSize:        int(b.Int(brokerconfig.ConsumerMaxSize)),
		ConsumerAssignors:      b.List(brokerconfig.ConsumerAssignors),
		OffsetMetadataMaxBytes: int(b.Int(brokerconfig.OffsetMetadataMaxBytes)),
		OffsetsRetention:       time.Duration(b.Int(brokerconfig.OffsetsRetentionMinutes)) * time.Minute,
		OffsetsRetentionCheck:  b.Duration(brokerconfig.OffsetsRetentionCheckMs),
		ConsumerMigration:      b.Text(brokerconfig.ConsumerMigrationPolicy),
	}
}

// noneIfZero says "none" as Settings does, whose zero is the default.
func noneIfZero(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// ApplyDefaults sets what is zero to its default.
func (s *Settings) ApplyDefaults() {
	s.MinSession = cmp.Or(s.MinSession, classic.DefaultMinSession)
	s.MaxSession = cmp.Or(s.MaxSession, classic.DefaultMaxSession)
	s.InitialRebalanceDelay = cmp.Or(s.InitialRebalanceDelay, classic.DefaultInitialDelay)
	s.ConsumerSession = cmp.Or(s.ConsumerSession, consumer.DefaultSessionTimeout)
	s.ConsumerHeartbeat = cmp.Or(s.ConsumerHeartbeat, consumer.DefaultHeartbeatInterval)
	s.ConsumerAssignment = cmp.Or(s.ConsumerAssignment, consumer.DefaultAssignmentInterval)
	s.ConsumerMigration = cmp.Or(s.ConsumerMigration, brokerconfig.MigrationBidirectional)
	s.OffsetMetadataMaxBytes = cmp.Or(s.OffsetMetadataMaxBytes, 4096)
	s.OffsetsRetention = cmp.Or(s.OffsetsRetention, 7*24*time.Hour)
	s.OffsetsRetentionCheck = cmp.Or(s.OffsetsRetentionCheck, 10*time.Minute)
}

// Validate tells every fault.
func (s *Settings) Validate() error {
	var errs []error
	if s.OffsetMetadataMaxBytes < 0 {
		errs = append(errs, fmt.Errorf("offset metadata of at most %d bytes", s.OffsetMetadataMaxBytes))
	}
	if s.OffsetsRetention < 0 || s.OffsetsRetentionCheck < 0 {
		errs = append(errs, errors.New("negative retention of offsets"))
	}
	if _, ok := migrations[s.ConsumerMigration]; !ok {
		errs = append(errs, fmt.Errorf("migration policy %q: there is none of that name", s.ConsumerMigration))
	}
	errs = append(errs, s.classic(nil).Validate(), s.consumer(nil).Validate())
	return errors.Join(errs...)
}

// classic gives what the classic machine has of the settings.
func (s *Settings) classic(log *zap.Logger) classic.Config {
	return classic.Config{
		MinSession: s.MinSession, MaxSession: s.MaxSession, InitialDelay: max(0, s.InitialRebalanceDelay), MaxSize: s.MaxSize,
		NewMemberID: func(prefix string) string { return prefix + "-" + randomUUID() }, Log: log,
	}.WithDefaults()
}

// consumer gives what the consumer machine has of the settings.
func (s *Settings) consumer(log *zap.Logger) consumer.Config {
	return consumer.Config{
		SessionTimeout: s.ConsumerSession, HeartbeatInterval: s.ConsumerHeartbeat,
		AssignmentInterval: max(0, s.ConsumerAssignment), MaxSize: s.ConsumerMaxSize,
		Assignors: s.ConsumerAssignors, Migration: migrations[s.ConsumerMigration], ClassicMaxSize: s.MaxSize, ClassicMinSession: s.MinSession,
		ClassicMaxSession: s.MaxSession, NewMemberID: randomUUID, Log: log,
	}.WithDefaults()
}

// randomUUID gives a version 4 UUID in its usual form.
func randomUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Config of a Coordinator.
type Config struct {
	Settings   Settings
	Log        *zap.Logger
	Registerer prometheus.Registerer // default: a private one
	Patterns   *pattern.Queue        // for regular expressions; default: one of its own
	// MemberBytes bounds the protocols, metadata and subscriptions of the members of all groups together; default 256 MiB.
	MemberBytes int64
}

// ApplyDefaults sets what is zero to its default.
func (c *Config) ApplyDefaults() {
	c.Settings.ApplyDefaults()
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Patterns = cmp.Or(c.Patterns, new(pattern.Queue))
	c.MemberBytes = cmp.Or(c.MemberBytes, 256<<20)
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}
