package metadata

import (
	"io"
	"iter"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// MaxVersion is the newest state machine version that this program can run. New states start at MinVersion. Each version
// adds:
//   - 2: leader epochs of partitions
//   - 3: hidden sessions and zones without agents
//   - 4: producers that go on after their transaction timed out (LateAbortVersion)
//   - 5: submissions that overtake others of their session (OvertakingVersion)
//   - 6: snapshot lists in several records (SplitVersion), bounds of transactions, groups and configs (LimitsVersion),
//     forgotten producers (ProducersVersion), timestamp 2^63-1 (TimestampVersion), cleanings that end with the configs
//     they began with (CleanupVersion), the epoch checked before the transaction (EpochFirstVersion)
const (
	MinVersion uint32 = 1
	MaxVersion uint32 = 6
)

// State is the state of one virtual cluster after some log entry. It is changed by Apply alone, on one goroutine.
// Snapshot gives a frozen copy in O(number of tables), which other goroutines may read while Apply goes on.
type State struct{ api }

// New gives the state before the first log entry.
//
//go:noinline // whoever inlines it sees the machine
func New() *State { return &State{newMachine()} }

// Decode reads what Encode wrote and returns a state to apply to. Memory grows with the bytes read, never by what they
// claim; each section's checksum is compared before it is used, the hash of everything before Decode returns.
// Errors: ErrMalformedSnapshot, ErrUnsupported (written by a newer version), or the reader's.
//
//go:noinline // see New
func Decode(r io.Reader) (*State, error) { return DecodeLimit(r, SectionBytes) }

// DecodeLimit is Decode with another bound of a section's payload. A larger one reads snapshots of programs that wrote
// sections above SectionBytes.
//
//go:noinline // see New
func DecodeLimit(r io.Reader, sectionBytes int64) (*State, error) {
	s, err := decodeLimit(r, sectionBytes)
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
	Version() uint32
	ClusterID() string
	EmptiedZones() iter.Seq[SessionInfo]
	Apply(index uint64, b *Batch, fx *Effects, results []Result) []Result

	DeadBundles() iter.Seq2[id.Bundle, DeadBundle]
	Bundle(b id.Bundle) (bytes, liveExtents, liveBytes uint32, ok bool)
	Bundles() iter.Seq2[id.Bundle, BundleInfo]
	BundleLevel(b id.Bundle) (level uint8, ok bool)

	Load() Load
	ProducerLimit() int64

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
