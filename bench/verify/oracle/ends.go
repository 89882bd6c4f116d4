package oracle

import (
	"fmt"
	"time"
)

// Known is what had been answered of a partition's end before a request was sent.
type Known struct {
	view View
	mark
}

// Known gives what is known of a partition's end now: an answer to what is asked later may not be below it.
func (h *History) Known(partition int32, v View) Known {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Known{v, h.mu.partitions[partition].marks[v]}
}

// End is the offset that was known to be the end or to be passed by it.
func (k Known) End() int64 { return k.end }

// Told checks an end that was answered against what was known when it was asked for. who names the broker and request.
func (h *History) Told(partition int32, k Known, end int64, who string, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.cfg.Now()
	h.mu.counts.EndsTold++
	if end < k.end {
		h.stale(partition, end, k, fmt.Sprintf("%s, asked at %s, answered at %s with end %d (%s)", who, clock(asked), clock(now), end, k.view))
	}
	h.mu.partitions[partition].marks[k.view].raise(end, "told by "+who, now)
}

// Empty notes that a fetch from below the known end was answered with nothing.
func (h *History) Empty(partition int32, k Known, from int64, who string, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stale(partition, from, k, fmt.Sprintf("%s, asked at %s, answered at %s with nothing from offset %d on", who, clock(asked),
		clock(h.cfg.Now()), from))
}

// OutOfRange notes that an offset below the known end was answered to be out of range.
func (h *History) OutOfRange(partition int32, k Known, from int64, who string, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stale(partition, from, k, fmt.Sprintf("%s, asked at %s, answered at %s that offset %d is out of range", who, clock(asked),
		clock(h.cfg.Now()), from))
}

func (h *History) stale(partition int32, at int64, k Known, evidence string) {
	h.cfg.Findings.Add(Finding{
		Class: Stale, Topic: h.cfg.Topic, Partition: partition, Offset: at,
		Evidence: fmt.Sprintf("%s; %s made the end %d at %s", evidence, k.why, k.end, clock(k.at)),
	})
}
