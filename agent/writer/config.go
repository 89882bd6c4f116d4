package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/slab"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/durable"
)

// Committer hands submissions to the sequencer; client.Session implements it. It finds the owner, reconnects and
// submits again by itself. Errors: client.ErrSessionClosed (the submission took no effect and never will),
// client.ErrInvalid (repeating it gives the same answer), client.ErrLate (it took no effect in time, and no earlier attempt
// did); any other leaves the outcome unknown.
type Committer interface {
	// Commit gives the result of an encoded commit (package commit), which takes no effect for the first time after
	// until, however long it is on its way; the zero time: whenever.
	Commit(ctx context.Context, encoded []byte, until time.Time) (*commit.Result, error)
	// Abandon settles a submission of the open session, which will never be committed.
	Abandon(ctx context.Context, sub id.Submission) (*commit.Result, error)
}

// Sink takes bundles once they are committed; the agent's read cache implements it.
type Sink interface {
	// OnCommitted is called once per bundle with accepted batches, on any goroutine, when nobody else reads or writes
	// the bundle's memory any more. The memory has left the write buffers' budget: a sink that wants to keep it calls
	// Retain before it returns, and accounts for Held bytes until it calls Release.
	OnCommitted(b *Committed)
}

// Config says how batches are gathered, stored and committed. Zero fields take the defaults.
type Config struct {
	Pool      *slab.Pool      // memory for record bytes
	Bucket    objstore.Bucket // where bundles go; may be an objstore.ReleasingBucket
	Committer Committer
	Sink      Sink // nil: committed memory is released at once
	// Share is the part of the zone's PUT budgets that this writer has, above 0, at most 1. It is asked for often. nil
	// means all of it.
	Share func() float64
	// Retry bounds the attempts of one PUT; its zero value retries until SubmissionDeadline.
	Retry durable.Policy

	// FlushBytes seals a bundle by size. Default 8 MiB. A bundle is larger only if one batch is.
	FlushBytes int
	// FlushBatches seals a bundle by its number of batches. Default 16384, which bounds a commit's size.
	FlushBatches int
	// FlushInterval is the longest a batch waits for a PUT token. Default 250 ms.
	FlushInterval time.Duration
	// Linger is the shortest a batch waits for company. Default 5 ms.
	Linger time.Duration
	// PutRate and PutBurst are the zone's PUT budget: tokens per second and most tokens saved. Default 4 and 4.
	PutRate, PutBurst float64
	// FastPutRate is the zone's budget of PUTs that only batches of topics with freshet.latency=fast ask for: tokens per
	// second, beyond PutRate. Default 40.
	FastPutRate float64
	// MaxPuts bounds the bundles being put at the same time; others wait sealed, or go on gathering. Default 16.
	MaxPuts int
	// MaxUnsettled bounds the bundles of a session whose PUT began, from the oldest that is not settled on. Default 256.
	MaxUnsettled int
	// SubmissionDeadline bounds a bundle's PUT from its sealing on; then it is abandoned. Default 60 s.
	SubmissionDeadline time.Duration
	// GapTimeout bounds how long a batch ahead of its producer's sequence waits for the missing one. Default 1.5 s. Some clients
	// send nothing more of the partition meanwhile: Java's repeats one batch at a time
	// (RecordAccumulator.shouldStopDrainBatchesForPartition), franz-go waits for all answers (recBuf.okOnSink).
	GapTimeout time.Duration
	// MaxResubmissions bounds the resubmissions under way. Default 256; what is beyond is answered as retriable.
	MaxResubmissions int

	Log *zap.Logger
}

// ApplyDefaults fills the fields left zero.
func (c *Config) ApplyDefaults() {
	c.FlushBytes = cmp.Or(c.FlushBytes, 8<<20)
	c.FlushBatches = cmp.Or(c.FlushBatches, 16384)
	c.FlushInterval = cmp.Or(c.FlushInterval, 250*time.Millisecond)
	c.Linger = cmp.Or(c.Linger, 5*time.Millisecond)
	c.PutRate = cmp.Or(c.PutRate, 4)
	c.PutBurst = cmp.Or(c.PutBurst, 4)
	c.FastPutRate = cmp.Or(c.FastPutRate, 40)
	c.MaxPuts = cmp.Or(c.MaxPuts, 16)
	c.MaxUnsettled = cmp.Or(c.MaxUnsettled, 256)
	c.SubmissionDeadline = cmp.Or(c.SubmissionDeadline, 60*time.Second)
	c.GapTimeout = cmp.Or(c.GapTimeout, 1500*time.Millisecond)
	c.MaxResubmissions = cmp.Or(c.MaxResubmissions, 256)
	if c.Share == nil {
		c.Share = func() float64 { return 1 }
	}
	c.Log = cmp.Or(c.Log, zap.NewNop())
}

// Validate names every fault of the configuration.
func (c *Config) Validate() error {
	var errs []error
	if c.Pool == nil || c.Bucket == nil || c.Committer == nil {
		errs = append(errs, errors.New("pool, bucket and committer are required"))
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"flush bytes", float64(c.FlushBytes)},
		{"flush batches", float64(c.FlushBatches)},
		{"flush interval", float64(c.FlushInterval)},
		{"linger", float64(c.Linger)},
		{"PUT rate", c.PutRate},
		{"PUT rate of fast topics", c.FastPutRate},
	} {
		if f.value <= 0 {
			errs = append(errs, fmt.Errorf("%s must be above 0", f.name))
		}
	}
	if c.PutBurst < 1 {
		errs = append(errs, fmt.Errorf("PUT burst must be at least 1, is %v", c.PutBurst))
	}
	if c.FlushInterval < c.Linger {
		errs = append(errs, fmt.Errorf("flush interval %v is below the linger %v", c.FlushInterval, c.Linger))
	}
	return errors.Join(errs...)
}

// Errors that a batch can end with instead of an outcome. None of them says that the batch was refused for good.
var (
	// ErrSessionClosed: the agent session ended before the batch was settled. Nothing of it is known to have been
	// committed; the client tries again (NOT_LEADER_OR_FOLLOWER).
	ErrSessionClosed = errors.New("agent session closed")
	// ErrStore: the bundle could not be stored and was abandoned; the batch took no effect (KAFKA_STORAGE_ERROR).
	ErrStore = errors.New("bundle could not be stored")
	// ErrMalformed is returned for a batch whose header cannot be committed. The batch took no effect, and the other batches
	// of its request are not concerned (INVALID_RECORD).
	ErrMalformed = errors.New("batch cannot be committed")
	// ErrTooManyProducers is returned for a batch of a producer that is new to its partition while the state remembers as
	// many active producers as it may. The batch took no effect (NOT_ENOUGH_REPLICAS).
	ErrTooManyProducers = errors.New("too many active producers")
	// ErrRefused: the sequencer does not understand the batch's commit, which had no other batch; the batch took no effect
	// (UNKNOWN_SERVER_ERROR).
	ErrRefused = errors.New("commit refused")
	// ErrSetAside is returned for a batch whose commit was refused, probably because of another batch of it. The batch took no
	// effect (NOT_LEADER_OR_FOLLOWER).
	ErrSetAside = errors.New("set aside: a commit with the batch was refused")
	// ErrGap: an earlier batch of the producer did not arrive in time. The sequencer may still take the batch if that comes
	// within the seconds that it keeps it for; sent again it is a duplicate then (NOT_LEADER_OR_FOLLOWER).
	ErrGap = errors.New("earlier batch of the producer is missing")
	// ErrUnknownOutcome: the wait ended first; the batch may be committed or not (REQUEST_TIMED_OUT).
	ErrUnknownOutcome = errors.New("outcome of the batch is not known")
	// ErrNotTaken: the wait for write buffers or for a session ended first; the batch took no effect.
	ErrNotTaken = errors.New("batch not taken in")
	// ErrWithdrawn: who handed the batch over counts on it no more; it took no effect (REQUEST_TIMED_OUT).
	ErrWithdrawn = fmt.Errorf("%w: withdrawn", ErrNotTaken)
	// ErrNoStamp: the control plane did not say in time how new the request is, which a batch of a transaction of the
	// first protocol needs; the batch took no effect (NOT_ENOUGH_REPLICAS).
	ErrNoStamp = errors.New("no stamp for a transactional batch")
	// ErrDraining: the writer takes no more batches (NOT_LEADER_OR_FOLLOWER).
	ErrDraining = errors.New("writer is draining")
)

func notTaken(err error) error { return fmt.Errorf("%w: %w", ErrNotTaken, err) }
