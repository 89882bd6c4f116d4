package extent

import "github.com/freshet-io/freshet/metadata/id"

// EndMarker is what a Marker extent stands for: the control batch that ends a producer's transaction in a partition
// (Kafka's EndTransactionMarker). Its timestamp is the extent's MaxTimestamp.
type EndMarker struct {
	ProducerID       int64
	Epoch            int16
	Commit           bool // else it aborts
	CoordinatorEpoch int32
}

// NewMarker gives the extent of a marker at an offset.
func NewMarker(offset, timestamp int64, m EndMarker) Extent {
	return Extent{
		Base: offset, Last: offset, MaxTimestamp: timestamp, Bundle: id.Bundle(m.ProducerID),
		Position: uint32(m.CoordinatorEpoch), Batches: 1, Kind: Marker, commit: m.Commit, epoch: m.Epoch,
	}
}

// EndMarker gives what a Marker extent stands for; it means nothing of other kinds.
func (x *Extent) EndMarker() EndMarker {
	return EndMarker{ProducerID: int64(x.Bundle), Epoch: x.epoch, Commit: x.commit, CoordinatorEpoch: int32(x.Position)}
}

// Aborted is an aborted transaction of a partition: a reader of committed records skips what the producer wrote in
// [First, Last].
type Aborted struct {
	ProducerID int64
	First      int64 // offset of its first batch
	Last       int64 // offset of its marker
}
