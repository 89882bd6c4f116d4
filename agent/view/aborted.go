package view

import (
	"errors"
	"slices"
	"sort"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
)

var errAborted = errors.New("aborted transactions out of order")

// parseAborted reads the aborted transactions of a message: none twice, in the order of their markers.
func parseAborted(in []*api.AbortedTransaction) ([]extent.Aborted, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]extent.Aborted, len(in))
	before := int64(-1)
	for i, a := range in {
		out[i] = extent.Aborted{ProducerID: a.GetProducerId(), First: a.GetFirst(), Last: a.GetLast()}
		if out[i].First < 0 || out[i].Last < out[i].First || out[i].Last <= before {
			return nil, errAborted
		}
		before = out[i].Last
	}
	return out, nil
}

// reaching gives those whose marker is at or above the offset: a reader from there on meets nothing of the others.
func reaching(aborted []extent.Aborted, offset int64) []extent.Aborted {
	i := sort.Search(len(aborted), func(i int) bool { return aborted[i].Last >= offset })
	if i == len(aborted) {
		return nil
	}
	return slices.Clip(aborted[i:])
}

// Size is how many bytes an extent brings to a reader: a marker has none in any object.
func Size(e *extent.Extent) int64 {
	if e.Kind == extent.Marker {
		return kafkaproto.ControlBatchSize
	}
	return int64(e.Length)
}

// run is a stretch behind the window, as one look-up gave it. It does not change.
type run struct {
	extents []extent.Extent
	aborted []extent.Aborted
	// stable was the last stable offset. Transactions that were open then begin there or above: how they ended is not
	// known here.
	stable int64
}

// holds tells whether the run says what there is to read at the offset.
func (r *run) holds(offset int64, committed bool) bool {
	if r.extents[0].Base > offset || r.extents[len(r.extents)-1].Last < offset {
		return false
	}
	return !committed || offset < r.stable
}
