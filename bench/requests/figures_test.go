package requests

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/freshet-io/freshet/objstore"
)

// figures are what a run came to.
type figures struct {
	load        workload
	counts      counts
	written     int64   // bytes committed
	bundles     int64   // committed
	bundleBytes float64 // of a bundle, while the load went on
	hedges      [objstore.NumOps]int64
	inputs      [kinds]int64  // bytes of the inputs of jobs that began, by what they write
	took        time.Duration // of this machine's time
}

func (w *world) figures() figures {
	f := figures{load: w.load, counts: w.counts(), written: w.written.Load(), bundles: w.bundles.Load()}
	for k := range f.inputs {
		f.inputs[k] = w.inputs[k].Load()
	}
	for _, a := range w.agents {
		for _, op := range []objstore.Op{objstore.OpPut, objstore.OpGet} {
			f.hedges[op] += a.hedges(op)
		}
	}
	return f
}

// hedges counts second attempts.
func (a *agent) hedges(op objstore.Op) (n int64) {
	families, err := a.registry.Gather()
	if err != nil {
		a.w.t.Error(err)
	}
	for _, f := range families {
		if f.GetName() != "freshet_objstore_hedges_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == op.String() {
				n += int64(m.GetCounter().GetValue())
			}
		}
	}
	return n
}

func (f figures) sub(earlier figures) figures {
	f.counts = f.counts.sub(earlier.counts)
	f.written -= earlier.written
	f.bundles -= earlier.bundles
	for k := range f.inputs {
		f.inputs[k] -= earlier.inputs[k]
	}
	for op := range f.hedges {
		f.hedges[op] -= earlier.hedges[op]
	}
	return f
}

// uploaded is what jobs wrote of a kind, bytes.
func (f *figures) uploaded(k kind) int64 {
	c := &f.counts.agents[k]
	return c[objstore.OpPut].Bytes + c[objstore.OpPutPart].Bytes
}

// perSecond is so many requests for so many bytes, at the load's rate.
func (f *figures) perSecond(requests int64, bytes float64) float64 {
	return float64(requests) / max(bytes, 1) * float64(f.load.rate)
}

// forBundles is so many requests for all bundles, a second.
func (f *figures) forBundles(requests int64) float64 {
	return f.perSecond(requests, float64(f.bundles)*f.bundleBytes)
}

// liveGets counts the GETs of what consumers read at the live edge, but for second attempts.
func (f *figures) liveGets() int64 {
	return f.counts.agents[fresh][objstore.OpGet].Requests - f.hedges[objstore.OpGet]
}

// line is a line of the table: requests a second charged as PUTs and as GETs.
type line struct {
	name       string
	puts, gets float64
}

// table is what both halves of a load come to together.
type table struct {
	lines  []line
	hedged line // of them made twice, of bundles and live reads
	once   line // bundles and live reads without those
}

// compose takes from the live half agents' bundles and what reads them, from the other all else: the PUTs of each level by
// the byte that it wrote and its GETs by the byte of its inputs, since in the long run each rewrites every byte once, and what
// the control plane asks for by time.
func compose(live, jobs *figures) table {
	c := &live.counts.agents[fresh]
	twice := line{"made twice", live.forBundles(live.hedges[objstore.OpPut]), live.forBundles(live.hedges[objstore.OpGet])}
	once := line{"bundles and live reads", live.forBundles(live.bundles), live.forBundles(live.liveGets())}
	t := table{hedged: twice, once: once, lines: []line{
		{"bundles", once.puts, 0},
		{"reads at the live edge", 0, once.gets},
		{"hedges of both", twice.puts, twice.gets + live.forBundles(c[objstore.OpHead].Requests)},
	}}
	for level := first; level <= second; level++ {
		bytes := float64(jobs.uploaded(level))
		t.lines = append(t.lines, line{
			fmt.Sprintf("compaction, level %d", level), jobs.perSecond(puts(jobs.counts.agents[level]), bytes),
			jobs.perSecond(jobs.counts.agents[level-1][objstore.OpGet].Requests, float64(jobs.inputs[level])),
		})
	}
	seconds := jobs.load.length.Seconds()
	t.lines = append(t.lines, line{
		"snapshots", float64(puts(jobs.counts.control)) / seconds, float64(gets(jobs.counts.control)) / seconds,
	})
	return t
}

// total sums the lines.
func (t *table) total() (sum line) {
	sum.name = "in all"
	for _, l := range t.lines {
		sum.puts += l.puts
		sum.gets += l.gets
	}
	return sum
}

// hedgeShare is the share of requests that is made twice at most.
const hedgeShare = 0.05

// most is the total if that share were, which a short run may not come to.
func (t *table) most() line {
	sum := t.total()
	return line{
		"in all, with all hedges", sum.puts + max(t.once.puts*hedgeShare-t.hedged.puts, 0),
		sum.gets + max(t.once.gets*hedgeShare-t.hedged.gets, 0),
	}
}

func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %-23s | PUT/s | GET/s |\n|---|---|---|\n", "requests")
	for _, l := range append(slices.Clone(t.lines), t.total(), t.most()) {
		fmt.Fprintf(&b, "| %-23s | %5.1f | %5.1f |\n", l.name, l.puts, l.gets)
	}
	return b.String()
}

// steady tells how far the jobs kept up: what each level wrote for each byte that came.
func (f *figures) steady() string {
	return fmt.Sprintf("level 1 wrote %.2f and level 2 %.2f of what came",
		float64(f.uploaded(first))/float64(f.written), float64(f.uploaded(second))/float64(f.written))
}
