package offsetslog

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// world is a state with a topic of 100,000 partitions, its log, and what reads of its log need.
type world struct {
	t     *testing.T
	state *metadata.State
	index uint64
	takes time.Duration // for each read
	log   *Log
}

var orders = id.Topic{1}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, state: metadata.New()}
	w.log = New(w)
	w.apply(&metadata.CreateTopic{ID: orders, Name: "orders", Partitions: 100_000})
	return w
}

func (w *world) ReadFrozen(fn func(*metadata.State)) (uint64, error) {
	<-time.After(w.takes)
	fn(w.state)
	return w.index, nil
}

// apply makes one entry of the log of the commands.
func (w *world) apply(commands ...metadata.Command) {
	w.t.Helper()
	w.index++
	var fx metadata.Effects
	for _, r := range w.state.Apply(w.index, &metadata.Batch{Now: int64(1000 * w.index), Commands: commands}, &fx, nil) {
		require.NoError(w.t, r.Err)
	}
}

// commit is a command that commits an offset of some partitions.
func commit(group string, offset int64, partitions ...int32) *metadata.CommitOffsets {
	c := &metadata.CommitOffsets{Group: group}
	for _, p := range partitions {
		c.Offsets = append(c.Offsets, metadata.OffsetCommit{
			Partition: id.TopicPartition{Topic: orders, Partition: p}, Offset: offset, LeaderEpoch: 0, Metadata: "m", ExpiresMs: -1,
		})
	}
	return c
}

// record is what a reader sees.
type record struct {
	at        int64
	group     string
	partition int32
	offset    int64
}

func (w *world) ask(group string, from int64, bytes int32) *kmsg.FetchResponseTopicPartition {
	w.t.Helper()
	in := kmsg.NewPtrFetchRequest()
	in.Version, in.MaxBytes = 12, bytes
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = internaltopic.PartitionOf(group), from, bytes
	in.Topics = []kmsg.FetchRequestTopic{{Topic: internaltopic.Offsets.Name, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	body, err := w.log.Handle(w.t.Context(), &api.Forward{ApiKey: 1, ApiVersion: 12, Body: in.AppendTo(nil)})
	require.NoError(w.t, err)
	out := kmsg.NewPtrFetchResponse()
	out.Version = 12
	require.NoError(w.t, out.ReadFrom(body))
	return &out.Topics[0].Partitions[0]
}

// read reads a group's partition from an offset on, and returns its end too.
func (w *world) read(group string, from int64, bytes int32) (all []record, end int64) {
	w.t.Helper()
	p := w.ask(group, from, bytes)
	require.Zero(w.t, p.ErrorCode)
	last := from - 1
	for b, err := range kafkaproto.Batches(p.RecordBatches) {
		require.NoError(w.t, err)
		require.Equal(w.t, b.ComputeCRC(), b.CRC())
		require.Equal(w.t, kafkaproto.LogEpoch, b.PartitionLeaderEpoch())
		for r, err := range kafkaproto.Records(b, 64<<20) {
			require.NoError(w.t, err)
			require.Greater(w.t, r.Offset, last)
			last = r.Offset
			var key kmsg.OffsetCommitKey
			var value kmsg.OffsetCommitValue
			require.NoError(w.t, key.ReadFrom(r.Key))
			require.NoError(w.t, value.ReadFrom(r.Value))
			require.Equal(w.t, "orders", key.Topic)
			require.Equal(w.t, "m", value.Metadata)
			require.EqualValues(w.t, 1000*(r.Offset>>slotBits), value.CommitTimestamp)
			all = append(all, record{r.Offset, key.Group, key.Partition, value.Offset})
		}
	}
	require.Less(w.t, last, p.HighWatermark)
	return all, p.HighWatermark
}

// at is the offset of the k-th last record of an entry.
func at(index uint64, last int64) int64 { return first(index+1) - 1 - last }

func TestLog_HoldsTheNewestOffsetOfEachKey(t *testing.T) {
	w := newWorld(t) // entry 1
	w.apply(commit("g", 10, 0, 1), commit("other", 5, 7))
	w.apply(commit("g", 20, 1))
	w.apply(commit("g", 30, 2))
	got, end := w.read("g", 0, 1<<20)
	require.Equal(t, []record{{at(2, 0), "g", 0, 10}, {at(3, 0), "g", 1, 20}, {at(4, 0), "g", 2, 30}}, got)
	require.Equal(t, first(5), end)
	got, _ = w.read("g", at(3, 0)+1, 1<<20)
	require.Equal(t, []record{{at(4, 0), "g", 2, 30}}, got)
	got, _ = w.read("other", 0, 1<<20)
	require.Equal(t, []record{{at(2, 0), "other", 7, 5}}, got)
	require.Equal(t, kerr.OffsetOutOfRange.Code, w.ask("g", end+1, 1<<20).ErrorCode)
	require.Equal(t, kerr.OffsetOutOfRange.Code, w.ask("g", -1, 1<<20).ErrorCode)
	p := w.ask("g", 0, 0)
	require.Equal(t, first(5), p.HighWatermark, "without bytes the end alone")
	require.Empty(t, p.RecordBatches)
}

// A reader in the middle of an entry misses nothing when a later commit replaces one of its records.
func TestLog_ReaderBetweenRecordsOfOneEntry(t *testing.T) {
	w := newWorld(t)
	w.apply(commit("g", 10, 0, 1, 2))
	got, _ := w.read("g", 0, 1<<20)
	require.Len(t, got, 3)
	position := got[1].at + 1 // it has seen 0 and 1
	w.apply(commit("g", 20, 0))
	got, _ = w.read("g", position, 1<<20)
	require.Equal(t, []record{{at(2, 0), "g", 2, 10}, {at(3, 0), "g", 0, 20}}, got)
	w.apply(commit("g", 30, 2))
	got, _ = w.read("g", position, 1<<20)
	require.Equal(t, []record{{at(2, 0), "g", 1, 10}, {at(3, 0), "g", 0, 20}, {at(4, 0), "g", 2, 30}}, got)
}

// Whatever commits come in between, a reader that goes on where it was has the newest value of each key at the end, and
// ends never go back.
func TestLog_ReaderThatGoesOn(t *testing.T) {
	w := newWorld(t)
	want, seen := map[int32]int64{}, map[int32]int64{}
	position, before := int64(0), int64(0)
	for n := range int64(300) {
		var all []int32
		for k := range 1 + n%5 {
			p := int32((n*7 + k*3) % 23)
			all = append(all, p)
			want[p] = n
		}
		w.apply(commit("g", n, all...))
		got, end := w.read("g", position, 300) // two or three records at a time
		require.GreaterOrEqual(t, end, before)
		before = end
		for _, r := range got[:min(len(got), 2)] {
			seen[r.partition], position = r.offset, r.at+1
		}
	}
	for {
		got, _ := w.read("g", position, 1000)
		if len(got) == 0 {
			break
		}
		for _, r := range got {
			seen[r.partition], position = r.offset, r.at+1
		}
	}
	require.Equal(t, want, seen)
}

// The end stays before the offsets of an open transaction, which appear there when it ends.
func TestLog_EndsBeforeOpenTransactions(t *testing.T) {
	w := newWorld(t)
	w.apply(&metadata.InitTransaction{TransactionalID: "x", TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1})
	info, _ := w.state.Transaction("x")
	ref := metadata.TransactionRef{TransactionalID: "x", ProducerID: info.ProducerID, Epoch: info.Epoch, Version: metadata.ProtocolOne, AsOf: w.index}
	w.apply(&metadata.AddOffsets{TransactionRef: ref, Group: "g"})
	ref.AsOf = w.index
	pending := commit("g", 50, 3)
	pending.Transaction = &ref
	w.apply(pending)
	w.apply(commit("g", 10, 0))
	got, end := w.read("g", 0, 1<<20)
	require.Empty(t, got)
	require.Equal(t, first(4), end)
	ref.AsOf = w.index
	w.apply(&metadata.EndTransaction{TransactionRef: ref, Commit: true})
	got, _ = w.read("g", end, 1<<20)
	require.Len(t, got, 2)
	require.Equal(t, []int64{50, 10}, []int64{got[0].offset, got[1].offset})
}

// An answer has no more than maxRecords and maxBytes, but for one entry, and a reader gets all in turns.
func TestLog_BoundsOfAnswers(t *testing.T) { synctest.Test(t, boundsOfAnswers) } // where no time passes

func boundsOfAnswers(t *testing.T) {
	t.Helper()
	w := newWorld(t)
	const entries, each = 40, 1000
	for n := range int32(entries) {
		var all []int32
		for p := range int32(each) {
			all = append(all, n*each+p)
		}
		w.apply(commit("g", 1, all...))
	}
	var large []int32
	for p := range int32(2*maxRecords + 1) {
		large = append(large, 50_000+p)
	}
	w.apply(commit("g", 1, large...))
	total, position := 0, int64(0)
	for {
		got, _ := w.read("g", position, math.MaxInt32)
		if len(got) == 0 {
			break
		}
		if len(got) < len(large) {
			require.LessOrEqual(t, len(got), maxRecords+each)
		} else {
			require.LessOrEqual(t, len(got), maxRecords+len(large))
		}
		total, position = total+len(got), got[len(got)-1].at+1
	}
	require.Equal(t, entries*each+len(large), total)
	r := reading{budget: maxBytes}
	r.add(&kmsg.FetchRequestTopicPartition{Partition: internaltopic.PartitionOf("g"), PartitionMaxBytes: maxBytes}, &kmsg.FetchResponseTopicPartition{})
	r.order[0].end, r.order[0].max = math.MaxInt64, maxRecords
	for n := range 10 * maxRecords {
		r.order[0].note("g", &metadata.LoggedOffset{Index: uint64(10*maxRecords - n)})
		require.LessOrEqual(t, len(r.order[0].found), 2*maxRecords)
	}
}

// Reads of the state take a tenth of the time, however many ask.
func TestLog_RestsBetweenReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.takes = 100 * time.Millisecond
		began := time.Now()
		done := make(chan struct{})
		for range 5 {
			go func() {
				w.ask("g", 0, 1)
				done <- struct{}{}
			}()
		}
		for range 5 {
			<-done
		}
		require.Equal(t, 5*w.takes+4*restFactor*w.takes, time.Since(began))
	})
}

func TestLog_RefusesOtherTopicsAndPartitions(t *testing.T) {
	w := newWorld(t)
	in := kmsg.NewPtrFetchRequest()
	in.Version = 12
	for _, topic := range []string{"orders", internaltopic.Offsets.Name} {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = internaltopic.Partitions
		in.Topics = append(in.Topics, kmsg.FetchRequestTopic{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{p}})
	}
	body, err := w.log.Handle(t.Context(), &api.Forward{ApiKey: 1, ApiVersion: 12, Body: in.AppendTo(nil)})
	require.NoError(t, err)
	out := kmsg.NewPtrFetchResponse()
	out.Version = 12
	require.NoError(t, out.ReadFrom(body))
	for _, topic := range out.Topics {
		require.Equal(t, kerr.UnknownTopicOrPartition.Code, topic.Partitions[0].ErrorCode, fmt.Sprint(topic.Topic))
	}
}
