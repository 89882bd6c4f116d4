package job

import (
	"errors"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// ErrMalformed is the base of every decoding error.
var ErrMalformed = errors.New("malformed job")

// Kind of a job.
type Kind uint8

const (
	// Compact rewrites extents of many bundles, so that what belongs to a partition lies together. Records stay.
	Compact Kind = iota + 1
	// Clean rewrites partitions of compacted topics and drops records as Kafka's log cleaner does.
	Clean
	// Cut is Compact that drops unreadable records, at an operator's request. Only plans have this kind. In the state such a job is
	// Compact.
	Cut
)

// String names the kind as metrics and answers show it.
func (k Kind) String() string {
	switch k {
	case Compact:
		return "compact"
	case Clean:
		return "clean"
	case Cut:
		return "cut"
	default:
		return "unknown"
	}
}

// MaxLevel is the highest level of a bundle: agents write level 0, and no byte is compacted more than twice.
const MaxLevel = 2

// Plan is what a runner has to do.
type Plan struct {
	ID         id.Session // the job's: the bundles it writes are ID/1, ID/2, ...
	Kind       Kind
	Level      uint8       // of the bundles to be written: 1 or 2
	Partitions []Partition // ascending
}

// Partition is one partition to be rewritten.
type Partition struct {
	ID id.TopicPartition
	// Extents are to be replaced, ascending. Where one does not begin after the one before ends, a new run begins:
	// what lies between is not of the job.
	Extents []extent.Extent
	Aborted []extent.Aborted // of a Clean job: those that reach into the extents, ascending by Last
	Clean   *CleanSpec       // of a Clean job
}

// CleanSpec says how to clean a partition: the settings of its topic, and times, in ms.
type CleanSpec struct {
	FirstDirty        int64 // offsets below were cleaned before
	NowMs             int64 // since the epoch
	DeleteRetentionMs int64 // delete.retention.ms
	MaxBatchBytes     int64 // max.message.bytes
}

// Unreadable names the input bundles that kept a job from its end. The zero value accuses no input.
type Unreadable struct {
	Bundles []id.Bundle
	// Intact reports that the batches of these bundles are intact, and that only records in them cannot be decoded. Otherwise their
	// objects are missing or corrupt.
	Intact bool
}

// Outcome is what a job has written.
type Outcome struct {
	Bundles    []Bundle      // that extents of the replacements refer to, ascending by N
	Partitions []Replacement // ascending
}

// Bundle is an object that is complete.
type Bundle struct {
	N     uint32 // its number in the job, counting from 1
	Bytes uint32 // size of the object
}

// Replacement is what extents of one partition became.
type Replacement struct {
	ID       id.TopicPartition
	From, To int64 // first and last offset replaced
	// Extents take their place: of kind Absolute, in bundles of the job, contiguous from From to To.
	Extents []extent.Extent
	// DroppedAborted are the offsets of markers of aborted transactions of which nothing is left, ascending: the
	// transactions are forgotten with them. Clean jobs only.
	DroppedAborted []int64
	// CleanedTo is the offset below which the partition is clean now; 0 if the job cleans nothing.
	CleanedTo int64
}

// Runs calls yield with each run of the partition's extents: neighbours that follow each other without a hole.
func (p *Partition) Runs(yield func([]extent.Extent) bool) {
	for from := 0; from < len(p.Extents); {
		to := from + 1
		for to < len(p.Extents) && p.Extents[to].Base == p.Extents[to-1].Last+1 {
			to++
		}
		if !yield(p.Extents[from:to]) {
			return
		}
		from = to
	}
}
