package commit

import (
	"errors"

	"github.com/freshet-io/freshet/metadata/id"
)

// Why a batch is not valid.
var (
	errRecords   = errors.New("record count is below 1")
	errBytes     = errors.New("size is below that of a batch without records")
	errSequence  = errors.New("base sequence is negative")
	errEpoch     = errors.New("producer epoch is negative")
	errVersion   = errors.New("transaction version is negative")
	errPartition = errors.New("partition is negative")
)

// Validate checks one batch of a partition by the rules of Reader: a commit is malformed if and only if one of its batches is
// not valid, as long as the Builder is used as it says. So one offender can be left out before it fails its neighbours.
func (b *Batch) Validate(tp id.TopicPartition) error {
	switch {
	case tp.Partition < 0:
		return errPartition
	case b.Records < 1:
		return errRecords
	case b.Bytes < MinBatchBytes:
		return errBytes
	case b.ProducerID < 0:
		return nil
	case b.BaseSequence < 0:
		return errSequence
	case b.ProducerEpoch < 0:
		return errEpoch
	case b.TransactionVersion < 0:
		return errVersion
	}
	return nil
}
