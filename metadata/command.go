package metadata

import (
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// Command is one change of the state, as it stands in the log. Commands carry every id they introduce; time comes
// from the batch of commands they arrive in (Batch.Now). The pointers to the types below are the commands:
// &CreateTopic{…}.
type Command interface {
	// kind is the command's number in the log, never reused.
	kind() commandKind
}

// Batch is what one log entry holds: commands applied in order, and the time they are applied at.
type Batch struct {
	Now      int64 // ms since the epoch by the owner's clock; Apply never lets time go back
	Commands []Command
}

type (
	// Bootstrap is the first command of a virtual cluster: its cluster id as Kafka clients see it.
	Bootstrap struct{ ClusterID string }

	// RaiseVersion lifts the state machine's version once every replica supports it.
	RaiseVersion struct{ Version uint32 }

	// CreateTopic adds a topic. Result: nil error, or ErrTopicExists.
	CreateTopic struct {
		ID         id.Topic
		Name       string
		Partitions int32
		Configs    map[string]string // only those set explicitly
	}

	// DeleteTopic removes a topic logically: it is unknown at once, and its name is free. Result: nil or
	// ErrUnknownTopic.
	DeleteTopic struct {
		ID id.Topic
		// KeepMs is how long it can be taken back (UndeleteTopic); 0: it is purged at once.
		KeepMs int64
	}

	// CreatePartitions raises a topic's partition count to Count. Result: nil, ErrUnknownTopic, ErrPartitionCount.
	CreatePartitions struct {
		ID    id.Topic
		Count int32
	}

	// SetConfigs changes configs of one resource: first Set, then Delete, whose keys return to their default. The
	// owner has validated names and values. Result: nil or ErrUnknownTopic.
	SetConfigs struct {
		Resource ConfigResource
		Name     string   // of a broker (node id, "" = cluster default), group or client-metrics resource
		Topic    id.Topic // of a topic
		Set      map[string]string
		Delete   []string
	}

	// OpenSession begins an agent session. Result: OpenSessionResult. The same Instance opens only one session while
	// that is open: a repeated command gives the same answer.
	OpenSession struct {
		Instance  string // random, one per process start
		Zone      string
		Endpoints []Endpoint // one node id is assigned to each
		Version   string     // of the agent's software, for display
		Peer      string     // host:port at which agents of its zone ask it for bytes, "" if nowhere
		Roles     Roles
	}

	// DrainSession takes an agent out of the membership that Metadata shows; its commits go on.
	DrainSession struct{ Session id.Session }

	// CloseSession ends an agent session: its commits are refused for ever.
	CloseSession struct{ Session id.Session }

	// CommitBundle gives a bundle's batches their offsets. Encoded is a commit as the agent encoded it (package
	// commit). Result: *commit.Result. Applied in order of n; the owner holds back what is early.
	CommitBundle struct{ Encoded []byte }

	// AbandonSubmission settles a submission that will never come. Result: *commit.Result (Abandoned, or the result
	// it already has).
	AbandonSubmission struct{ Submission id.Submission }

	// AllocateProducerIDs reserves the next Count producer ids. Result: first id (int64).
	AllocateProducerIDs struct{ Count int32 }

	// TrimPartitions raises log starts (DeleteRecords, retention). An offset of -1 means the high watermark.
	// Result: []TrimResult.
	TrimPartitions struct{ Trims []Trim }

	// Tick lets time-driven rules run: results of sessions closed longer than 10 minutes and expired producers go.
	Tick struct{}

	// CheckHash asserts the state's hash after entry Index; a replica that differs must stop. Applying it changes
	// nothing and compares nothing (a hash costs a walk over everything): it is handed on in Effects.Checks to a
	// replica that holds a snapshot of that index.
	CheckHash struct {
		Index uint64
		Hash  uint64
	}
)

// ConfigResource is the kind of a resource that has configs, numbered as in Kafka's ConfigResource.Type.
type ConfigResource int8

// The resources that have configs.
const (
	ConfigTopic         ConfigResource = 2
	ConfigBroker        ConfigResource = 4
	ConfigClientMetrics ConfigResource = 16
	ConfigGroup         ConfigResource = 32
)

// Roles are the kinds of work that an agent does, a set of bits. None means an agent that serves clients alone.
type Roles uint8

// The roles.
const (
	RoleProduce Roles = 1 << iota
	RoleFetch
	RoleJobs
)

// ServesClients tells whether clients are to be sent to an agent of these roles.
func (r Roles) ServesClients() bool { return r == 0 || r&(RoleProduce|RoleFetch) != 0 }

// Endpoint is one address that clients reach an agent at, per listener name.
type Endpoint struct {
	Listener string // listener name; "" is the default listener
	Host     string
	Port     int32
}

// OpenSessionResult answers OpenSession.
type OpenSessionResult struct {
	Session id.Session
	NodeIDs []int32 // one per endpoint
}

// Trim raises one partition's log start.
type Trim struct {
	Partition id.TopicPartition
	Offset    int64
}

// TrimResult answers a Trim: the log start now, or an error.
type TrimResult struct {
	LogStart int64
	Err      error
}

// Result answers one command: a value of the type its command names, or an error of this package.
type Result struct {
	Value any
	Err   error
}

// Effects collects what applying changed, so that the owner can tell agents. Slices are appended to; call Reset
// between uses.
type Effects struct {
	Topics     []id.Topic        // created, changed or deleted
	Configs    bool              // a non-topic config changed
	Members    bool              // the membership that Metadata shows changed
	Partitions []PartitionEffect // commits, markers, trims
	Opened     []id.Session      // sessions opened
	Closed     []id.Session      // sessions closed
	Fenced     []int64           // producers whose transaction ended or whose epoch rose: earlier batches of them are late
	Committed  []*commit.Result  // for metrics
	Checks     []CheckHash       // asserted hashes, to be compared by who has a snapshot of that index
}

// Reset empties the effects for the next use. Slices handed out before stay as they are until then.
func (fx *Effects) Reset() {
	clear(fx.Partitions)
	clear(fx.Committed)
	*fx = Effects{
		Topics:     fx.Topics[:0],
		Partitions: fx.Partitions[:0],
		Opened:     fx.Opened[:0],
		Closed:     fx.Closed[:0],
		Fenced:     fx.Fenced[:0],
		Committed:  fx.Committed[:0],
		Checks:     fx.Checks[:0],
	}
}

// PartitionEffect is one partition's change by one section of a commit, one marker or one trim. A command that names a
// partition several times has several effects of it, in order.
type PartitionEffect struct {
	Partition id.TopicPartition
	Watermarks
	Extents []extent.Extent  // appended, in offset order; markers among them
	Aborted []extent.Aborted // transactions that these markers aborted, in marker order
}

// Watermarks are one partition's bounds as of one log index.
type Watermarks struct {
	LogStart      int64
	HighWatermark int64 // next offset to be given
	LastStable    int64 // no open transaction starts below
}
