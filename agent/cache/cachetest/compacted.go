package cachetest

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// Section is what a compacted bundle holds of one partition: batches as producers send them, that get the offsets from
// Base on.
type Section struct {
	Partition id.TopicPartition
	Base      int64
	Batches   [][]byte
}

// Compact writes a bundle as compaction does, with a seek table, and gives the sections' extents, which are cut at the
// first batch boundary at or after cut bytes.
func Compact(tb testing.TB, bucket objstore.Bucket, name id.Bundle, cut int, sections ...Section) [][]extent.Extent {
	tb.Helper()
	w, err := bundle.NewWriter(bundle.WriterConfig{Bucket: bucket, Name: name.Submission()})
	require.NoError(tb, err)
	all := make([][]extent.Extent, len(sections))
	var patched []byte // of one after the other: the writer copies
	for i, s := range sections {
		next := s.Base
		for _, raw := range s.Batches {
			patched = append(patched[:0], raw...)
			patch(patched, next)
			position, err := w.Batch(context.Background(), s.Partition, patched)
			require.NoError(tb, err)
			all[i] = extend(all[i], cut, extent.Extent{
				Kind: extent.Absolute, Base: next, Last: next + int64(binary.BigEndian.Uint32(raw[23:])), Bundle: name,
				MaxTimestamp: int64(binary.BigEndian.Uint64(raw[35:])), Position: position, Length: uint32(len(raw)), Batches: 1,
			})
			next = all[i][len(all[i])-1].Last + 1
		}
	}
	_, err = w.Finish(context.Background())
	require.NoError(tb, err)
	return all
}

// extend adds a batch, to the last extent if that is not full.
func extend(list []extent.Extent, cut int, e extent.Extent) []extent.Extent {
	if len(list) == 0 || int(list[len(list)-1].Length) >= cut {
		return append(list, e)
	}
	last := &list[len(list)-1]
	last.Last, last.Length, last.Batches = e.Last, last.Length+e.Length, last.Batches+1
	last.MaxTimestamp = max(last.MaxTimestamp, e.MaxTimestamp)
	return list
}
