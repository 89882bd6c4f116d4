package view

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// Watermarks are one partition's bounds as of one log index.
type Watermarks struct {
	LogStart      int64
	HighWatermark int64 // next offset to be given
	LastStable    int64 // no open transaction starts below
}

// state of a partition's window.
type state uint8

const (
	absent  state = iota // nothing is known
	filling              // a subscribing look-up is under way; notices are kept for its answer
	live                 // subscribed: marks and window follow the notices
	leaving              // an Unsubscribe is being sent
	gone                 // out of the set for good
)

// Bounds of what one partition keeps.
const (
	// maxPending bounds the notices kept while a look-up is under way; more and the window is not opened.
	maxPending = 1024
	// maxRuns bounds the stretches behind the window that are kept for catch-up readers.
	maxRuns = 4
)

var errNoticeGap = errors.New("notice does not continue the window")

// partition is the window of one partition. Slices of window and runs are handed out to readers: elements are never
// changed, only appended after or dropped from the front.
type partition struct {
	tp    id.TopicPartition
	total *atomic.Int64 // extents held by all partitions

	mu struct {
		sync.Mutex
		state   state
		done    chan struct{} // closed when filling or leaving ends
		pending []*api.PartitionNotice
		indexes []uint64 // of pending
		asked   time.Time
		index   uint64 // of the look-up that opened the window
		marks   Watermarks
		window  []extent.Extent // contiguous up to the high watermark
		bytes   int64           // that window names
		runs    [][]extent.Extent
		waiters map[*Waiter]struct{}
		used    time.Time
		held    int // extents of window and runs, as counted in total
	}
}

// account brings total up to date; call it after window or runs changed.
func (p *partition) account() {
	held := len(p.mu.window)
	for _, run := range p.mu.runs {
		held += len(run)
	}
	p.total.Add(int64(held - p.mu.held))
	p.mu.held = held
}

// open begins the window with a look-up's answer: its extents are the window if they reach the high watermark, and
// else a run behind it.
func (p *partition) open(index uint64, asked time.Time, marks Watermarks, exts []extent.Extent, more bool, cfg *Config) {
	p.mu.index, p.mu.asked, p.mu.marks = index, asked, marks
	p.mu.window, p.mu.bytes, p.mu.runs = nil, 0, nil
	if more {
		p.keepRun(exts, cfg.MaxExtents)
		p.account()
		return
	}
	p.mu.window = exts
	for i := range exts {
		p.mu.bytes += int64(exts[i].Length)
	}
	p.account()
}

// keepRun remembers extents behind the window.
func (p *partition) keepRun(exts []extent.Extent, maxExtents int) {
	if len(exts) == 0 || p.total.Load() > int64(maxExtents) {
		return
	}
	if len(p.mu.runs) >= maxRuns {
		p.mu.runs = slices.Delete(p.mu.runs, 0, 1)
	}
	p.mu.runs = append(p.mu.runs, exts)
	p.account()
}

// start is the first offset of the window.
func (p *partition) start() int64 {
	if len(p.mu.window) == 0 {
		return p.mu.marks.HighWatermark
	}
	return p.mu.window[0].Base
}

// behind finds kept extents below the window that begin with the one holding offset.
func (p *partition) behind(offset int64) []extent.Extent {
	for i, run := range p.mu.runs {
		if run[0].Base > offset || run[len(run)-1].Last < offset {
			continue
		}
		p.mu.runs = append(slices.Delete(p.mu.runs, i, i+1), run) // most recently used last
		return from(run, offset)
	}
	return nil
}

// from gives the extents that hold offset and what follows.
func from(exts []extent.Extent, offset int64) []extent.Extent {
	i, _ := slices.BinarySearchFunc(exts, offset, func(e extent.Extent, offset int64) int {
		if e.Last < offset {
			return -1
		}
		return 1
	})
	return exts[i:len(exts):len(exts)]
}

// notice applies one notice to a live window: it must continue it without a gap.
func (p *partition) notice(index uint64, n *api.PartitionNotice, cfg *Config, m *metrics) error {
	if index <= p.mu.index {
		return nil // covered by the look-up
	}
	exts, err := ParseExtents(n.GetExtents())
	if err != nil {
		return fmt.Errorf("parse extents of notice: %w", err)
	}
	next, added := p.mu.marks.HighWatermark, int64(0)
	for i := range exts {
		if exts[i].Base != next {
			return errNoticeGap
		}
		next, added = exts[i].Last+1, added+int64(exts[i].Length)
	}
	if next != n.GetHighWatermark() {
		return errNoticeGap
	}
	moved := p.mu.marks.LogStart != n.GetLogStart() || p.mu.marks.LastStable != n.GetLastStable()
	p.mu.marks = Watermarks{
		LogStart: n.GetLogStart(), HighWatermark: n.GetHighWatermark(), LastStable: n.GetLastStable(),
	}
	p.mu.window = append(p.mu.window, exts...)
	p.mu.bytes += added
	p.trim(cfg, m)
	p.account()
	if moved && added == 0 {
		p.wake()
	} else {
		p.credit(added)
	}
	return nil
}

// trim drops from the window's front what is below the log start or over the bounds.
func (p *partition) trim(cfg *Config, m *metrics) {
	n, window := 0, cfg.WindowExtents
	if p.total.Load() > int64(cfg.MaxExtents) {
		window = 1
	}
	for n < len(p.mu.window) {
		e := &p.mu.window[n]
		over := len(p.mu.window)-n > window || p.mu.bytes > cfg.WindowBytes && n < len(p.mu.window)-1
		if e.Last >= p.mu.marks.LogStart && !over {
			break
		}
		p.mu.bytes -= int64(e.Length)
		n++
	}
	if n > 0 {
		m.trimmed.Add(float64(n))
		p.mu.window = p.mu.window[n:]
	}
}

// void forgets what is known and wakes who waits, to look again.
func (p *partition) void() {
	p.mu.window, p.mu.bytes, p.mu.runs, p.mu.pending, p.mu.indexes = nil, 0, nil, nil, nil
	p.account()
	p.wake()
}

func (p *partition) wake() {
	for w := range p.mu.waiters {
		w.wake()
	}
}

func (p *partition) credit(bytes int64) {
	for w := range p.mu.waiters {
		w.credit(bytes)
	}
}

// ParseExtents reads a list of extents as messages carry it, that may be left out where it is empty.
func ParseExtents(p []byte) ([]extent.Extent, error) {
	if len(p) == 0 {
		return nil, nil
	}
	return extent.ParseList(p)
}
