package metadata

import (
	"io"
	"iter"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// MinVersion is the version of new states.
const MinVersion uint32 = 1

// MaxVersion is the newest version of the state machine that this program can run. A state's version rises when all replicas can
// run the next one, so that Apply may do something else from a log entry on. Tests set it to run a version that does not exist.
//
//	1  the first one
//	2  has limits (SetLimits)
//	3  knows the bucket of the records (UseBucket)
var MaxVersion = BucketVersion

// LimitsVersion is the version of the state from which on owners propose SetLimits.
const LimitsVersion uint32 = 2

// BucketVersion is the version of the state from which on owners propose UseBucket.
const BucketVersion uint32 = 3

// State is the state of one virtual cluster after some log entry. It is changed by Apply alone, on one goroutine.
// Snapshot gives a frozen copy in O(number of tables), which other goroutines may read while Apply goes on.
type State struct{ api }

// New gives the state before the first log entry.
//
//go:noinline // whoever inlines it sees the machine
func New() *State { return &State{newMachine()} }

// Decode reads what Encode wrote and returns a state to apply to. Memory grows with the bytes read, never by what they
// claim; each section's checksum is compared before it is used, the hash of everything before Decode returns.
// Errors: ErrMalformedSnapshot, ErrUnsupported (of another generation or a newer version), or the reader's.
//
//go:noinline // see New
func Decode(r io.Reader) (*State, error) {
	s, err := decode(r)
	if err != nil {
		return nil, err
	}
	return &State{s}, nil
}

// api are the methods of a State; each is described at the machine's. An interface, because a package that sees a
// generic type, be it in an unexported field or method, compiles all its methods: with the machine's trees in sight
// every package above this one took 5 to 10 s longer, and its tests as long again.
type api interface {
	Snapshot() *State
	Index() uint64
	Now() int64
	NextDue() int64
	PassTime(now int64)
	Version() uint32
	ClusterID() string
	RecordsBucket() string
	HasOpenSession() bool
	EmptiedZones() iter.Seq[SessionInfo]
	Apply(index uint64, b *Batch, fx *Effects, results []Result) []Result

	DeadBundles() iter.Seq2[id.Bundle, DeadBundle]
	Bundle(b id.Bundle) (bytes, liveExtents, liveBytes uint32, ok bool)
	Bundles() iter.Seq2[id.Bundle, BundleInfo]
	BundleLevel(b id.Bundle) (level uint8, ok bool)

	Load() Load
	GrowthHere(c Command) (g Growth, exists bool)
	PartitionsOf(transactionalID string) int64
	CleaningUp() bool
	CleanupExtents() int64
	ProducerLimit() int64
	AllowsTransaction(transactionalID string) error
	Refused(c Command) (r Result, refused bool)
	Limits() (limits, used Limits)

	EndedWriters() iter.Seq[EndedWriter]
	EndedWriter(n id.Session) (EndedWriter, bool)
	DeletedTopics() iter.Seq[DeletedTopic]

	Jobs() iter.Seq[JobInfo]
	Job(n id.Session) (JobInfo, bool)
	CleanedTo(tp id.TopicPartition) int64
	CleanupConfigs(t id.Topic) (sum uint64, ok bool)
	LargestTimestamp(x *extent.Extent) int64

	ConfiguredNames(resource ConfigResource) iter.Seq[string]

	Group(name string) (GroupInfo, bool)
	Groups() iter.Seq[GroupInfo]
	GroupsFrom(from string) iter.Seq[GroupInfo]
	GroupCount() int
	HasGroups() bool
	HasTransactions() bool

	Offset(group string, tp id.TopicPartition) (Offset, bool)
	Offsets(group string) iter.Seq2[id.TopicPartition, Offset]
	OffsetsFrom(group string, from id.TopicPartition) iter.Seq2[id.TopicPartition, Offset]

	LoggedOffsets(group string, yield func(*LoggedOffset) bool)
	PendingOffset(group string, tp id.TopicPartition) bool
	HasOffsets(group string) (committed, pending bool)
	HasDeletedOffsets(group string) bool

	Watermarks(tp id.TopicPartition) (Watermarks, bool)
	Extents(tp id.TopicPartition, from int64, maxExtents int, maxBytes int64) (exts []extent.Extent, more bool)
	AscendExtents(tp id.TopicPartition, from int64, yield func(*extent.Extent) bool)
	FindTimestamp(tp id.TopicPartition, from, ts int64) (extent.Extent, bool)
	MaxTimestampExtent(tp id.TopicPartition, from, to int64) (extent.Extent, bool)
	PartitionBytes(tp id.TopicPartition) int64

	AbortedTransactions(tp id.TopicPartition, from, to int64) []extent.Aborted

	AheadOfSequence(tp id.TopicPartition, b *commit.Run) bool

	Producers(tp id.TopicPartition) (iter.Seq[ProducerInfo], bool)

	RetainedFrom(tp id.TopicPartition, r Retention) (logStart int64)

	Settled(sub id.Submission) (*commit.Result, bool)
	Session(n id.Session) (SessionInfo, bool)
	SessionByInstance(instance string) (SessionInfo, bool)
	Sessions() iter.Seq[SessionInfo]
	MembershipVersion() uint64

	Encode(w io.Writer) error
	Encodable() (hash uint64, err error)
	Hash() uint64

	Topic(t id.Topic) (*Topic, bool)
	TopicByName(name string) (*Topic, bool)
	Topics() iter.Seq[*Topic]
	Configs(resource ConfigResource, name string) map[string]string

	Transaction(transactionalID string) (TransactionInfo, bool)
	Transactions() iter.Seq[TransactionInfo]

	VerifyPartitions(r *TransactionRef, list []id.TopicPartition) ([]error, error)
}
