package metalog

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Timing of ownership (ARCHITECTURE.md, Ownership, log and snapshots). Zero fields take the defaults.
type Timing struct {
	Lease     time.Duration // 5 s; whole seconds
	Renew     time.Duration // 500 ms
	SelfFence time.Duration // 3.5 s, counted from the send time of the last renewal that succeeded
	// Attempt bounds one request to the store: 1 s. A request that hangs at a dead member is repeated at the next.
	Attempt time.Duration
	// Read bounds Status, Read, Snapshots, SetSnapshots and each step of Trim as a whole, with their retries: 8 s.
	Read time.Duration
}

// ApplyDefaults sets the fields that are zero.
func (t *Timing) ApplyDefaults() {
	t.Lease = cmp.Or(t.Lease, 5*time.Second)
	t.Renew = cmp.Or(t.Renew, 500*time.Millisecond)
	t.SelfFence = cmp.Or(t.SelfFence, 3500*time.Millisecond)
	t.Attempt = cmp.Or(t.Attempt, time.Second)
	t.Read = cmp.Or(t.Read, 8*time.Second)
}

// Validate tells every fault. The order renew < self-fence < lease is what I9 rests on.
func (t *Timing) Validate() error {
	var errs []error
	if t.Lease < time.Second || t.Lease%time.Second != 0 {
		errs = append(errs, fmt.Errorf("lease %v: must be whole seconds, at least one", t.Lease))
	}
	if t.SelfFence >= t.Lease {
		errs = append(errs, fmt.Errorf("self-fence %v must be shorter than the lease %v", t.SelfFence, t.Lease))
	}
	if t.Renew <= 0 || 2*t.Renew > t.SelfFence {
		errs = append(errs, fmt.Errorf("renewal period %v must be at most half the self-fence %v", t.Renew, t.SelfFence))
	}
	if t.Attempt <= 0 || t.Read < t.Attempt {
		errs = append(errs, fmt.Errorf("attempt %v must be positive and at most the read time-out %v", t.Attempt, t.Read))
	}
	return errors.Join(errs...)
}

// Bounds of the log.
const (
	// DefaultEntryBytes is the most payload one entry carries unless configured otherwise.
	DefaultEntryBytes = 256 << 10
	// MaxEntryBytes keeps a transaction below etcd's default request limit of 1.5 MiB.
	MaxEntryBytes = 1 << 20
	// MaxPayloadBytes is the most that one command may span.
	MaxPayloadBytes = 64 << 20
	// trimChunk is how many entries one deletion covers, so that it stalls no append for long.
	trimChunk = 512
	// minReadEntries lets a reader of small entries catch up in few requests, whatever its byte limit.
	minReadEntries = 32
)

// Config configures a log over a store.
type Config struct {
	// Lease is the replica's, shared by the logs of all virtual clusters. A log without a lease can be read, but not acquired.
	Lease      *Lease
	Timing     Timing
	EntryBytes int                   // most payload of one entry; default DefaultEntryBytes, at most MaxEntryBytes
	Logger     *zap.Logger           // default: none
	Registerer prometheus.Registerer // default: a private one
}

// ApplyDefaults sets the fields that are zero.
func (c *Config) ApplyDefaults() {
	c.Timing.ApplyDefaults()
	if c.EntryBytes == 0 {
		c.EntryBytes = DefaultEntryBytes
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
}

// Validate tells every fault.
func (c *Config) Validate() error {
	var errs []error
	if err := c.Timing.Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.EntryBytes < 1 || c.EntryBytes > MaxEntryBytes {
		errs = append(errs, fmt.Errorf("entry bytes %d: must be 1 to %d", c.EntryBytes, MaxEntryBytes))
	}
	return errors.Join(errs...)
}
