package metadata

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// cleanable is a state with a compacted topic t, of whose partition 0 three bundles with ten records each lie in one
// extent each, and a topic u under the cluster's defaults.
type cleanable struct {
	t *testing.T
	*machine
	tp id.TopicPartition
}

func newCleanable(t *testing.T) *cleanable {
	t.Helper()
	c := &cleanable{t: t, machine: newMachine(), tp: id.TopicPartition{Topic: topicID("t")}}
	c.must(&CreateTopic{ID: topicID("t"), Name: "t", Partitions: 2, Configs: map[string]string{"cleanup.policy": "compact"}})
	c.must(&CreateTopic{ID: topicID("u"), Name: "u", Partitions: 1})
	c.must(&OpenSession{Instance: "a"})
	for n := range uint32(3) {
		c.now = int64(n+1) * 1000
		c.must(commitOf(1, n+1, n, section{"t", 0, []commit.Batch{{Records: 10, Bytes: 100, MaxTimestamp: int64(10 * n), ProducerID: -1}}}))
	}
	return c
}

func (c *cleanable) apply(command Command) Result {
	return c.Apply(c.index+1, &Batch{Now: c.now, Commands: []Command{command}}, nil, nil)[0]
}

func (c *cleanable) must(command Command) any {
	c.t.Helper()
	r := c.apply(command)
	require.NoError(c.t, r.Err)
	return r.Value
}

// start is for a cleaning of all there is in the partition.
func (c *cleanable) start() *StartJob {
	sum, ok := c.CleanupConfigs(c.tp.Topic)
	require.True(c.t, ok)
	return &StartJob{Kind: job.Clean, Level: 2, Runner: 1, First: c.tp, Last: c.tp, Clean: &Cleaning{
		Bounds: job.Bounds{From: 0, FirstDirty: 10, To: 29}, Configs: sum,
	}}
}

func (c *cleanable) begin() id.Session {
	c.t.Helper()
	return c.must(c.start()).(id.Session)
}

// outcome replaces the whole partition by one extent.
func (c *cleanable) outcome(n id.Session) *job.Outcome {
	x := extent.Extent{
		Base: 0, Last: 29, Kind: extent.Absolute, Bundle: id.Submission{Session: n, N: 1}.Bundle(), Length: 200, Batches: 2, MaxTimestamp: 20,
	}
	return &job.Outcome{Bundles: []job.Bundle{{N: 1, Bytes: 500}}, Partitions: []job.Replacement{
		{ID: c.tp, From: 0, To: 29, Extents: []extent.Extent{x}, CleanedTo: 30},
	}}
}

func (c *cleanable) complete(n id.Session, o *job.Outcome) Result {
	return c.apply(&CompleteJob{Job: n, Last: true, Outcome: job.AppendOutcome(nil, o)})
}

func (c *cleanable) extents() []extent.Extent {
	exts, _ := c.Extents(c.tp, 0, 0, 0)
	return exts
}

func set(topic id.Topic, name, value string) *SetConfigs {
	return &SetConfigs{Resource: ConfigTopic, Topic: topic, Set: map[string]string{name: value}}
}

func TestCleanupConfigs_AreThoseOfTopics(t *testing.T) {
	for _, c := range cleanupConfigs {
		value := "7"
		if c.topic == topicconfig.CleanupPolicy {
			value = "compact"
		}
		require.Equal(t, value, topicconfig.Effective(nil, map[string]string{c.broker: value}, c.topic), c.topic)
	}
}

func TestSetConfigs_EndsCleanings(t *testing.T) {
	for name, test := range map[string]struct {
		command Command
		ends    bool
	}{
		"policy":                        {set(topicID("t"), "cleanup.policy", "delete"), true},
		"policy deleted":                {&SetConfigs{Resource: ConfigTopic, Topic: topicID("t"), Delete: []string{"cleanup.policy"}}, true},
		"lag":                           {set(topicID("t"), "min.compaction.lag.ms", "1"), true},
		"tombstones":                    {set(topicID("t"), "delete.retention.ms", "1"), true},
		"retention":                     {set(topicID("t"), "retention.ms", "1"), true},
		"the same policy":               {set(topicID("t"), "cleanup.policy", "compact"), false},
		"what cleaning does not go by":  {set(topicID("t"), "max.message.bytes", "1000"), false},
		"another topic":                 {set(topicID("u"), "cleanup.policy", "delete"), false},
		"the cluster's default":         {&SetConfigs{Resource: ConfigBroker, Set: map[string]string{"log.cleaner.min.compaction.lag.ms": "1"}}, true},
		"a default that t does not use": {&SetConfigs{Resource: ConfigBroker, Set: map[string]string{"log.cleanup.policy": "delete"}}, false},
		"one broker's default":          {&SetConfigs{Resource: ConfigBroker, Name: "1", Set: map[string]string{"log.cleaner.min.compaction.lag.ms": "1"}}, false},
		"deletion":                      {&DeleteTopic{ID: topicID("t"), KeepMs: 1000}, true},
		"deletion of another topic":     {&DeleteTopic{ID: topicID("u"), KeepMs: 1000}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCleanable(t)
			n := c.begin()
			compact := c.must(&StartJob{Kind: job.Compact, Level: 1, Runner: 1, First: c.tp, Last: c.tp}).(id.Session)
			before := c.extents()
			c.must(test.command)
			_, open := c.Job(compact)
			require.True(t, open, "records stay in a job that compacts")
			r := c.complete(n, c.outcome(n))
			if !test.ends {
				require.NoError(t, r.Err)
				require.Len(t, c.extents(), 1)
				return
			}
			require.ErrorIs(t, r.Err, ErrUnknownJob)
			if _, there := c.Topic(c.tp.Topic); there {
				require.Equal(t, before, c.extents())
			}
		})
	}
}

func TestStartJob_RefusesCleaningUnderOtherConfigs(t *testing.T) {
	c := newCleanable(t)
	planned := c.start()
	c.must(set(topicID("t"), "cleanup.policy", "delete"))
	require.ErrorIs(t, c.apply(planned).Err, ErrConfigsChanged)
	c.must(set(topicID("t"), "cleanup.policy", "compact"))
	unguarded := *planned
	unguarded.Clean = nil
	require.ErrorIs(t, c.apply(&unguarded).Err, ErrConfigsChanged, "without bounds")
	wide := *planned
	wide.Last.Partition = 1
	require.ErrorIs(t, c.apply(&wide).Err, ErrConfigsChanged, "bounds are of one partition")
	c.must(planned)
	require.ErrorIs(t, c.apply(planned).Err, ErrJobConflict)
}

func TestCompleteJob_HoldsOutcomesToTheJob(t *testing.T) {
	for name, spoil := range map[string]func(o *job.Outcome){
		"from elsewhere": func(o *job.Outcome) { o.Partitions[0].From = 10; o.Partitions[0].Extents[0].Base = 10 },
		"nothing dirty": func(o *job.Outcome) {
			o.Partitions[0].To = 9
			o.Partitions[0].Extents[0].Last = 9
			o.Partitions[0].CleanedTo = 10
		},
		"cleaned nothing":        func(o *job.Outcome) { o.Partitions[0].CleanedTo = 10 },
		"dropped what is dirty":  func(o *job.Outcome) { o.Partitions[0].CleanedTo = 20; o.Partitions[0].DroppedAborted = []int64{20} },
		"two of one partition":   func(o *job.Outcome) { o.Partitions = append(o.Partitions, o.Partitions[0]) },
		"no batch":               func(o *job.Outcome) { o.Partitions[0].Extents[0].Batches = 0 },
		"more batches than fit":  func(o *job.Outcome) { o.Partitions[0].Extents[0].Batches = 4 },
		"size of another object": func(o *job.Outcome) { o.Bundles[0].Bytes = 501 },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCleanable(t)
			n := c.begin()
			before := c.extents()
			if name == "size of another object" {
				c.must(&CompleteJob{Job: n, Outcome: job.AppendOutcome(nil, &job.Outcome{Bundles: []job.Bundle{{N: 1, Bytes: 500}}})})
			}
			o := c.outcome(n)
			spoil(o)
			require.ErrorIs(t, c.complete(n, o).Err, ErrInvalidOutcome)
			require.Equal(t, before, c.extents())
			require.NoError(t, c.complete(n, c.outcome(n)).Err)
		})
	}
	c := newCleanable(t)
	start := c.start()
	start.Clean.To = 19
	n := c.must(start).(id.Session)
	require.ErrorIs(t, c.complete(n, c.outcome(n)).Err, ErrInvalidOutcome, "more than was planned, which may be too young")
}

func TestCompleteJob_CompactKeepsWhatItDoesNotRewrite(t *testing.T) {
	for name, spoil := range map[string]func(o *job.Outcome){
		"cleans": func(o *job.Outcome) { o.Partitions[0].CleanedTo = 1 },
		"drops":  func(o *job.Outcome) { o.Partitions[0].DroppedAborted = []int64{3} },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCleanable(t)
			n := c.compaction()
			o := c.outcome(n)
			o.Partitions[0].CleanedTo = 0
			spoil(o)
			require.ErrorIs(t, c.complete(n, o).Err, ErrInvalidOutcome)
		})
	}
}

func (c *cleanable) compaction() id.Session {
	start := &StartJob{Kind: job.Compact, Level: 1, Runner: 1, First: c.tp, Last: c.tp}
	for n := range uint32(3) {
		start.Inputs = append(start.Inputs, id.Submission{Session: 1, N: n + 1}.Bundle())
	}
	return c.must(start).(id.Session)
}

func TestCompleteJob_HoldsTimestamps(t *testing.T) {
	for _, test := range []struct {
		name       string
		kind       job.Kind
		said, held int64
	}{
		{"compacted, as it is", job.Compact, 20, 20},
		{"compacted, as far as can be said", job.Compact, 1<<63 - 1, 20},
		{"compacted, no timestamp at all", job.Compact, -1, 20},
		{"cleaned, as far as can be said", job.Clean, 1<<63 - 1, 20},
		{"cleaned, the newest record went", job.Clean, 5, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCleanable(t)
			start := c.compaction
			if test.kind == job.Clean {
				start = c.begin
			}
			n := start()
			o := c.outcome(n)
			o.Partitions[0].Extents[0].MaxTimestamp = test.said
			if test.kind == job.Compact {
				o.Partitions[0].CleanedTo = 0
			}
			require.NoError(t, c.complete(n, o).Err)
			require.Equal(t, test.held, c.extents()[0].MaxTimestamp)
			restore(t, c.machine)
		})
	}
}

// Extents of which a part is replaced by each of two are held to what they cover.
func TestCompleteJob_HoldsTimestampsByExtent(t *testing.T) {
	c := newCleanable(t)
	n := c.compaction()
	o := c.outcome(n)
	o.Partitions[0].CleanedTo = 0
	x := o.Partitions[0].Extents[0]
	y := x
	x.Last, x.MaxTimestamp = 14, 100 // all of the first, with time 0, and a half of the second, with time 10
	y.Base, y.Position, y.MaxTimestamp = 15, 200, 0
	o.Partitions[0].Extents = []extent.Extent{x, y}
	require.NoError(t, c.complete(n, o).Err)
	require.EqualValues(t, 10, c.extents()[0].MaxTimestamp)
	require.EqualValues(t, 20, c.extents()[1].MaxTimestamp)
}

func TestRetainPartitions_SkipsChangedConfigs(t *testing.T) {
	c := newCleanable(t)
	retain := func(offset int64) *RetainPartitions {
		sum, _ := c.CleanupConfigs(c.tp.Topic)
		return &RetainPartitions{Trims: []RetentionTrim{{Trim{Partition: c.tp, Offset: offset}, sum}}}
	}
	require.Equal(t, []TrimResult{{LogStart: 10}}, c.must(retain(10)))
	stale := retain(20)
	c.must(set(topicID("t"), "retention.ms", "-1"))
	require.Equal(t, []TrimResult{{LogStart: -1, Err: ErrConfigsChanged}}, c.must(stale))
	require.Equal(t, []TrimResult{{LogStart: 20}}, c.must(retain(20)))
	stale = retain(30)
	c.must(&SetConfigs{Resource: ConfigBroker, Set: map[string]string{"log.retention.bytes": "1000"}})
	require.Equal(t, []TrimResult{{LogStart: -1, Err: ErrConfigsChanged}}, c.must(stale))
	c.must(&DeleteTopic{ID: topicID("t")})
	require.Equal(t, []TrimResult{{LogStart: -1, Err: ErrUnknownPartition}}, c.must(stale))
}

// withoutTimestamps commits a bundle whose records have none, at a command time in ms.
func (c *cleanable) withoutTimestamps(n uint32, at int64) {
	c.t.Helper()
	c.now = at
	c.must(commitOf(1, n, n-1, section{"t", 1, []commit.Batch{{Records: 10, Bytes: 100, MaxTimestamp: -1, ProducerID: -1}}}))
}

func (c *cleanable) keptSince(since int64) int64 {
	return c.RetainedFrom(id.TopicPartition{Topic: c.tp.Topic, Partition: 1}, Retention{SinceMs: since, Bytes: KeepForever})
}

func TestRetainedFrom_WithoutTimestamps(t *testing.T) {
	c := newCleanable(t)
	c.withoutTimestamps(4, 10_000)
	c.withoutTimestamps(5, 20_000)
	require.EqualValues(t, 0, c.keptSince(10_000))
	require.EqualValues(t, 10, c.keptSince(10_001))
	require.EqualValues(t, 20, c.keptSince(20_001))
	c.machine = restore(t, c.machine)
	require.EqualValues(t, 10, c.keptSince(10_001))

	// A job's bundle is as old as the newest records that it holds, whenever it was written.
	tp := id.TopicPartition{Topic: c.tp.Topic, Partition: 1}
	c.now = 30_000
	n := c.must(&StartJob{Kind: job.Compact, Level: 1, Runner: 1, First: tp, Last: tp, Inputs: []id.Bundle{
		id.Submission{Session: 1, N: 4}.Bundle(), id.Submission{Session: 1, N: 5}.Bundle(),
	}}).(id.Session)
	x := extent.Extent{Base: 0, Last: 19, Kind: extent.Absolute, Bundle: id.Submission{Session: n, N: 1}.Bundle(), Length: 200, Batches: 2, MaxTimestamp: -1}
	require.NoError(t, c.complete(n, &job.Outcome{
		Bundles: []job.Bundle{{N: 1, Bytes: 500}}, Partitions: []job.Replacement{{ID: tp, From: 0, To: 19, Extents: []extent.Extent{x}}},
	}).Err)
	require.EqualValues(t, 0, c.keptSince(20_000))
	require.EqualValues(t, 20, c.keptSince(20_001))
	c.machine = restore(t, c.machine)
	require.EqualValues(t, 20, c.keptSince(20_001))
}

// TestCleanup_Golden holds the bytes of a snapshot of cleanings fast.
func TestCleanup_Golden(t *testing.T) {
	c := newCleanable(t)
	c.withoutTimestamps(4, 10_000)
	commands := &Batch{Now: 10_000, Commands: []Command{
		c.start(), &RetainPartitions{Trims: []RetentionTrim{{Trim{Partition: c.tp, Offset: 10}, 0x0102030405060708}}},
		&OpenSession{Instance: "b"}, &CloseSession{Session: 3},
	}}
	c.Apply(c.index+1, commands, nil, nil)
	var buf bytes.Buffer
	require.NoError(t, c.snapshot().Encode(&buf))
	golden(t, "snapshot-cleanup.hex", buf.Bytes())
	restored := restore(t, c.machine)
	require.Equal(t, c.Hash(), restored.Hash())
	j, ok := restored.Job(2)
	require.True(t, ok)
	require.Equal(t, &job.Bounds{From: 0, FirstDirty: 10, To: 29}, j.Clean)
}

func TestSnapshot_RefusesWhatCleanupDoesNotWrite(t *testing.T) {
	for name, spoil := range map[string]func(s *machine){
		"bundle of the future": func(s *machine) {
			b, l := first(&s.bundles)
			l.atMs = s.now + 1
			s.bundles.Set(b, l)
		},
		"bounds of a compaction": func(s *machine) {
			s.jobs.Set(1, &openJob{kind: job.Compact, level: 1, runner: 1, clean: &job.Bounds{To: 1}})
		},
		"bounds upside down": func(s *machine) {
			s.jobs.Set(1, &openJob{kind: job.Clean, level: 2, runner: 1, clean: &job.Bounds{From: 5, FirstDirty: 4, To: 9}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCleanable(t)
			spoil(c.machine)
			var buf bytes.Buffer
			require.NoError(t, c.snapshot().Encode(&buf))
			_, err := decode(&buf)
			require.ErrorIs(t, err, ErrMalformedSnapshot)
		})
	}
}
