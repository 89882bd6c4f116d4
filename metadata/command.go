package metadata

import (
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// Command is one change of the state, as it stands in the log. Commands carry every id they introduce; time comes
// from the batch of commands they arrive in (Batch.Now). The pointers to the types below are the commands:
// &CreateTopic{…}.
type Command interface {
	// kind is the command's number in the log.
	kind() commandKind
	// appendBody appends the command's fields, in the order of their declaration.
	appendBody(dst []byte) []byte
	// readBody reads what appendBody wrote into an empty command.
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
