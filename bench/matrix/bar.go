package matrix

import (
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/freshet-io/freshet/bench/workloads"
)

// expected is about how long each workload takes, without preparing and catching up.
func (m *matrix) expected() []time.Duration {
	all := make([]time.Duration, len(m.entries))
	for i, e := range m.entries {
		all[i] = m.length(e)
	}
	return all
}

func (m *matrix) length(e workloads.Entry) time.Duration {
	if m.cfg.Scale.Duration > 0 {
		return m.cfg.Scale.Duration
	}
	if e.Kind == workloads.Perf {
		c, err := e.Options()
		if err != nil {
			return 0
		}
		return c.Warmup + c.Backlog + c.Test
	}
	w, err := e.Workload()
	if err != nil {
		return 0
	}
	return w.Warmup() + w.Test()
}

// bar shows how far a run is, in seconds of what is expected. The zero writer shows nothing.
type bar struct {
	show  *progressbar.ProgressBar
	parts []time.Duration
	done  time.Duration // of parts that ended
	stop  chan struct{}
	moves sync.WaitGroup
}

func newBar(to io.Writer, parts []time.Duration) *bar {
	b := &bar{parts: parts}
	if to == nil {
		return b
	}
	var total time.Duration
	for _, p := range parts {
		total += p
	}
	b.show = progressbar.NewOptions64(int64(total.Seconds()), progressbar.OptionSetWriter(to), progressbar.OptionSetElapsedTime(true),
		progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
	return b
}

// begin starts to move through the next part.
func (b *bar) begin(name string) {
	if b.show == nil {
		return
	}
	b.show.Describe(name)
	b.stop = make(chan struct{})
	start, part := time.Now(), b.parts[0]
	b.moves.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-b.stop:
				return
			case <-tick.C:
				_ = b.show.Set64(int64((b.done + min(time.Since(start), part)).Seconds())) // of a terminal
			}
		}
	})
}

// end ends the part.
func (b *bar) end() {
	if b.show == nil {
		return
	}
	close(b.stop)
	b.moves.Wait()
	b.done += b.parts[0]
	b.parts = b.parts[1:]
}

// clear makes room for a line.
func (b *bar) clear() {
	if b.show != nil {
		_ = b.show.Clear() // of a terminal
	}
}
