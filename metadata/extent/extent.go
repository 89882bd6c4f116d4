// Package extent holds the extents of one partition: the map from offsets to bytes in bundles.
package extent

import "github.com/freshet-io/freshet/metadata/id"

// Kind tells where an extent's records are.
type Kind uint8

const (
	// Relative extents hold batches as producers sent them: each batch's base offset is the one before it plus that
	// batch's record count, the first one's is the extent's base.
	Relative Kind = iota
	// Absolute extents hold batches whose stored base offsets are already true (compaction outputs).
	Absolute
	// Marker extents are one control batch of a transaction without bytes in any object; readers synthesise it from
	// EndMarker. Their Bundle and Position mean nothing else, their Length is 0.
	Marker
)

// Extent is a maximal run of accepted, adjacent batches of one partition in one bundle, with contiguous offsets.
// Its bytes are [Position, Position+Length) of the bundle's object.
type Extent struct {
	Base         int64 // first offset
	Last         int64 // last offset, inclusive; >= Base
	MaxTimestamp int64 // largest record timestamp, ms since the epoch; -1 if none
	Bundle       id.Bundle
	Position     uint32 // byte position in the object
	Length       uint32 // bytes
	Batches      uint32 // number of record batches
	Kind         Kind

	commit bool  // of a marker
	epoch  int16 // of a marker; in the padding, so that markers cost other extents nothing
}
