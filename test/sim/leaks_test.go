package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	bucketmarker "github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/probe"
)

// driven is a clock that a test can advance.
type driven struct{ ahead atomic.Int64 }

func (d *driven) now() time.Time          { return time.Now().Add(time.Duration(d.ahead.Load())) }
func (d *driven) advance(t time.Duration) { d.ahead.Add(int64(t)) }

// drivenBucket is a bucket whose listings have the time of that clock.
type drivenBucket struct {
	objstore.Bucket
	clock *driven
}

func (b drivenBucket) List(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.Info, error) {
	page, err := b.Bucket.List(ctx, prefix, startAfter, limit)
	for i := range page {
		page[i].Modified = page[i].Modified.Add(time.Duration(b.clock.ahead.Load()))
	}
	return page, err
}

// newLivingCluster is a cluster with retention, garbage and sweeps, whose time is the clock's.
func newLivingCluster(t *testing.T, clock *driven) *cluster {
	t.Helper()
	return newLivingClusterBehind(t, clock, func(b objstore.Bucket) objstore.Bucket { return b })
}

// newLivingClusterBehind is newLivingCluster whose control planes see the store through guard.
func newLivingClusterBehind(t *testing.T, clock *driven, guard func(objstore.Bucket) objstore.Bucket) *cluster {
	t.Helper()
	return newLivingClusterWith(t, clock, options{}, guard)
}

// newLivingClusterWith is newLivingClusterBehind with other options.
func newLivingClusterWith(t *testing.T, clock *driven, opts options, guard func(objstore.Bucket) objstore.Bucket) *cluster {
	t.Helper()
	opts.limits = session.Limits{SessionTimeout: 5 * time.Second}
	adjust := opts.agent
	opts.agent = func(cfg *agent.Config) {
		cfg.Bucket = drivenBucket{cfg.Bucket, clock}
		if adjust != nil {
			adjust(cfg)
		}
	}
	opts.lifecycle = func(cfg *replica.Config, a lifecycle.Agents) {
		cfg.Owner.Now, cfg.Tick = clock.now, 50*time.Millisecond
		cfg.SnapshotInterval, cfg.SnapshotPoll = 100*time.Millisecond, 50*time.Millisecond
		cfg.Bucket = guard(cfg.Bucket)
		work, err := lifecycle.New(lifecycle.Config{
			Settings: lifecycle.Settings{RetentionCheck: 100 * time.Millisecond, GarbageCheck: 100 * time.Millisecond},
			Agents:   a, StoreTime: func(context.Context) (time.Time, error) { return clock.now(), nil }, Log: cfg.Logger,
		})
		require.NoError(t, err)
		cfg.Beside = func(ctx context.Context, tn replica.Tenure) (wait func()) {
			return work.Start(ctx, lifecycle.Tenure{Owner: tn.Owner, Kept: tn.Kept, WantSnapshot: tn.WantSnapshot})
		}
	}
	return newCluster(t, opts)
}

// requireWhole requires that the store has the object of each live bundle.
func (c *cluster) requireWhole() {
	c.t.Helper()
	var live []string
	c.state(func(s *metadata.State) {
		for name := range s.Bundles() {
			live = append(live, bundle.Key(bundlePrefix, name))
		}
	})
	require.NotEmpty(c.t, live)
	require.Subset(c.t, c.bundles(), live)
}

// bundles gives the keys of the bundles in the store.
func (c *cluster) bundles() (keys []string) {
	c.t.Helper()
	for after := bundlePrefix; ; {
		page, err := c.audit.List(c.t.Context(), bundlePrefix, after, objstore.MaxKeys)
		require.NoError(c.t, err)
		if len(page) == 0 {
			return keys
		}
		for _, info := range page {
			keys, after = append(keys, info.Key), info.Key
		}
	}
}

// known tells whether the state knows of a bundle, live or dead.
func (c *cluster) known(key string) (known bool) {
	c.t.Helper()
	b, err := bundle.ParseKey(bundlePrefix, key)
	require.NoError(c.t, err)
	c.state(func(s *metadata.State) { _, _, _, known = s.Bundle(b) })
	return known
}

func (c *cluster) state(fn func(s *metadata.State)) {
	c.t.Helper()
	_, err := c.tenure.Load().Read(fn)
	require.NoError(c.t, err)
}

// orphans counts the bundles that the state does not know.
func (c *cluster) orphans() (n int) {
	c.t.Helper()
	for _, key := range c.bundles() {
		if !c.known(key) {
			n++
		}
	}
	return n
}

func (c *cluster) propose(cmd metadata.Command) metadata.Result {
	c.t.Helper()
	result, _, err := c.tenure.Load().Propose(c.t.Context(), cmd)
	require.NoError(c.t, err)
	require.NoError(c.t, result.Err)
	return result
}

func (c *cluster) topicID(name string) (topic id.Topic) {
	c.t.Helper()
	c.state(func(s *metadata.State) {
		t, ok := s.TopicByName(name)
		require.True(c.t, ok, name)
		topic = t.ID
	})
	return topic
}

// produceLines writes numbered lines, one a batch.
func produceLines(t *testing.T, client *kgo.Client, topic string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		r := &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%d", i)}
		require.NoError(t, client.ProduceSync(t.Context(), r).FirstErr())
	}
}

// consumeLines reads so many records of a topic from its beginning. Not one fetch may end in an error.
func (c *cluster) consumeLines(a *node, topic string, count int) (values []string) {
	c.t.Helper()
	client := c.pinned(a, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	for len(values) < count {
		fetches := client.PollFetches(ctx)
		require.NoError(c.t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

func lines(from, to int) (want []string) {
	for i := from; i < to; i++ {
		want = append(want, fmt.Sprint(i))
	}
	return want
}

// Agents are killed between the PUT of a bundle and its commit: the sweep finds what they left, and nothing else. A topic
// comes back after its deletion as it was. And when all topics are deleted and the time is over, the bucket is empty but
// for snapshots, and so are the state's tables.
func TestLifecycle_NothingLeaks(t *testing.T) {
	t.Parallel()
	clock := &driven{}
	touched := new(atomic.Int64)
	c := newLivingClusterBehind(t, clock, func(b objstore.Bucket) objstore.Bucket { return sealed{b, touched} })
	c.createTopic("t", 1)
	c.createTopic("other", 1)
	client := c.pinned(c.agents[0])
	produceLines(t, client, "t", 0, 20)
	produceLines(t, client, "other", 0, 3)

	victim := c.agents[1]
	left := victim.session()
	doomed := c.pinned(victim, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()), kgo.MaxProduceRequestsInflightPerBroker(8))
	produceLines(t, doomed, "t", 20, 21)
	victim.link.setDown(true)
	before := len(c.bundles())
	for range 5 {
		doomed.Produce(t.Context(), &kgo.Record{Topic: "t", Value: []byte("lost")}, func(*kgo.Record, error) {})
	}
	c.await("a PUT without a commit", func() bool { return len(c.bundles()) > before })
	require.Positive(t, c.orphans())
	victim.crash()
	doomed.CloseAllowingRebalance()
	c.await("the session to end", func() (ended bool) {
		c.state(func(s *metadata.State) {
			for w := range s.EndedWriters() {
				ended = ended || w.ID == left
			}
		})
		return ended
	})
	known := len(c.bundles()) - c.orphans()
	clock.advance(25 * time.Hour)
	c.await("the sweep", func() bool { return c.orphans() == 0 })
	require.Len(t, c.bundles(), known, "nothing else went")
	require.Zero(t, touched.Load(), "agents have swept")

	topic := c.topicID("t")
	c.propose(&metadata.DeleteTopic{ID: topic, KeepMs: (24 * time.Hour).Milliseconds()})
	c.await("the deletion at the agent", func() bool {
		listed, err := kadm.NewClient(client).ListTopics(t.Context())
		return err == nil && !listed.Has("t")
	})
	clock.advance(23 * time.Hour)
	c.propose(&metadata.Tick{})
	c.propose(&metadata.UndeleteTopic{ID: topic})
	c.await("the topic at the agent", func() bool {
		listed, err := kadm.NewClient(client).ListTopics(t.Context())
		return err == nil && listed.Has("t")
	})
	require.Equal(t, lines(0, 21), c.consumeLines(c.agents[0], "t", 21))
	c.requireWhole()

	for _, name := range []string{"t", "other"} {
		c.propose(&metadata.DeleteTopic{ID: c.topicID(name), KeepMs: (24 * time.Hour).Milliseconds()})
	}
	client.Close()
	for _, a := range c.agentList() {
		a.stop()
	}
	c.awaitClosed()
	clock.advance(23 * time.Hour)
	c.await("ticks", func() bool { return c.ticked(clock) })
	require.NotEmpty(t, c.bundles(), "their deletion can be taken back")
	clock.advance(2 * time.Hour)
	c.awaitEmpty("the purge")
	clock.advance(20 * time.Minute)
	require.NotEmpty(t, c.bundles(), "no agent deletes them")
	deleter := c.startAgent()
	c.await("an empty bucket", func() bool { return len(c.bundles()) == 0 })
	deleter.stop()
	clock.advance(25 * time.Hour)
	sweeper := c.startAgent()
	c.await("empty tables", func() (empty bool) {
		c.state(func(s *metadata.State) {
			empty = true
			for range s.EndedWriters() {
				empty = false
			}
			for range s.DeletedTopics() {
				empty = false
			}
			for range s.DeadBundles() {
				empty = false
			}
		})
		return empty
	})
	sweeper.stop()
	c.awaitClosed()
	clock.advance(25 * time.Hour)
	c.awaitEmpty("the end of the last session")
	infos, err := c.audit.List(t.Context(), "", "", objstore.MaxKeys)
	require.NoError(t, err)
	for _, info := range infos {
		require.True(t, info.Key == probe.Key || info.Key == bucketmarker.Key(vc) || strings.HasPrefix(info.Key, snapshotPrefix), info.Key)
	}
}

// awaitClosed waits until all sessions are closed.
func (c *cluster) awaitClosed() {
	c.t.Helper()
	c.await("the sessions to end", func() (ended bool) {
		c.state(func(s *metadata.State) {
			ended = true
			for e := range s.Sessions() {
				ended = ended && e.Closed
			}
		})
		return ended
	})
}

// awaitEmpty waits until the state has no load but other tables, such as closed sessions, which stay for the grace.
func (c *cluster) awaitEmpty(what string) {
	c.t.Helper()
	var load metadata.Load
	defer func() {
		if c.t.Failed() {
			c.t.Logf("%s: %+v", what, load)
		}
	}()
	c.await(what, func() bool {
		c.state(func(s *metadata.State) { load = s.Load() })
		return load == metadata.Load{Other: load.Other}
	})
}

// ticked tells whether the state has reached the clock's time.
func (c *cluster) ticked(clock *driven) (reached bool) {
	at := clock.now().Add(-500 * time.Millisecond).UnixMilli()
	c.state(func(s *metadata.State) { reached = s.Now() >= at })
	return reached
}

// An agent is cut off from the control plane for longer than the grace, while what it knows of is compacted and the objects
// are deleted. Back again it reads on: it looks up anew, and its client sees no error and every record.
func TestLifecycle_AgentCutOffLongerThanTheGrace(t *testing.T) {
	t.Parallel()
	clock := &driven{}
	c := newLivingCluster(t, clock)
	c.createTopic("t", 1)
	cut := c.agents[1]
	client := c.pinned(c.agents[0])
	defer client.Close()
	produceLines(t, client, "t", 0, 1)
	require.Equal(t, lines(0, 1), c.consumeLines(cut, "t", 1)) // it has a window of the partition
	produceLines(t, client, "t", 1, 10)
	tp := id.TopicPartition{Topic: c.topicID("t")}
	old := c.bundles()

	cut.link.setDown(true)
	c.compactByHand(c.agents[0].session(), tp)
	clock.advance(16 * time.Minute)
	c.await("the old bundles to be deleted", func() bool { return len(c.bundles()) == 1 })
	require.NotContains(t, old, c.bundles()[0])

	read := make(chan []string, 1)
	reader := c.pinned(cut, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		var values []string
		for len(values) < 10 && ctx.Err() == nil {
			fetches := reader.PollFetches(ctx)
			fetches.EachError(func(_ string, _ int32, err error) { values = append(values, err.Error()) })
			fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
		}
		read <- values
	}()
	cut.link.setDown(false)
	require.Equal(t, lines(0, 10), <-read)
	c.requireWhole()
}

// compactByHand replaces all extents of a partition by those of one new bundle, as a job of an agent whose session stays open.
func (c *cluster) compactByHand(runner id.Session, tp id.TopicPartition) {
	c.t.Helper()
	var exts []extent.Extent
	var inputs []id.Bundle
	c.state(func(s *metadata.State) {
		exts, _ = s.Extents(tp, 0, 0, 0)
		for b := range s.Bundles() {
			inputs = append(inputs, b)
		}
	})
	started := c.propose(&metadata.StartJob{Kind: job.Compact, Level: 1, Runner: runner, First: tp, Last: tp, Inputs: inputs})
	name := id.Submission{Session: started.Value.(id.Session), N: 1}
	var e bundle.Encoder
	e.Reset(name)
	position := e.Section(tp)
	out := extent.Extent{Kind: extent.Absolute, Bundle: name.Bundle(), Position: position, Base: exts[0].Base, Last: exts[len(exts)-1].Last}
	for i := range exts {
		batches := c.read(&exts[i])
		for at, base := 0, exts[i].Base; at < len(batches); {
			length := 12 + int(binary.BigEndian.Uint32(batches[at+8:]))
			batch := batches[at : at+length]
			binary.BigEndian.PutUint64(batch, uint64(base))
			binary.BigEndian.PutUint32(batch[12:], 1<<32-1) // no leader epoch
			base += int64(binary.BigEndian.Uint32(batch[57:]))
			require.NoError(c.t, e.Batch(batch))
			at += length
		}
		out.Batches += exts[i].Batches
		out.Length += exts[i].Length
		out.MaxTimestamp = max(out.MaxTimestamp, exts[i].MaxTimestamp)
	}
	body, _ := e.Finish()
	require.NoError(c.t, c.audit.Bucket.Put(c.t.Context(), bundle.Key(bundlePrefix, name.Bundle()), objstore.NewBody(bytes.Join(body.Buffers, nil))))
	outcome := &job.Outcome{
		Bundles:    []job.Bundle{{N: 1, Bytes: uint32(body.Size)}},
		Partitions: []job.Replacement{{ID: tp, From: out.Base, To: out.Last, Extents: []extent.Extent{out}}},
	}
	result := c.propose(&metadata.CompleteJob{Job: name.Session, Last: true, Outcome: job.AppendOutcome(nil, outcome)})
	require.Equal(c.t, metadata.JobResult{Replaced: 1}, result.Value)
}

func (c *cluster) read(x *extent.Extent) []byte {
	c.t.Helper()
	r, err := c.audit.Get(c.t.Context(), bundle.Key(bundlePrefix, x.Bundle), int64(x.Position), int64(x.Length))
	require.NoError(c.t, err)
	defer r.Close()
	p, err := io.ReadAll(r)
	require.NoError(c.t, err)
	return p
}

// A topic is deleted while a transaction is open in it and readers wait at its last stable offset. The transaction ends, the
// topic comes back, and they read on though nothing else is written.
func TestLifecycle_TransactionEndsWhileItsTopicIsDeleted(t *testing.T) {
	t.Parallel()
	c := newLivingCluster(t, &driven{})
	c.createTopic("t", 1)
	a := c.agents[0]
	producer := c.pinned(a, kgo.TransactionalID("x"))
	defer producer.Close()
	require.NoError(t, producer.BeginTransaction())
	require.NoError(t, producer.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("0")}).FirstErr())
	reader := c.pinned(a, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Empty(t, reader.PollFetches(ctx).Records(), "the agent has a window, and nothing is stable in it")

	topic := c.topicID("t")
	c.propose(&metadata.DeleteTopic{ID: topic, KeepMs: (24 * time.Hour).Milliseconds()})
	require.NoError(t, producer.EndTransaction(t.Context(), kgo.TryCommit))
	c.propose(&metadata.UndeleteTopic{ID: topic})
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		fetches := reader.PollFetches(ctx)
		require.NoError(t, ctx.Err(), "what was committed is not read")
		if records := fetches.Records(); len(records) > 0 {
			require.Equal(t, "0", string(records[0].Value))
			return
		}
	}
}
