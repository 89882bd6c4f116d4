package metadata

import (
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// Command is one change of the state, as stored in the log. Only pointers implement Command: &CreateTopic{…}. commands lists all types.
// The time of a command is Batch.Now. Topic ids come with the command; Apply assigns ids of sessions, jobs, nodes and producers.
type Command interface {
	// kind is the command's number in the log.
	kind() commandKind
	// appendBody appends the command's fields. AppendBatch describes the encoding.
	appendBody(dst []byte) []byte
	// readBody decodes the output of appendBody into an empty command.
	readBody(w *wire.Reader)
}

// Batch is what one log entry holds: commands applied in order, and the time they are applied at.
type Batch struct {
	Now      int64 // ms since the epoch by the owner's clock; Apply never lets time go back
	Commands []Command
}

// Result answers one command: a value of the type its command names, or an error of this package.
type Result struct {
	Value any
	Err   error
}

// Effects collects the changes of Apply, so that the owner can notify agents. Apply appends to the slices; call Reset between uses.
type Effects struct {
	Topics     []id.Topic        // created, changed or deleted
	Configs    bool              // a non-topic config changed
	Members    bool              // the membership that Metadata shows changed
	Internal   bool              // State.HasGroups or State.HasTransactions changed
	Partitions []PartitionEffect // commits, markers, trims
	Opened     []id.Session      // sessions opened
	Closed     []id.Session      // sessions closed
	Fenced     []int64           // ids of producers whose transaction ended or whose epoch rose; their earlier batches are late
	Committed  []*commit.Result  // for metrics
	Checks     []CheckHash       // hashes for replicas that hold a snapshot of their index
}

// Reset empties the effects and keeps their memory. Slices that callers took before are invalid afterwards.
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

// PartitionEffect is the change of one partition by one section of a commit, one marker or one trim. If a command names a partition
// several times, each time has its own effect, in order.
type PartitionEffect struct {
	Partition id.TopicPartition
	Watermarks
	Extents []extent.Extent  // appended, in offset order; markers among them
	Aborted []extent.Aborted // transactions that these markers aborted, in marker order
}

// Watermarks are one partition's bounds as of one log index.
type Watermarks struct {
	LogStart      int64
	HighWatermark int64 // next offset to assign
	LastStable    int64 // last stable offset: every open transaction starts at or above it
}
