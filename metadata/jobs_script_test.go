package metadata

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// runJob runs the commands of background jobs; false if it is none of them.
func (w *world) runJob(t *testing.T, d *datadriven.TestData) (string, bool) {
	t.Helper()
	switch d.Cmd {
	case "start-job":
		c := &StartJob{
			Kind: job.Compact, Level: uint8(num(t, d, "level", 1)), Runner: id.Session(num(t, d, "runner", 1)),
			First: partitionID(t, arg(d, "first")), Last: partitionID(t, arg(d, "last")),
		}
		if bounds := list(d, "clean"); len(bounds) == 3 {
			c.Kind = job.Clean
			sum, _ := w.state.CleanupConfigs(c.First.Topic)
			c.Clean = &Cleaning{Configs: sum, Bounds: job.Bounds{
				From: atoi(t, bounds[0]), FirstDirty: atoi(t, bounds[1]), To: atoi(t, bounds[2]),
			}}
		}
		for _, in := range list(d, "inputs") {
			c.Inputs = append(c.Inputs, bundleName(t, in))
		}
		return w.apply(t, c), true
	case "complete-job":
		n := id.Session(num(t, d, "job", 0))
		o := outcomeLines(t, n, d.Input)
		return w.apply(t, &CompleteJob{Job: n, Last: d.HasArg("last"), Outcome: job.AppendOutcome(nil, o)}), true
	case "malformed-job":
		return w.apply(t, &CompleteJob{Job: id.Session(num(t, d, "job", 0)), Outcome: []byte(d.Input)}), true
	case "abort-job":
		return w.apply(t, &AbortJob{Job: id.Session(num(t, d, "job", 0))}), true
	case "show-jobs":
		var b strings.Builder
		for j := range w.state.snapshot().Jobs() {
			fmt.Fprintf(&b, "%d %s level %d runner %d over %s/%d to %s/%d inputs %v\n", j.ID, j.Kind, j.Level, j.Runner,
				topicName(j.First.Topic), j.First.Partition, topicName(j.Last.Topic), j.Last.Partition, j.Inputs)
		}
		return b.String(), true
	case "show-levels":
		var b strings.Builder
		for n, i := range w.state.snapshot().Bundles() {
			fmt.Fprintf(&b, "%s level %d made at %d\n", n, i.Level, i.MadeMs)
		}
		return b.String(), true
	}
	return "", false
}

func bundleName(t *testing.T, s string) id.Bundle {
	t.Helper()
	session, n, _ := strings.Cut(s, "/")
	return id.Submission{Session: id.Session(atoi(t, session)), N: uint32(atoi(t, n))}.Bundle()
}

// outcomeLines reads lines "bundle n bytes", "replace topic/partition from to [cleaned=…] [dropped=…]" and for each
// of these "extent base last n position length time".
func outcomeLines(t *testing.T, n id.Session, input string) *job.Outcome {
	t.Helper()
	o := &job.Outcome{}
	for _, line := range strings.Split(input, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		switch f[0] {
		case "bundle":
			o.Bundles = append(o.Bundles, job.Bundle{N: uint32(atoi(t, f[1])), Bytes: uint32(atoi(t, f[2]))})
		case "replace":
			r := job.Replacement{ID: partitionID(t, f[1]), From: atoi(t, f[2]), To: atoi(t, f[3])}
			for _, kv := range f[4:] {
				switch k, v, _ := strings.Cut(kv, "="); k {
				case "cleaned":
					r.CleanedTo = atoi(t, v)
				case "dropped":
					r.DroppedAborted = append(r.DroppedAborted, atoi(t, v))
				}
			}
			o.Partitions = append(o.Partitions, r)
		case "extent":
			r := &o.Partitions[len(o.Partitions)-1]
			r.Extents = append(r.Extents, extent.Extent{
				Base: atoi(t, f[1]), Last: atoi(t, f[2]), Kind: extent.Absolute, Batches: 1,
				Bundle:   id.Submission{Session: n, N: uint32(atoi(t, f[3]))}.Bundle(),
				Position: uint32(atoi(t, f[4])), Length: uint32(atoi(t, f[5])), MaxTimestamp: atoi(t, f[6]),
			})
		}
	}
	return o
}

// randomJob starts, completes or aborts a job over a few partitions.
func randomJob(rng *rand.Rand, s *machine) Command {
	open := slices.Collect(s.Jobs())
	if len(open) == 0 || rng.IntN(3) == 0 {
		return randomStart(rng, s)
	}
	j := open[rng.IntN(len(open))]
	if rng.IntN(8) == 0 {
		return &AbortJob{Job: j.ID}
	}
	return &CompleteJob{Job: j.ID, Last: rng.IntN(2) == 0, Outcome: job.AppendOutcome(nil, randomOutcome(rng, s, j))}
}

func randomStart(rng *rand.Rand, s *machine) *StartJob {
	c := &StartJob{Kind: job.Kind(1 + rng.IntN(2)), Level: uint8(1 + rng.IntN(2)), Runner: id.Session(1 + rng.IntN(6))}
	c.First.Topic, c.Last.Topic = topicID("0"), topicID("9")
	if c.Kind == job.Clean {
		c.First.Topic = topicID(fmt.Sprint(rng.IntN(4)))
		c.First.Partition = rng.Int32N(40)
		c.Last = c.First
		c.Clean = randomCleaning(rng, s, c.First)
		return c
	}
	for b := range s.Bundles() {
		if rng.IntN(3) > 0 {
			c.Inputs = append(c.Inputs, b)
		}
	}
	return c
}

// randomCleaning is for what there is of a partition, now and then under configs that have changed.
func randomCleaning(rng *rand.Rand, s *machine, tp id.TopicPartition) *Cleaning {
	sum, _ := s.CleanupConfigs(tp.Topic)
	c := &Cleaning{Configs: sum + uint64(rng.IntN(8)/7)}
	if exts, _ := s.Extents(tp, 0, 1+rng.IntN(9), 0); len(exts) > 0 {
		c.Bounds = job.Bounds{From: exts[0].Base, FirstDirty: exts[0].Base, To: exts[len(exts)-1].Last}
	}
	return c
}

// randomOutcome replaces runs of the job's extents, some of which have changed since or are wrongly cut.
func randomOutcome(rng *rand.Rand, s *machine, j JobInfo) *job.Outcome {
	o := &job.Outcome{Bundles: []job.Bundle{{N: 1 + rng.Uint32N(3), Bytes: 1 << 30}}}
	name := id.Submission{Session: j.ID, N: o.Bundles[0].N}.Bundle()
	for topic := range 4 {
		for number := range int32(40) {
			tp := id.TopicPartition{Topic: topicID(fmt.Sprint(topic)), Partition: number}
			exts, _ := s.Extents(tp, rng.Int64N(3), 1+rng.IntN(9), 0)
			if !j.Covers(tp) || len(exts) == 0 || rng.IntN(3) == 0 {
				continue
			}
			r := job.Replacement{ID: tp, From: exts[0].Base, To: exts[len(exts)-1].Last, CleanedTo: rng.Int64N(2)}
			r.From -= min(rng.Int64N(20)/19, r.From)
			if j.Kind == job.Clean {
				r.CleanedTo = r.To + 1 - rng.Int64N(2)
			}
			x := extent.Extent{Base: r.From, Last: r.To, Kind: extent.Absolute, Bundle: name, Length: 61, Batches: 1}
			r.Extents = append(r.Extents, x)
			for a := range slices.Values(s.AbortedTransactions(tp, r.From, r.To+1)) {
				if j.Kind == job.Clean && a.Last <= r.To && rng.IntN(2) == 0 {
					r.DroppedAborted = append(r.DroppedAborted, a.Last)
				}
			}
			o.Partitions = append(o.Partitions, r)
		}
	}
	return o
}

// requireWhole checks that extents of every partition follow each other without a hole up to the high watermark.
func requireWhole(t *testing.T, s *machine) {
	t.Helper()
	s.topics.Scan(func(_ string, e *topicEntry) bool {
		e.partitions.Scan(func(_ int32, p *partition) bool {
			next := int64(-1)
			p.extents.Ascend(0, func(x *extent.Extent) bool {
				if next < 0 {
					require.True(t, x.Base <= p.logStart, "the first extent covers the log start")
				} else {
					require.Equal(t, next, x.Base, "no hole")
				}
				next = x.Last + 1
				return true
			})
			require.True(t, next == p.high || next < 0 && p.logStart == p.high, "extents end at %d of %d", next, p.high)
			return true
		})
		return true
	})
}
