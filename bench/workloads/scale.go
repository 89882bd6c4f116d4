package workloads

import (
	"math"
	"strings"
	"time"

	"github.com/freshet-io/freshet/bench/omb"
	"github.com/freshet-io/freshet/bench/perf"
)

// Scale says how small a workload is made.
//
// Factor shrinks how much happens at once: rates, producers and consumers, each to at least one. What makes the
// workload's shape stays: topics, partitions, subscriptions, message size, keys and payloads. Where topics have lists of
// producers, all entries shrink alike, none below one, so that their proportions stay.
//
// Duration is the length of all phases together: warm-up, building a backlog, test. They are compressed in proportion; but
// a warm-up gets at least a twentieth, and, above all, the test at least half. The size of a backlog is what the scaled rate
// makes of it in its time, a curve of rates is compressed as a whole, and a curve by the time of day begins at midnight.
// How long catching up takes is not part of it: that is for the system to show.
type Scale struct {
	Factor   float64       // 0 and 1 keep the published size
	Duration time.Duration // 0 keeps the published lengths
}

const (
	leastTest   = 2  // the test gets at least one part in so many
	leastWarmup = 20 // likewise
)

// phases are the lengths of a workload's parts.
type phases struct{ warmup, backlog, test time.Duration }

func (p phases) total() time.Duration { return p.warmup + p.backlog + p.test }

// into compresses, or stretches, phases to a length.
func (p phases) into(length time.Duration) phases {
	share := float64(length) / float64(p.total())
	scaled := phases{warmup: times(p.warmup, share), backlog: times(p.backlog, share)}
	if p.warmup > 0 {
		scaled.warmup = max(scaled.warmup, length/leastWarmup)
	}
	most := length - length/leastTest
	if before := scaled.warmup + scaled.backlog; before > most {
		shrink := float64(most) / float64(before)
		scaled.warmup, scaled.backlog = times(scaled.warmup, shrink), times(scaled.backlog, shrink)
	}
	scaled.test = length - scaled.warmup - scaled.backlog
	return scaled
}

func times(d time.Duration, x float64) time.Duration {
	return time.Duration(math.Round(float64(d) * x))
}

func (s Scale) factor() float64 {
	if s.Factor == 0 {
		return 1
	}
	return s.Factor
}

// count scales a number of clients.
func (s Scale) count(n int) int {
	return max(min(n, 1), int(math.Round(float64(n)*s.factor())))
}

// counts scales a list of numbers of clients alike, so that none falls below one.
func (s Scale) counts(list []int) []int {
	if len(list) == 0 {
		return list
	}
	factor := s.factor()
	for _, n := range list {
		factor = max(factor, min(1, 1/float64(n)))
	}
	scaled := make([]int, len(list))
	for i, n := range list {
		scaled[i] = int(math.Round(float64(n) * factor))
	}
	return scaled
}

// Workload makes a workload of the OpenMessaging Benchmark small, and tells original and effective values.
func (s Scale) Workload(w omb.Workload) (omb.Workload, []Setting) {
	scaled := w
	scaled.ProducersPerTopic, scaled.ProducersPerTopicList = s.count(w.ProducersPerTopic), s.counts(w.ProducersPerTopicList)
	scaled.ConsumerPerSubscription = s.count(w.ConsumerPerSubscription)
	scaled.ProducerRate = w.ProducerRate * s.factor()
	bytesPerSecond := w.ProducerRate * float64(w.MessageSize*w.SubscriptionsPerTopic) // that a backlog grows by
	original := phases{warmup: w.Warmup(), test: w.Test()}
	if w.ConsumerBacklogSizeGB > 0 {
		original.backlog = time.Duration(w.ConsumerBacklogSizeGB * gibibyte / bytesPerSecond * float64(time.Second))
	}
	effective := original
	if s.Duration > 0 && original.test > 0 {
		effective = original.into(s.Duration)
		scaled.WarmupDurationMinutes, scaled.TestDurationMinutes = effective.warmup.Minutes(), effective.test.Minutes()
		scaled.LogIntervalMillis = int(interval(w.Interval(), effective.test).Milliseconds())
	}
	scaled.ConsumerBacklogSizeGB = effective.backlog.Seconds() * bytesPerSecond * s.factor() / gibibyte
	scaled.ProducerRateList = s.curve(w.ProducerRateList, original.total(), effective.total())
	return scaled, settingsOfWorkload(w, scaled)
}

const (
	gibibyte       = 1 << 30
	fewestPeriods  = 30
	shortestPeriod = time.Second
)

// interval is the time between statistics: a test has at least so many periods, unless they were very short.
func interval(original, test time.Duration) time.Duration {
	return min(original, max(shortestPeriod, (test/fewestPeriods).Truncate(time.Second)))
}

// curve scales a producerRateList. Its points become minutes since the start of the load.
func (s Scale) curve(list [][]float64, original, effective time.Duration) [][]float64 {
	if s.Duration == 0 || len(list) == 0 {
		return s.rates(list)
	}
	if len(list[0]) == timeOfDay {
		list = sinceMidnight(list, original.Minutes())
	}
	scaled := s.rates(list)
	for i := range scaled {
		scaled[i][0] *= float64(effective) / float64(original)
	}
	return scaled
}

func (s Scale) rates(list [][]float64) [][]float64 {
	var scaled [][]float64
	for _, point := range list {
		point = append([]float64(nil), point...)
		point[len(point)-1] *= s.factor()
		scaled = append(scaled, point)
	}
	return scaled
}

const (
	timeOfDay     = 3 // numbers in a point that is hour, minute, rate
	minutesOfDay  = 24 * 60
	minutesOfHour = 60
)

// sinceMidnight turns points of a day, which comes again and again, into points since a midnight, over so many minutes.
func sinceMidnight(list [][]float64, over float64) [][]float64 {
	type point struct{ at, rate float64 }
	day := make([]point, len(list))
	for i, p := range list {
		day[i] = point{p[0]*minutesOfHour + p[1], p[2]}
	}
	first, last := day[0], day[len(day)-1]
	night := first.at + minutesOfDay - last.at // from the last point to the first of the next day
	points := [][]float64{{0, last.rate + (first.rate-last.rate)*(minutesOfDay-last.at)/night}}
	for midnight := 0.0; midnight <= over; midnight += minutesOfDay {
		for _, p := range day {
			points = append(points, []float64{midnight + p.at, p.rate})
		}
	}
	return points
}

// Options makes a performance test small, and tells original and effective values.
func (s Scale) Options(c perf.Config) (perf.Config, []Setting) {
	c.ApplyDefaults()
	scaled := c
	scaled.SendThroughput = 0 // SendRate is what counts
	scaled.SendRate, scaled.CatchupRate = s.count(c.SendRate), s.count(c.CatchupRate)
	scaled.Producers, scaled.Consumers = s.count(c.Producers), s.count(c.Consumers)
	if s.Duration > 0 {
		original := phases{warmup: c.Warmup, backlog: c.Backlog, test: c.Test}
		effective := original.into(s.Duration)
		scaled.Warmup, scaled.Backlog, scaled.Test = effective.warmup, effective.backlog, effective.test
		scaled.MinBacklog = 0
		if c.Backlog > 0 {
			scaled.GroupDelay = times(c.GroupDelay, float64(effective.backlog)/float64(c.Backlog))
		}
	}
	return scaled, settingsOfPerf(c, scaled)
}

// Text gives settings as lines of comment, for those that changed.
func Text(settings []Setting) string {
	var b strings.Builder
	for _, v := range settings {
		if v.Original != v.Effective {
			b.WriteString("# " + v.Name + ": " + v.Original + " -> " + v.Effective + "\n")
		}
	}
	return b.String()
}
