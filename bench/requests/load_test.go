package requests

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// workload is what is written and read, by whom.
type workload struct {
	rate       int64 // bytes a second on the wire
	zones      int
	agents     int // of all zones
	partitions int32
	batch      int // bytes, as a producer sends it
	bundle     int // bytes of a full one
	part       int // bytes of an upload's parts
	inFlight   int // parts of an upload side by side
	fanout     int // groups in each zone that read everything

	live, jobs bool          // which half runs
	planning   time.Duration // between the planner's rounds where no job ends; 0: its default
	warmUp     time.Duration // before anything is counted
	length     time.Duration // of what is counted
}

// published is WarpStream's load: 1 GiB/s, of which 490 MiB/s are on the wire, in 288 partitions, batches of at most
// 100,000 bytes before compression, on six agents.
func published(bundle int) workload {
	return workload{
		rate: 490 << 20, zones: 3, agents: 6, partitions: 288, batch: 50_000, bundle: bundle, part: 64 << 20,
		inFlight: 4, fanout: 1,
	}
}

// run lets the load run in a bubble.
func (l workload) run(t *testing.T) (f figures) {
	t.Helper()
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		w, stop := newWorld(t, l)
		stopAgents := w.startAgents()
		f = w.measure()
		synctest.Wait()
		time.Sleep(lateAttempts) // sleeps: as above
		stopAgents()
		stop()
	})
	f.took = time.Since(began)
	return f
}

// lateAttempts is how long hedged requests that lost, and pauses, may still take.
const lateAttempts = 10 * time.Second

// measure drives the load and gives what was counted while it went on. Of the live half requests are counted up to the
// last read, and how much is in a bundle while it went on: some are short before and behind.
func (w *world) measure() figures {
	ctx, cancel := context.WithCancel(w.t.Context())
	var producers sync.WaitGroup
	for _, a := range w.agents {
		producers.Go(func() { a.produce(ctx, float64(w.load.rate)/float64(w.load.agents)) })
	}
	time.Sleep(w.load.warmUp) // sleeps: in a synctest bubble, whose clock it drives
	before := w.figures()
	time.Sleep(w.load.length) // sleeps: as above
	f := w.figures().sub(before)
	f.bundleBytes = float64(f.written) / float64(f.bundles)
	cancel()
	producers.Wait()
	for _, a := range w.agents {
		require.NoError(w.t, a.writer.Drain(context.Background()))
	}
	w.reads.Wait()
	if w.load.live {
		require.Equal(w.t, w.written.Load()*int64(w.load.zones*w.load.fanout), w.read.Load(), "every group reads everything")
		whole := w.figures()
		whole.bundleBytes = f.bundleBytes
		return whole
	}
	return f
}
