package metadata

import (
	"fmt"

	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// recordTag is the first byte of a snapshot record. Within a generation, no tag is given to another record.
type recordTag uint8

// The tags, in snapshot order but for the last two. DESIGN.md lists the fields. A tag inserted in the middle renumbers the tags that follow, which raises
// generation.Number.
const (
	recordMeta recordTag = iota + 1
	recordTopic
	recordPartition
	recordExtents
	recordProducers
	recordResting
	recordForgotten
	recordOpenTransactions
	recordAborted
	recordConfig
	recordGone
	recordTransaction
	recordTransactionPartitions
	recordTransactionGroups
	recordGroup
	recordGroupMember
	recordGroupTopic
	recordOffsets
	recordOffsetNotes
	recordPendingOffsets
	recordOffsetSweep
	recordSession
	recordResult
	recordBundles
	recordDead
	recordJob
	recordEnded
	recordProducerLimit
	recordCleanup
	recordLimits // before recordCleanup
	recordBucket // before recordCleanup
)

// records describes every record by its tag. To add a record:
//
//  1. Add its tag to the constants, its entry here, and its row to the table in DESIGN.md.
//  2. Write its encoder and decoder in the file of its table. machine.encode or its parent's encoder calls the encoder.
//  3. Add its fields to TestSnapshot_HasEveryField, and run make golden.
var records = [...]recordKind{
	recordMeta:                  {"meta", (*snapshotDecoder).readMeta},
	recordTopic:                 {"topic", (*snapshotDecoder).readTopic},
	recordPartition:             {"partition", (*snapshotDecoder).readPartition},
	recordExtents:               {"extents", (*snapshotDecoder).readExtents},
	recordProducers:             {"producers", (*snapshotDecoder).readProducers},
	recordResting:               {"producers at rest", (*snapshotDecoder).readResting},
	recordForgotten:             {"forgotten producers", (*snapshotDecoder).readForgotten},
	recordOpenTransactions:      {"open transactions", (*snapshotDecoder).readOpenTransactions},
	recordAborted:               {"aborted transactions", (*snapshotDecoder).readAborted},
	recordConfig:                {"configs", (*snapshotDecoder).readConfig},
	recordGone:                  {"name of a deleted topic", (*snapshotDecoder).readGone},
	recordTransaction:           {"transaction", (*snapshotDecoder).readTransaction},
	recordTransactionPartitions: {"partitions of a transaction", (*snapshotDecoder).readTransactionPartitions},
	recordTransactionGroups:     {"groups of a transaction", (*snapshotDecoder).readTransactionGroups},
	recordGroup:                 {"group", (*snapshotDecoder).readGroup},
	recordGroupMember:           {"group member", inGroup((*groupDecoder).readMember)},
	recordGroupTopic:            {"topic of a group", inGroup((*groupDecoder).readTopic)},
	recordOffsets:               {"offsets", inGroupTopic((*groupDecoder).readOffsets)},
	recordOffsetNotes:           {"offset metadata", inGroupTopic((*groupDecoder).readNotes)},
	recordPendingOffsets:        {"pending offsets", inGroupTopic((*groupDecoder).readPending)},
	recordOffsetSweep:           {"sweep of offsets", (*snapshotDecoder).readOffsetSweep},
	recordSession:               {"session", (*snapshotDecoder).readSession},
	recordResult:                {"result", (*snapshotDecoder).readResult},
	recordBundles:               {"live bundles", (*snapshotDecoder).readBundles},
	recordDead:                  {"dead bundles", (*snapshotDecoder).readDead},
	recordJob:                   {"job", (*snapshotDecoder).readJob},
	recordEnded:                 {"ended sessions and jobs", (*snapshotDecoder).readEnded},
	recordProducerLimit:         {"bound of producers", (*snapshotDecoder).readProducerLimit},
	recordCleanup:               {"extents to clean up", (*snapshotDecoder).beginCleanup},
	recordLimits:                {"limits", (*snapshotDecoder).readLimits},
	recordBucket:                {"bucket of the records", (*snapshotDecoder).readBucket},
}

// recordKind is the name of a record in errors, and the decoder of its fields.
type recordKind struct {
	name string
	read func(d *snapshotDecoder, w *wire.Reader)
}

func (t recordTag) String() string {
	if t.known() {
		return records[t].name
	}
	return fmt.Sprintf("kind-%d", uint8(t))
}

func (t recordTag) known() bool { return t > 0 && int(t) < len(records) }

// inGroup returns a decoder for records that belong to the preceding group record.
func inGroup(read func(d *groupDecoder, w *wire.Reader)) func(*snapshotDecoder, *wire.Reader) {
	return func(d *snapshotDecoder, w *wire.Reader) {
		if d.groups.group == nil {
			w.Fail("part of no group")
			return
		}
		read(&d.groups, w)
	}
}

// inGroupTopic returns a decoder for records that belong to the preceding topic record of a group.
func inGroupTopic(read func(d *groupDecoder, w *wire.Reader)) func(*snapshotDecoder, *wire.Reader) {
	return func(d *snapshotDecoder, w *wire.Reader) {
		if d.groups.topic == nil {
			w.Fail("offsets of no topic")
			return
		}
		read(&d.groups, w)
	}
}
