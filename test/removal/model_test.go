package removal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// The short form: so many seeds of so many steps.
const (
	shortSeeds = 6
	steps      = 250
)

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

// TestRemoval_OnlyWhatMayGo runs random histories against the oracle.
func TestRemoval_OnlyWhatMayGo(t *testing.T) {
	first, seeds := number(t, "FRESHET_REMOVAL_SEED", 1), number(t, "FRESHET_REMOVAL_SEEDS", shortSeeds)
	var sum counts
	for seed := first; seed < first+seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				w.own()
				defer w.stop()
				for range steps {
					w.step()
					synctest.Wait() // for what the owner does next to it
					w.check()
				}
				w.rest()
				sum.add(w.counts)
			})
		})
	}
	t.Logf("%+v", sum)
	if seeds >= shortSeeds {
		require.Positive(t, sum.compacted)
		require.Positive(t, sum.cleaned)
		require.Positive(t, sum.removed, "records that cleaning removed")
		require.Positive(t, sum.retained, "records that retention removed")
		require.Positive(t, sum.refused, "forged outcomes")
		require.Positive(t, sum.harmless)
		require.Positive(t, sum.restored, "topics")
	}
}

// step does one thing.
func (w *world) step() {
	w.t.Helper()
	switch n := w.rng.IntN(100); {
	case n < 30:
		w.produce()
	case n < 38:
		w.begin()
	case n < 46:
		if len(w.open) > 0 {
			w.end(w.open[w.rng.IntN(len(w.open))], w.rng.IntN(2) == 0)
		}
	case n < 54:
		w.pass(time.Duration(1+w.rng.IntN(40)) * time.Second)
	case n < 58:
		w.pass(time.Duration(1+w.rng.IntN(30)) * time.Minute)
	case n < 76:
		if held := w.tasks(); len(held) > 0 {
			w.handIn(held[w.rng.IntN(len(held))])
		}
	case n < 79:
		if held := w.tasks(); len(held) > 0 {
			w.work(held[w.rng.IntN(len(held))]) // handed in later, or never
		}
	case n < 83:
		if held := w.tasks(); len(held) > 0 {
			w.forge(held[w.rng.IntN(len(held))])
		}
	case n < 89:
		w.configure(w.rng, w.apply)
	case n < 91:
		w.deleteRecords()
	case n < 93:
		w.own()
	case n < 95:
		w.clocks()
	case n < 97:
		w.deleteOrRestore()
	case n < 98:
		w.must(&metadata.CloseSession{Session: w.agents[0]})
		w.agents = w.agents[1:]
		w.agent()
	default:
		w.mu.Lock()
		w.kept = w.state.Index()
		w.mu.Unlock()
	}
}

// configure changes a config that retention or cleaning goes by, of a topic or of the cluster.
func (w *world) configure(rng *rand.Rand, apply func(metadata.Command) metadata.Result) {
	hours := func(list ...int) string { return fmt.Sprint(list[rng.IntN(len(list))] * 3_600_000) }
	type config struct{ topic, broker, value string }
	list := []config{
		{"cleanup.policy", "log.cleanup.policy", []string{"compact", "delete", "compact,delete"}[rng.IntN(3)]},
		{"min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", hours(0, 0, 1)},
		{"delete.retention.ms", "log.cleaner.delete.retention.ms", hours(0, 1, 24)},
		{"retention.ms", "log.retention.ms", hours(1, 8, 24*7)},
		{"retention.bytes", "log.retention.bytes", []string{"-1", "-1", "3000"}[rng.IntN(3)]},
	}
	c := list[rng.IntN(len(list))]
	if rng.IntN(4) == 0 || len(w.topics) == 0 {
		apply(&metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{c.broker: c.value}})
		return
	}
	topic := w.topics[rng.IntN(len(w.topics))]
	if rng.IntN(5) == 0 {
		apply(&metadata.SetConfigs{Resource: metadata.ConfigTopic, Topic: topic, Delete: []string{c.topic}})
		return
	}
	apply(&metadata.SetConfigs{Resource: metadata.ConfigTopic, Topic: topic, Set: map[string]string{c.topic: c.value}})
}

func (w *world) deleteRecords() {
	tp, ok := w.partition()
	if !ok {
		return
	}
	marks, _ := w.state.Watermarks(tp)
	offset := marks.LogStart
	if ahead := marks.HighWatermark - marks.LogStart; ahead > 0 {
		offset += w.rng.Int64N(ahead + 1)
	}
	w.must(&metadata.TrimPartitions{Trims: []metadata.Trim{{Partition: tp, Offset: offset}}})
}

// clockSlack is how far the time of commands may be behind the true time: an owner's clock counts while it agrees with the
// store's within so much.
const clockSlack = 30 * time.Second

// clocks sets clocks wrong, or right again. The store's is never ahead.
func (w *world) clocks() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead = 0
	w.bucket.behind.Store(0)
	switch w.rng.IntN(4) {
	case 0:
		w.ahead = time.Duration(w.rng.IntN(24*60)) * time.Minute
	case 1:
		w.bucket.behind.Store(int64(time.Duration(w.rng.IntN(120)) * time.Minute))
	case 2:
		w.ahead = -time.Duration(w.rng.Int64N(int64(clockSlack)))
	}
}

// deleteOrRestore deletes a topic, or takes a deletion back.
func (w *world) deleteOrRestore() {
	if len(w.deleted) > 0 {
		if w.apply(&metadata.UndeleteTopic{ID: w.deleted[0]}).Err == nil {
			w.topics = append(w.topics, w.deleted[0])
			w.counts.restored++
		}
		w.deleted = w.deleted[1:]
		return
	}
	if len(w.topics) > 1 {
		w.must(&metadata.DeleteTopic{ID: w.topics[0], KeepMs: 7 * 24 * 3_600_000})
		w.deleted, w.topics = append(w.deleted, w.topics[0]), w.topics[1:]
	}
}

// rest lets all come to rest, and looks whether what may go has gone.
func (w *world) rest() {
	w.t.Helper()
	w.mu.Lock()
	w.ahead = 0
	w.bucket.behind.Store(0)
	w.held = nil
	w.mu.Unlock()
	for _, topic := range w.topics {
		w.must(&metadata.SetConfigs{Resource: metadata.ConfigTopic, Topic: topic, Set: map[string]string{
			"cleanup.policy": "compact", "min.compaction.lag.ms": "0", "delete.retention.ms": "0", "max.compaction.lag.ms": "60000",
			"min.cleanable.dirty.ratio": "0",
		}})
	}
	for len(w.open) > 0 {
		w.end(w.open[0], false)
	}
	w.pass(2 * time.Hour)
	w.settle()
	w.check()
	for _, tp := range w.oracle.names() {
		if _, ok := w.state.Topic(tp.Topic); ok {
			w.settled(tp)
		}
	}
}

// settled checks that of what was cleaned each key has one record.
func (w *world) settled(tp id.TopicPartition) {
	w.t.Helper()
	cleaned := w.state.CleanedTo(tp)
	keys := map[string]int64{}
	for offset, r := range w.read(w.state, tp).records {
		if offset >= cleaned {
			continue
		}
		require.NotNil(w.t, r.Key, "the record without a key at %d of %s", offset, tp)
		other, twice := keys[string(r.Key)]
		require.False(w.t, twice, "key %s at %d and %d of %s", r.Key, offset, other, tp)
		keys[string(r.Key)] = offset
	}
}
