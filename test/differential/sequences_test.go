package differential

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// Without FRESHET_DIFFERENTIAL_SEQUENCES so many sequences are played, from this seed on.
const (
	shortRun  = 60
	firstSeed = 1
)

// workers play sequences side by side, each in a topic of its own.
const workers = 6

// What both servers are told, so that no answer depends on the time between two requests.
var (
	groupFlags      = []string{"--group-initial-rebalance-delay-ms=0", "--group-consumer-assignment-interval-ms=0"}
	writeFlags      = []string{"--flush-interval=5ms", "--put-budget=5000"}
	kafkaProperties = []string{"group.initial.rebalance.delay.ms=0", "group.consumer.assignment.interval.ms=0"}
)

// TestSequences plays random sequences against `freshet dev` and Apache Kafka.
func TestSequences(t *testing.T) {
	t.Parallel()
	kafka := harness.StartKafka(t, kafkaProperties...)
	dev := harness.StartDev(t, slices.Concat(groupFlags, writeFlags)...)
	servers := [2]*server{
		{name: "freshet", addresses: []string{dev.Bootstrap}}, {name: "kafka", addresses: []string{kafka.Bootstrap}},
	}
	for _, s := range servers {
		s.prepare(t, workers)
	}
	playDirected(t, servers)
	playAll(t, servers, setting(t, "SEQUENCES", shortRun), setting(t, "SEED", firstSeed))
}

// setting reads a number from the environment.
func setting(t *testing.T, name string, or int) int {
	t.Helper()
	text := os.Getenv("FRESHET_DIFFERENTIAL_" + name)
	if text == "" {
		return or
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// tally sums up a run.
type tally struct {
	mu                  sync.Mutex
	sequences, requests int
	passed              []string // differences that a second play did not show
	listed              map[string]int
	failures            map[string][]string // by kind, of each the reports
}

func playAll(t *testing.T, servers [2]*server, sequences, seed int) {
	t.Helper()
	sum := &tally{listed: map[string]int{}, failures: map[string][]string{}}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < sequences; i += workers {
				sum.play(newSequence(uint64(seed+i)), servers, w)
			}
		})
	}
	wg.Wait()
	t.Logf("%d sequences, %d requests, %d differences that a second play did not show\n%s",
		sum.sequences, sum.requests, len(sum.passed), strings.Join(sum.passed, "\n"))
	require.LessOrEqual(t, len(sum.passed), max(2, sequences/50), "servers that answer otherwise each time are not compared")
	for _, reason := range slices.Sorted(maps.Keys(sum.listed)) {
		t.Logf("%d listed: %s", sum.listed[reason], reason)
	}
	for _, kind := range slices.Sorted(maps.Keys(sum.failures)) {
		reports := sum.failures[kind]
		t.Errorf("%d times: %s\n%s", len(reports), kind, slices.MinFunc(reports, func(a, b string) int { return len(a) - len(b) }))
	}
}

// play plays one sequence. A difference counts if a second play shows it, too.
func (sum *tally) play(s sequence, servers [2]*server, worker int) {
	f, p := run(s, servers, worker, nil)
	var report, once string
	if f != nil {
		once = fmt.Sprintf("seed %d: %s", s.seed, f.kind())
		again, _ := run(s, servers, worker, nil)
		if again == nil || again.kind() != f.kind() {
			if third, _ := run(s, servers, worker, nil); third == nil || third.kind() != f.kind() {
				f = nil
			}
		}
	}
	passed := f == nil && p.failed
	if f != nil {
		sum.mu.Lock()
		known := len(sum.failures[f.kind()]) > 0
		sum.mu.Unlock()
		if !known {
			f = shrink(s, f, servers, worker)
		}
		report = fmt.Sprintf("seed %d, step %d\n%s", s.seed, f.step, strings.Join(f.trace, "\n"))
	}
	sum.mu.Lock()
	defer sum.mu.Unlock()
	sum.sequences++
	sum.requests += p.requests
	if passed {
		sum.passed = append(sum.passed, once)
	}
	for reason, n := range p.seen {
		sum.listed[reason] += n
	}
	if f != nil {
		sum.failures[f.kind()] = append(sum.failures[f.kind()], report)
	}
}
