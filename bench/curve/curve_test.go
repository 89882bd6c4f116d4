package curve

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	plan "github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// load is what agents commit.
type load struct {
	name       string
	partitions int     // of the one topic
	sections   int     // of each bundle: so many partitions, chosen evenly, one batch each
	rate       float64 // bundles a second
	bundle     int     // bytes
	length     time.Duration
	retention  time.Duration // 0: for ever
	runners    int
	speed      int64 // bytes of input a second, of one runner
	maxExtents int64 // the bound of live extents
	settings   plan.Settings
}

// defaultExtents is the bound of live extents by default.
const defaultExtents = 4 << 20

// samples are taken at equal distances.
const samples = 12

// promised is how many KiB of metadata there are for each GiB of records at most, at 288 and at 4,608 partitions.
const promised = 4

// full runs the loads in their whole length.
func full() bool { return os.Getenv("FRESHET_CURVE") != "" }

// busy is 24 bundles a second: three zones of two agents that fill theirs.
func busy(partitions, sections int, length, retention time.Duration) load {
	return load{
		name: fmt.Sprintf("%d partitions", partitions), partitions: partitions, sections: sections, rate: 24, bundle: 8 << 20,
		length: length, retention: retention, runners: 6, speed: 100 << 20, maxExtents: defaultExtents,
	}
}

// TestCurve_Busy: 24 bundles a second over 288 partitions, all in each.
func TestCurve_Busy(t *testing.T) {
	t.Parallel()
	l := busy(288, 288, 6*time.Hour, 3*time.Hour)
	if !full() {
		l = busy(96, 32, 8*time.Minute, 2*time.Minute)
	}
	last := l.bounded(t)
	if full() {
		require.Less(t, last.perGiB(), float64(promised))
	}
}

// TestCurve_Slow: a bundle a second with 64 partitions each for seven days, of which three are kept.
func TestCurve_Slow(t *testing.T) {
	t.Parallel()
	l := load{
		name: "one bundle a second", partitions: 64, sections: 64, rate: 1, bundle: 8 << 20, length: 7 * 24 * time.Hour,
		retention: 3 * 24 * time.Hour, runners: 2, speed: 100 << 20, maxExtents: defaultExtents,
	}
	if !full() {
		l.length, l.retention = time.Hour, 15*time.Minute
	}
	last := l.bounded(t)
	if full() {
		require.Less(t, last.perGiB(), float64(promised))
	}
}

// TestCurve_ManyActivePartitions: partitions that get a batch in half a minute make as many extents as bundles have
// sections, and the first level merges few of them. The second takes them before commits are slowed for their number: in
// full, a sixteenth of 100,000 partitions at 192 MiB/s, which lie in as many bundles as a job takes after half of the time;
// else a 64th of it, four times as fast, where extents come to half of their bound before.
func TestCurve_ManyActivePartitions(t *testing.T) {
	t.Parallel()
	l := load{
		name: "many active partitions", partitions: 100_000 / 64, sections: 8, rate: 24, bundle: 512 << 10, length: 8 * time.Minute,
		runners: 6, speed: 100 << 20, maxExtents: defaultExtents / 64,
	}
	if full() {
		l.partitions, l.length, l.maxExtents = 100_000/16, 24*time.Minute, defaultExtents/16
	}
	list := l.collect(t)
	for _, s := range list {
		require.Less(t, s.share(), 0.75, "of the bound of extents, from where on commits are slowed")
	}
	last := list[len(list)-1]
	require.InEpsilon(t, last.written, last.bytes, 0.01, "bytes committed")
	mean := last.levels[2].bytes / int64(last.levels[2].extents)
	require.GreaterOrEqual(t, mean, int64(4*l.bundle/l.sections), "bytes of an extent of level 2")
}

// TestCurve_Partitions prints what ever more partitions cost, after 24 minutes of 24 bundles a second in batches of 64 KiB,
// so that a bundle has 128 of the partitions at most. What matters is the last column: the run is short, levels 0 and 1 and
// dead bundles have come to what they stay at, and only level 2 goes on to grow.
func TestCurve_Partitions(t *testing.T) {
	if !full() {
		t.Skip("only by make bench-curve: it takes minutes")
	}
	var lines strings.Builder
	for _, partitions := range []int{64, 288, 1152, 4608, 16384, 100_000} {
		if n := os.Getenv("FRESHET_CURVE_PARTITIONS"); n != "" && n != strconv.Itoa(partitions) {
			continue
		}
		list := busy(partitions, min(partitions, 128), 24*time.Minute, 0).collect(t)
		last := list[samples-1]
		fmt.Fprintf(&lines, "%10d %s\n", partitions, last)
		if partitions == 288 || partitions == 4608 {
			require.Less(t, last.afterSixHours(), float64(promised), "KiB of metadata for each GiB in %d partitions", partitions)
		}
		for _, s := range list {
			require.Less(t, s.share(), 0.75, "of the bound of extents after %v, with %d partitions", s.at, partitions)
		}
	}
	t.Logf("\npartitions %s\n%s", header, &lines)
}

// sample is what there is at a moment.
type sample struct {
	load      load
	at        time.Duration
	bytes     int64 // of live extents
	levels    [3]level
	dead      int
	jobs      int
	snapshot  int64
	rewritten int64
	written   int64
}

// level is what bundles of one level hold.
type level struct {
	bundles, extents int
	bytes            int64 // of records
	encoded          int64 // bytes of the extents in a snapshot
}

// share is that of the bound of extents.
func (s sample) share() float64 {
	return float64(s.levels[0].extents+s.levels[1].extents+s.levels[2].extents) / float64(s.load.maxExtents)
}

// perGiB is the metadata in KiB for each GiB of records.
func (s sample) perGiB() float64 { return float64(s.snapshot) / 1024 / (float64(s.bytes) / (1 << 30)) }

// history is the same of the extents of level 2 alone: what each further GiB costs for as long as it is kept. The rest is
// bounded: levels 0 and 1 by the planner's thresholds, dead bundles by their grace.
func (s sample) history() float64 {
	return float64(s.levels[2].encoded) / 1024 / (float64(max(s.levels[2].bytes, 1)) / (1 << 30))
}

// afterSixHours is what perGiB comes to when a load has gone on for six hours and all is kept.
func (s sample) afterSixHours() float64 {
	gib := s.load.rate * (6 * time.Hour).Seconds() * float64(s.load.bundle) / (1 << 30)
	return s.history() + float64(s.snapshot-s.levels[2].encoded)/1024/gib
}

const header = "      at     GiB |  level 0, 1, 2: extents |    their KiB of snapshot |      bundles |  dead jobs rewritten | snapshot KiB |  KiB/GiB | of level 2 | after 6 h"

func (s sample) String() string {
	l := &s.levels
	return fmt.Sprintf("%8s %7.0f | %7d %7d %7d | %7d %7d %8d | %4d %3d %4d | %5d %4d %8.2fx | %12d | %8.2f | %10.2f | %9.2f",
		s.at.Round(time.Second), float64(s.bytes)/(1<<30), l[0].extents, l[1].extents, l[2].extents,
		l[0].encoded>>10, l[1].encoded>>10, l[2].encoded>>10, l[0].bundles, l[1].bundles, l[2].bundles,
		s.dead, s.jobs, float64(s.rewritten)/float64(s.written), s.snapshot>>10, s.perGiB(), s.history(), s.afterSixHours())
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// sample looks at everything, and checks that no offset is without an extent.
func (w *world) sample(end time.Time) sample {
	s := sample{load: w.load, at: w.load.length - time.Until(end)}
	var frozen *metadata.State
	_, err := w.owner.ReadFrozen(func(f *metadata.State) { frozen = f })
	require.NoError(w.t, err)
	for p := range int32(w.load.partitions) {
		w.look(frozen, id.TopicPartition{Topic: topic, Partition: p}, &s)
	}
	for _, b := range frozen.Bundles() {
		s.levels[b.Level].bundles++
	}
	for range frozen.DeadBundles() {
		s.dead++
	}
	for range frozen.Jobs() {
		s.jobs++
	}
	var size counter
	require.NoError(w.t, frozen.Encode(&size))
	s.snapshot = int64(size)
	w.mu.Lock()
	defer w.mu.Unlock()
	s.rewritten = w.mu.rewritten
	s.written = int64(w.load.rate * s.at.Seconds() * float64(w.load.bundle))
	return s
}

func (w *world) look(f *metadata.State, tp id.TopicPartition, s *sample) {
	marks, ok := f.Watermarks(tp)
	if !ok || marks.HighWatermark == 0 {
		return
	}
	next := int64(-1)
	var e extent.Encoder
	var encoded []byte
	f.AscendExtents(tp, marks.LogStart, func(x *extent.Extent) bool {
		if next >= 0 && x.Base != next || next < 0 && x.Base > marks.LogStart {
			w.t.Errorf("%s: an extent begins at %d, the one before it ends at %d", tp, x.Base, next)
		}
		next = x.Last + 1
		level, live := f.BundleLevel(x.Bundle)
		if !live {
			w.t.Errorf("%s: extent at %d in bundle %s, which is not live", tp, x.Base, x.Bundle)
		}
		encoded = e.Append(encoded[:0], x)
		l := &s.levels[level]
		l.extents++
		l.bytes += int64(x.Length)
		l.encoded += int64(len(encoded))
		s.bytes += int64(x.Length)
		return true
	})
	if next != marks.HighWatermark {
		w.t.Errorf("%s: extents end at %d, the high watermark is %d", tp, next, marks.HighWatermark)
	}
}

func retentionMs(d time.Duration) string {
	if d == 0 {
		return "-1"
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

// collect runs a load and prints its samples.
func (l load) collect(t *testing.T) (list []sample) {
	t.Helper()
	began := time.Now()
	var lines strings.Builder
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		l.run(t, func(s sample) {
			list = append(list, s)
			fmt.Fprintln(&lines, s)
		})
	})
	t.Logf("%s, %d in a bundle of %d MiB, %v bundles a second for %v, kept %v; %v\n%s\n%s", l.name, l.sections, l.bundle>>20, l.rate, l.length,
		l.retention, time.Since(began).Round(time.Second), header, &lines)
	return list
}

// bounded runs a load and holds it to this, once retention takes away what comes: there is no more of anything at the end
// than there was before, each byte is rewritten at most twice, and jobs and garbage do not pile up.
func (l load) bounded(t *testing.T) sample {
	t.Helper()
	list := l.collect(t)
	require.Len(t, list, samples)
	steady := list[samples/2 : samples-2]
	last := list[samples-1]
	fresh := 64 * l.sections // extents that wait for a job at any time
	bound := func(what string, slack int, of func(sample) int) {
		most := 0
		for _, s := range steady {
			most = max(most, of(s))
		}
		require.LessOrEqual(t, of(last), most+most/2+slack, what)
	}
	bound("extents", fresh, func(s sample) int { return s.levels[0].extents + s.levels[1].extents + s.levels[2].extents })
	bound("bundles", 64, func(s sample) int { return s.levels[0].bundles + s.levels[1].bundles + s.levels[2].bundles })
	bound("bytes of a snapshot", 16*fresh, func(s sample) int { return int(s.snapshot) })
	bound("dead bundles", 1000, func(s sample) int { return s.dead })
	require.NotZero(t, last.levels[2].extents, "of level 2")
	for _, s := range list {
		require.LessOrEqual(t, s.jobs, l.runners, "open jobs")
		require.LessOrEqual(t, s.rewritten, 2*s.written, "bytes rewritten")
		require.Less(t, s.levels[0].bundles, 2*64+int(l.rate*60), "bundles of level 0: what comes while a job runs")
	}
	return last
}
