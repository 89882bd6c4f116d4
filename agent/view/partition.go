package view

import (
	"errors"
	"fmt"
	"math"
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
	absent  state = iota // nothing is followed; what was known before may still be there, stale
	filling              // a subscribing look-up is under way; notices are kept for its answer
	live                 // subscribed: marks and window follow the notices
	leaving              // an Unsubscribe is being sent
	gone                 // out of the set for good
)

// Bounds of what one partition keeps.
const (
	// maxPending bounds the notices kept while a look-up is under way; more and the window is not opened.
	maxPending = 1024
	// maxRuns bounds the stretches behind the window that are kept for catch-up readers: one each of several groups.
	maxRuns = 8
)

var errNoticeGap = errors.New("notice does not continue the window")

// partition is the window of one partition. Slices of window, aborted and runs are handed out to readers: elements are
// never changed, only appended after or dropped from the front.
type partition struct {
	tp    id.TopicPartition
	total *atomic.Int64 // what all partitions hold

	mu struct {
		sync.Mutex
		state   state
		done    chan struct{} // closed when filling or leaving ends
		pending []*api.PartitionNotice
		indexes []uint64 // of pending
		asked   time.Time
		index   uint64 // of the look-up that opened the window
		marks   Watermarks
		window  []extent.Extent  // contiguous up to the high watermark
		aborted []extent.Aborted // that reach into the window, in the order of their markers
		bytes   int64            // that window names
		runs    []run
		stale   time.Time // not zero: marks, window and runs were true until about then, and have not been followed since
		waiters map[*Waiter]struct{}
		used    time.Time
		held    int // extents and aborted transactions of window and runs, as counted in total
	}
}

// account brings total up to date; call it after window, aborted or runs changed.
func (p *partition) account() {
	held := len(p.mu.window) + len(p.mu.aborted)
	for i := range p.mu.runs {
		held += len(p.mu.runs[i].extents) + len(p.mu.runs[i].aborted)
	}
	p.total.Add(int64(held - p.mu.held))
	p.mu.held = held
}

// answer is one partition's look-up answer.
type answer struct {
	unknown bool
	more    bool // extents end below the high watermark
	marks   Watermarks
	run
}

func parseAnswer(a *api.PartitionAnswer) (*answer, error) {
	if a.GetUnknown() {
		return &answer{unknown: true}, nil
	}
	exts, err := ParseExtents(a.GetExtents())
	if err != nil {
		return nil, err
	}
	aborted, err := parseAborted(a.GetAborted())
	if err != nil {
		return nil, err
	}
	marks := Watermarks{LogStart: a.GetLogStart(), HighWatermark: a.GetHighWatermark(), LastStable: a.GetLastStable()}
	return &answer{more: a.GetMore(), marks: marks, run: run{extents: exts, aborted: aborted, stable: marks.LastStable}}, nil
}

// open begins the window with a look-up's answer: its extents are the window if they reach the high watermark, and
// else a run behind it. What was known before gives way.
func (p *partition) open(index uint64, asked time.Time, a *answer, cfg *Config) {
	p.mu.index, p.mu.asked, p.mu.marks, p.mu.stale = index, asked, a.marks, time.Time{}
	p.forget()
	if a.more {
		p.keepRun(a.run, cfg.MaxExtents)
		return
	}
	p.mu.window, p.mu.aborted = a.extents, a.aborted
	for i := range a.extents {
		p.mu.bytes += int64(a.extents[i].Length)
	}
	p.account()
}

// keepRun remembers extents behind the window.
func (p *partition) keepRun(r run, maxExtents int) {
	if len(r.extents) == 0 || p.total.Load() > int64(maxExtents) {
		return
	}
	if len(p.mu.runs) >= maxRuns {
		p.mu.runs = slices.Delete(p.mu.runs, 0, 1)
	}
	p.mu.runs = append(p.mu.runs, r)
	p.account()
}

// start is the first offset of the window.
func (p *partition) start() int64 {
	if len(p.mu.window) == 0 {
		return p.mu.marks.HighWatermark
	}
	return p.mu.window[0].Base
}

// behind finds a kept run that holds the offset; nil if there is none.
func (p *partition) behind(offset int64, committed bool) *run {
	for i := range p.mu.runs {
		if r := p.mu.runs[i]; r.holds(offset, committed) {
			p.mu.runs = append(slices.Delete(p.mu.runs, i, i+1), r) // most recently used last
			return &p.mu.runs[len(p.mu.runs)-1]
		}
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
	aborted, err := parseAborted(n.GetAborted())
	if err != nil {
		return fmt.Errorf("parse notice: %w", err)
	}
	before := p.mu.marks
	next, added := before.HighWatermark, int64(0)
	for i := range exts {
		if exts[i].Base != next {
			return errNoticeGap
		}
		next, added = exts[i].Last+1, added+Size(&exts[i])
	}
	if next != n.GetHighWatermark() {
		return errNoticeGap
	}
	if len(aborted) > 0 && (aborted[0].Last < before.HighWatermark || aborted[len(aborted)-1].Last >= next) {
		return errNoticeGap // their markers are among the extents
	}
	p.mu.marks = Watermarks{
		LogStart: n.GetLogStart(), HighWatermark: n.GetHighWatermark(), LastStable: n.GetLastStable(),
	}
	for i := range exts {
		p.mu.bytes += int64(exts[i].Length)
	}
	p.mu.window, p.mu.aborted = append(p.mu.window, exts...), append(p.mu.aborted, aborted...)
	p.tell(before, added)
	p.trim(cfg, m)
	p.account()
	return nil
}

// tell wakes those who wait for what a notice brought; before are the marks until then.
func (p *partition) tell(before Watermarks, added int64) {
	if len(p.mu.waiters) == 0 {
		return
	}
	if p.mu.marks.LogStart != before.LogStart && added == 0 {
		p.wake()
		return
	}
	decided := added
	if p.mu.marks.LastStable != p.mu.marks.HighWatermark || before.LastStable != before.HighWatermark {
		decided = p.decided(before.LastStable)
	}
	for w := range p.mu.waiters {
		if w.committed {
			w.credit(decided)
		} else {
			w.credit(added)
		}
	}
}

// decided is how many bytes the last stable offset has passed on its way from an earlier one, extents counted whole;
// plenty if the window does not reach back so far.
func (p *partition) decided(since int64) (bytes int64) {
	switch {
	case p.mu.marks.LastStable <= since:
		return 0
	case since < p.start():
		return math.MaxInt32
	}
	for exts := from(p.mu.window, since); len(exts) > 0 && exts[0].Base < p.mu.marks.LastStable; exts = exts[1:] {
		bytes += Size(&exts[0])
	}
	return bytes
}

// windowBytes bounds the record bytes that the extents of one partition's window name.
const windowBytes = 64 << 20

// trim drops from the window's front what is below the log start or over the bounds.
func (p *partition) trim(cfg *Config, m *metrics) {
	n, window := 0, cfg.WindowExtents
	if p.total.Load() > int64(cfg.MaxExtents) {
		window = 1
	}
	for n < len(p.mu.window) {
		e := &p.mu.window[n]
		over := len(p.mu.window)-n > window || p.mu.bytes > windowBytes && n < len(p.mu.window)-1
		if e.Last >= p.mu.marks.LogStart && !over {
			break
		}
		p.mu.bytes -= int64(e.Length)
		n++
	}
	if n > 0 {
		m.trimmed.Add(float64(n))
		p.mu.window = p.mu.window[n:]
		p.mu.aborted = reaching(p.mu.aborted, p.start())
	}
}

// void forgets what is known and wakes who waits, to look again.
func (p *partition) void() {
	p.mu.pending, p.mu.indexes, p.mu.stale = nil, nil, time.Time{}
	p.forget()
	p.wake()
}

// forget drops what is named by window and runs.
func (p *partition) forget() {
	p.mu.window, p.mu.aborted, p.mu.bytes, p.mu.runs = nil, nil, 0, nil
	p.account()
}

func (p *partition) wake() {
	for w := range p.mu.waiters {
		w.wake()
	}
}

// ParseExtents reads a list of extents as messages carry it, that may be left out where it is empty.
func ParseExtents(p []byte) ([]extent.Extent, error) {
	if len(p) == 0 {
		return nil, nil
	}
	return extent.ParseList(p)
}
