package metadata

import (
	"fmt"
	"math"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// machine is what is behind a State. No exported type has it in a field or in the signature of a method, for the sake
// of those who import this package (see api).
//
// Tables are copy-on-write. A node below a table (topicEntry, partition, session) carries the copy-on-write generation it was made in.
// Within that generation a node is changed in place; after a snapshot it is copied first.
type machine struct {
	index     uint64 // of the last entry applied
	now       int64  // command time, ms since the epoch; never goes back
	passed    int64  // see PassTime
	version   uint32
	clusterID string
	gen       uint64 // generation of what may be changed in place; >= 1
	frozen    bool   // a snapshot: Apply is refused

	nextProducerID int64
	nextSession    id.Session // the next one to be given; all below were opened
	nextNode       int32
	membership     uint64

	topics       btree.Map[string, *topicEntry]       // by the 16 bytes of the id, deleted ones that can be taken back included
	names        btree.Map[string, id.Topic]          // of those not deleted; derived
	deletions    btree.Map[uint64, id.Topic]          // by the order of deletion: those that can be taken back; derived
	deletedNames btree.Map[string, int]               // how many deletions has a name; derived
	configs      btree.Map[string, map[string]string] // by configKey; values are replaced, never changed
	gone         btree.Map[string, int64]             // names of topics deleted of late, and the command time of that

	sessions  btree.Map[id.Session, *session]    // open, closed less than resultRetentionMs ago, or the newest of its zone
	instances btree.Map[string, id.Session]      // newest session of an instance, of those in sessions
	ended     btree.Map[id.Session, endedWriter] // sessions and jobs until they are swept for orphans

	bundles btree.Map[id.Bundle, liveBundle] // with at least one live extent
	dead    btree.Map[id.Bundle, DeadBundle] // without; objects to be deleted

	transactions transactionTables

	jobs btree.Map[id.Session, *openJob] // values are never changed

	load   Load          // derived
	counts producerCount // derived
	bounds producerBounds
	limits Limits
	bucket string // id of the one with the records

	groups      btree.Map[string, *groupEntry] // by name; they and their topics are copied once per generation too
	offsetSweep offsetCursor

	cleanup cleanupQueue
	sweep   sweepCursor

	position int // of the command being applied in its entry

	scratch *scratch // of the applying goroutine, never in a snapshot
}

// scratch is memory reused between commands.
type scratch struct {
	reader commit.Reader
	topics []*topicEntry // by index of the commit's topic dictionary
	known  []bool        // whether topics[i] was looked up
	spans  []commit.Span
	counts []int // spans per section
}

func newMachine() *machine {
	return &machine{
		gen: 1, version: MinVersion, nextSession: 1, nextNode: 1,
		transactions: newTransactionTables(), scratch: new(scratch), bounds: producerBounds{MaxProducers, MaxResting},
	}
}

// Snapshot gives a frozen copy of the state: it can be read, encoded and hashed, not applied to. It costs the number
// of tables. Call it from the goroutine that applies.
func (s *machine) Snapshot() *State { return &State{s.snapshot()} }

func (s *machine) snapshot() *machine {
	c := *s
	c.frozen = true
	c.scratch = nil
	c.topics = *s.topics.Copy()
	c.names = *s.names.Copy()
	c.configs = *s.configs.Copy()
	c.gone = *s.gone.Copy()
	c.sessions = *s.sessions.Copy()
	c.instances = *s.instances.Copy()
	c.ended = *s.ended.Copy()
	c.bundles = *s.bundles.Copy()
	c.dead = *s.dead.Copy()
	c.transactions = s.transactions.snapshot()
	c.jobs = *s.jobs.Copy()
	c.deletions = *s.deletions.Copy()
	c.deletedNames = *s.deletedNames.Copy()
	c.groups = *s.groups.Copy()
	c.cleanup = s.cleanup.snapshot()
	s.gen++
	return &c
}

// Index is the log index of the last entry applied, 0 before the first.
func (s *machine) Index() uint64 { return s.index }

// Now is the command time: the latest of the times of the entries applied and of PassTime, ms since the epoch.
func (s *machine) Now() int64 { return max(s.now, s.passed) }

// Version is the state machine's version, raised by RaiseVersion.
func (s *machine) Version() uint32 { return s.version }

// ClusterID is the cluster id as Kafka clients see it, "" before Bootstrap.
func (s *machine) ClusterID() string { return s.clusterID }

// Apply applies the batch of commands of log entry index, which must be above Index, and appends one Result per
// command to results. What changed is added to fx, which may be nil. Apply keeps no reference into b, except to
// strings and maps of its commands, which must not change afterwards.
//
// Apply panics when the caller breaks the rules: an index that does not rise, a frozen state, a command kind or
// version that ParseBatch would have refused. It never panics for what agents or clients sent.
func (s *machine) Apply(index uint64, b *Batch, fx *Effects, results []Result) []Result {
	if s.frozen {
		panic("metadata: Apply on a snapshot")
	}
	if index <= s.index {
		panic(fmt.Sprintf("metadata: entry %d applied after %d", index, s.index))
	}
	if fx == nil {
		fx = new(Effects)
	}
	s.index = index
	s.now = max(s.now, b.Now)
	groups, transactions := s.HasGroups(), s.HasTransactions()
	for i, c := range b.Commands {
		s.position = i
		results = append(results, commands[c.kind()].apply(s, c, fx))
	}
	fx.Internal = fx.Internal || groups != s.HasGroups() || transactions != s.HasTransactions()
	return results
}

// HasGroups reports whether there is a group. Clients see __consumer_offsets then.
func (s *machine) HasGroups() bool { return s.groups.Len() > 0 }

// HasTransactions reports whether there is a transactional ID. Clients see __transaction_state then.
func (s *machine) HasTransactions() bool { return s.transactions.byProducer.Len() > 0 }

func (s *machine) bootstrap(c *Bootstrap, _ *Effects) error {
	if s.clusterID != "" && s.clusterID != c.ClusterID {
		return ErrBootstrapped
	}
	s.clusterID = c.ClusterID
	return nil
}

func (s *machine) raiseVersion(c *RaiseVersion, _ *Effects) error {
	if c.Version > MaxVersion {
		panic(fmt.Sprintf("metadata: version %d of at most %d", c.Version, MaxVersion))
	}
	if c.Version < s.version {
		return ErrVersion
	}
	s.version = c.Version
	return nil
}

// checkHash hands an asserted hash on: comparing costs a walk over everything.
func (s *machine) checkHash(c *CheckHash, fx *Effects) Result {
	fx.Checks = append(fx.Checks, *c)
	return Result{}
}

func (s *machine) allocateProducerIDs(c *AllocateProducerIDs, _ *Effects) Result {
	if c.Count < 1 || s.nextProducerID > math.MaxInt64-int64(c.Count) {
		return Result{Err: ErrInvalidCount}
	}
	first := s.nextProducerID
	s.nextProducerID += int64(c.Count)
	return Result{Value: first}
}
