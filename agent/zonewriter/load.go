package zonewriter

import "github.com/freshet-io/freshet/internal/promcount"

// HandedBytes gives the bytes of batches handed to other agents so far.
func (r *Route) HandedBytes() int64 {
	return promcount.Value(r.metrics.bytes.WithLabelValues(handedOther))
}

// TakenBytes gives the bytes of batches taken from other agents so far.
func (t *Taker) TakenBytes() int64 { return promcount.Value(t.metrics.bytes) }
