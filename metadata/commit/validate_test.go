package commit

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
)

// TestBatch_ValidateAsParse compares Validate with the decoder, over all combinations of extreme values.
func TestBatch_ValidateAsParse(t *testing.T) {
	sizes := []int32{math.MinInt32, -1, 0, 1, MinBatchBytes - 1, MinBatchBytes, math.MaxInt32}
	numbers := []int32{math.MinInt32, -1, 0, 1, math.MaxInt32}
	valid, malformed := 0, 0
	check := func(partition int32, batch Batch) {
		tp := id.TopicPartition{Topic: id.Topic{1}, Partition: partition}
		var b Builder
		b.Reset(Header{Submission: id.Submission{Session: 1, N: 1}, Bytes: math.MaxUint32})
		b.Section(Section{Partition: tp})
		b.Batch(batch)
		_, err := Parse(b.AppendTo(nil))
		if batch.Validate(tp) == nil {
			require.NoError(t, err, "%d %+v", partition, batch)
			valid++
		} else {
			require.ErrorIs(t, err, ErrMalformed, "%d %+v", partition, batch)
			malformed++
		}
	}
	for _, partition := range []int32{math.MinInt32, -1, 0, math.MaxInt32} {
		for _, bytes := range sizes {
			for _, records := range numbers {
				for _, timestamp := range []int64{math.MinInt64, -2, -1, 0, math.MaxInt64 - 1, math.MaxInt64} {
					check(partition, Batch{Records: records, Bytes: bytes, MaxTimestamp: timestamp, ProducerID: NoProducer, BaseSequence: -1, ProducerEpoch: -1})
				}
			}
		}
	}
	for _, producer := range []int64{math.MinInt64, -1, 0, math.MaxInt64} {
		for _, sequence := range numbers {
			for _, epoch := range []int16{math.MinInt16, -1, 0, math.MaxInt16} {
				for _, version := range []int8{math.MinInt8, -1, 0, 1, 2, math.MaxInt8} {
					for _, transactional := range []bool{false, true} {
						check(0, Batch{
							Records: 1, Bytes: 100, ProducerID: producer, BaseSequence: sequence, ProducerEpoch: epoch,
							Transactional: transactional, TransactionVersion: version, AsOf: math.MaxUint64,
						})
					}
				}
			}
		}
	}
	require.Greater(t, valid, 100)
	require.Greater(t, malformed, 100)
}

// TestBuilder_LargestTimestamp encodes timestamp 2^63-1 beside others, in runs of both kinds.
func TestBuilder_LargestTimestamp(t *testing.T) {
	timestamps := []int64{-1, 0, math.MaxInt64 - 1, math.MaxInt64}
	for _, producer := range []int64{NoProducer, 7} {
		var b Builder
		b.Reset(Header{Submission: id.Submission{Session: 1, N: 1}, Bytes: 1 << 20})
		for i, timestamp := range timestamps {
			b.Section(Section{Partition: id.TopicPartition{Topic: id.Topic{1}, Partition: int32(i)}, Position: uint32(i) * 100})
			b.Batch(Batch{Records: 1, Bytes: 100, MaxTimestamp: timestamp, ProducerID: producer, BaseSequence: int32(i)})
		}
		r, err := Parse(b.AppendTo(nil))
		require.NoError(t, err)
		var got []int64
		var section SectionRuns
		var run Run
		for r.NextSection(&section) {
			for r.NextRun(&run) {
				got = append(got, run.MaxTimestamp)
			}
		}
		require.Equal(t, timestamps, got)
	}
}
