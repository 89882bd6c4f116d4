package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/slab"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore/mem"
)

// sequencer settles commits on a metadata state at once.
type sequencer struct {
	mu    sync.Mutex
	state *metadata.State
	index uint64
}

func (q *sequencer) do(c metadata.Command) (*commit.Result, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.index++
	r := q.state.Apply(q.index, &metadata.Batch{Now: 1, Commands: []metadata.Command{c}}, &metadata.Effects{}, nil)
	result, _ := r[0].Value.(*commit.Result)
	return result, r[0].Err
}

func (q *sequencer) Commit(_ context.Context, encoded []byte, _ time.Time) (*commit.Result, error) {
	return q.do(&metadata.CommitBundle{Encoded: bytes.Clone(encoded)})
}

func (q *sequencer) Abandon(_ context.Context, sub id.Submission) (*commit.Result, error) {
	return q.do(&metadata.AbandonSubmission{Submission: sub})
}

// produceRig is a Produce over a real writer and a bucket in memory. Topics: alpha, beta; "compact" (id 3), "stamped"
// (id 4, LogAppendTime), "packed" (id 5, compression.type zstd), "small" (id 6, batches of at most 200 bytes).
type produceRig struct {
	*Produce
	t         *testing.T
	catalogue *view.Catalogue
	seq       *sequencer
	writer    *writer.Writer
	bucket    *mem.Bucket
	fresh     error // what asking for fresh knowledge gives
	asked     atomic.Int32
	stamp     uint64
	onFresh   func()
	describe  error // what asking for a producer gives
	described atomic.Int32
}

const produceNow = 1_700_000_000_000

func newProduceRig(t *testing.T) *produceRig {
	t.Helper()
	r := &produceRig{stamp: 3, t: t, catalogue: catalogueOf(t), seq: &sequencer{state: metadata.New()}, bucket: mem.New()}
	r.catalogue.OnCatalogue(&api.Catalogue{Index: 2, Topics: []*api.Topic{
		{Id: topicID(3), Name: "compact", Partitions: 1, Configs: map[string]string{"cleanup.policy": "compact"}},
		{Id: topicID(4), Name: "stamped", Partitions: 1, Configs: map[string]string{"message.timestamp.type": "LogAppendTime"}},
		{Id: topicID(5), Name: "packed", Partitions: 1, Configs: map[string]string{"compression.type": "zstd"}},
		{Id: topicID(6), Name: "small", Partitions: 1, Configs: map[string]string{"max.message.bytes": "200"}},
	}})
	for i, name := range []string{"alpha", "beta", "compact", "stamped", "packed", "small"} {
		_, err := r.seq.do(&metadata.CreateTopic{ID: id.Topic(topicID(byte(i + 1))), Name: name, Partitions: 12})
		require.NoError(t, err)
	}
	_, err := r.seq.do(&metadata.OpenSession{Instance: "i", Endpoints: []metadata.Endpoint{{Host: "h"}}})
	require.NoError(t, err)
	pool, err := slab.NewPool(slab.Config{Budget: 8 << 20, SlabBytes: 64 << 10, Poison: true}, nil)
	require.NoError(t, err)
	r.writer, err = writer.New(writer.Config{Pool: pool, Bucket: r.bucket, Committer: r.seq}, nil)
	require.NoError(t, err)
	r.Produce = NewProduce(ProduceConfig{
		Catalogue: r.catalogue, Views: NewViews(zonesOf(t, "a")), Writer: r.writer,
		Now: func() int64 { return produceNow }, Forwarder: forwarderFunc(r.describeTransactions),
		Prober: proberFunc(func(context.Context) (uint64, error) {
			r.asked.Add(1)
			if r.onFresh != nil {
				r.onFresh()
			}
			return r.stamp, r.fresh
		}),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.writer.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	r.writer.OnWelcome(&api.Welcome{Session: 1, NextN: 1})
	return r
}

// recordBatch encodes an uncompressed batch of one record per key; "" is a null key.
func recordBatch(keys ...string) kafkaproto.RecordBatch {
	b := make(kafkaproto.RecordBatch, kafkaproto.BatchOverhead)
	for i, k := range keys {
		rec := kbin.AppendVarint([]byte{0}, 0)
		rec = kbin.AppendVarint(rec, int32(i))
		if k == "" {
			rec = kbin.AppendVarintBytes(rec, nil)
		} else {
			rec = kbin.AppendVarintBytes(rec, []byte(k))
		}
		rec = kbin.AppendVarintBytes(rec, bytes.Repeat([]byte("v"), 50))
		rec = kbin.AppendVarint(rec, 0)
		b = append(kbin.AppendVarint(b, int32(len(rec))), rec...)
	}
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	binary.BigEndian.PutUint32(b[23:], uint32(len(keys)-1))
	binary.BigEndian.PutUint64(b[27:], produceNow-5)
	binary.BigEndian.PutUint64(b[35:], produceNow-5)
	binary.BigEndian.PutUint64(b[43:], 1<<64-1)
	binary.BigEndian.PutUint16(b[51:], 1<<16-1)
	binary.BigEndian.PutUint32(b[53:], 1<<32-1)
	binary.BigEndian.PutUint32(b[57:], uint32(len(keys)))
	return sealed(b)
}

func sealed(b kafkaproto.RecordBatch) kafkaproto.RecordBatch {
	binary.BigEndian.PutUint32(b[17:], b.ComputeCRC())
	return b
}

// from makes the batch an idempotent producer's.
func from(producer int64, sequence int32, b kafkaproto.RecordBatch) kafkaproto.RecordBatch {
	binary.BigEndian.PutUint64(b[43:], uint64(producer))
	binary.BigEndian.PutUint16(b[51:], 0)
	binary.BigEndian.PutUint32(b[53:], uint32(sequence))
	return sealed(b)
}

// to is one batch for a partition of a topic.
type to struct {
	topic     byte // last byte of the id
	partition int32
	records   []byte
}

var topicNames = map[byte]string{1: "alpha", 2: "beta", 3: "compact", 4: "stamped", 5: "packed", 6: "small", 99: "none"}

func produceOf(acks int16, parts ...to) *kmsg.ProduceRequest {
	in := kmsg.NewPtrProduceRequest()
	in.Acks, in.TimeoutMillis = acks, 30_000
	for _, p := range parts {
		t := kmsg.NewProduceRequestTopic()
		t.Topic, t.TopicID = topicNames[p.topic], id.Topic(topicID(p.topic))
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = p.partition, p.records
		t.Partitions = append(t.Partitions, part)
		in.Topics = append(in.Topics, t)
	}
	return in
}

// begin starts a request in a frame that is overwritten once it is released.
func (r *produceRig) begin(ctx context.Context, version int16, in *kmsg.ProduceRequest) func() edge.Reply {
	in.SetVersion(version)
	frame := in.AppendTo(nil)
	wait := r.Start(ctx, &edge.Request{
		Key: 0, Version: version, Body: frame, Arrived: time.Now(), Client: &edge.Client{Listener: "main"},
	})
	for i := range frame {
		frame[i] = 0xEE
	}
	return wait
}

func (r *produceRig) send(version int16, in *kmsg.ProduceRequest) []kmsg.ProduceResponseTopicPartition {
	r.t.Helper()
	reply := r.begin(r.t.Context(), version, in)()
	require.False(r.t, reply.Silent)
	out := kmsg.NewPtrProduceResponse()
	out.SetVersion(version)
	require.NoError(r.t, out.ReadFrom(reply.Head))
	var parts []kmsg.ProduceResponseTopicPartition
	for i, t := range out.Topics {
		if version >= topicIDVersion {
			require.Equal(r.t, in.Topics[i].TopicID, t.TopicID)
		} else {
			require.Equal(r.t, in.Topics[i].Topic, t.Topic)
		}
		parts = append(parts, t.Partitions...)
	}
	return parts
}

func TestProduce_EveryVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		for v := int16(3); v <= 13; v++ {
			got := r.send(v, produceOf(-1, to{1, 3, recordBatch("a", "b")}, to{2, 0, recordBatch("c")}))
			require.Len(t, got, 2)
			require.EqualValues(t, 2*(v-3), got[0].BaseOffset)
			require.EqualValues(t, 3, got[0].Partition)
			require.EqualValues(t, v-3, got[1].BaseOffset)
			require.EqualValues(t, -1, got[1].LogAppendTime)
			if v >= 5 {
				require.Zero(t, got[1].LogStartOffset)
			}
		}
		require.Zero(t, r.asked.Load())
	})
}

func TestProduce_EachPartitionHasItsOwnResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		corrupt := recordBatch("x")
		corrupt[len(corrupt)-1] ^= 1
		future := recordBatch("x")
		binary.BigEndian.PutUint64(future[35:], produceNow+2*3600_000)
		sealed(future)
		control := recordBatch("x")
		control[22] |= 0x20
		sealed(control)
		got := r.send(12, produceOf(-1,
			to{1, 0, recordBatch("a")},
			to{99, 0, recordBatch("a")},
			to{1, 12, recordBatch("a")},
			to{1, -1, recordBatch("a")},
			to{1, 1, corrupt},
			to{1, 2, nil},
			to{1, 3, future},
			to{6, 0, recordBatch("a", "b", "c", "d")},
			to{1, 4, append(recordBatch("a"), recordBatch("b")...)},
			to{1, 5, recordBatch()},
			to{1, 6, control},
			to{3, 0, recordBatch("a", "", "c", "")},
			to{1, 7, recordBatch("a")},
		))
		want := []*kerr.Error{
			nil, kerr.UnknownTopicOrPartition, kerr.UnknownTopicOrPartition, kerr.UnknownTopicOrPartition, kerr.CorruptMessage,
			kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.MessageTooLarge, kerr.InvalidRecord, kerr.InvalidRecord,
			kerr.InvalidRecord, kerr.InvalidRecord, nil,
		}
		for i, w := range want {
			name := fmt.Sprintf("part %d", i)
			if w == nil {
				require.Zero(t, got[i].ErrorCode, name)
				require.Zero(t, got[i].BaseOffset, name)
				continue
			}
			require.Equal(t, w.Code, got[i].ErrorCode, name)
			require.EqualValues(t, -1, got[i].BaseOffset, "never a made-up offset")
		}
		require.NotNil(t, got[4].ErrorMessage)
		require.Len(t, got[11].ErrorRecords, 2, "of the compacted topic")
		require.EqualValues(t, 1, got[11].ErrorRecords[0].RelativeOffset)
		require.Equal(t, "Compacted topic cannot accept message without key in topic partition compact-0.", *got[11].ErrorRecords[0].ErrorMessage)
		require.EqualValues(t, 1, r.asked.Load(), "one question for all that is missing")

		byID := r.send(13, produceOf(-1, to{99, 0, recordBatch("a")}))
		require.Equal(t, kerr.UnknownTopicID.Code, byID[0].ErrorCode)
	})
}

func TestProduce_AbsenceNeedsFreshKnowledge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		r.fresh = errTest
		got := r.send(12, produceOf(-1, to{99, 0, recordBatch("a")}))
		require.Equal(t, kerr.NotLeaderForPartition.Code, got[0].ErrorCode, "not known to be absent")

		r.fresh = nil
		r.onFresh = func() {
			r.catalogue.OnCatalogue(&api.Catalogue{Index: 3, Topics: []*api.Topic{{Id: topicID(2), Name: "beta", Partitions: 5}}})
		}
		got = r.send(12, produceOf(-1, to{2, 4, recordBatch("a")}))
		require.Zero(t, got[0].ErrorCode, "a partition that was added a moment ago")
	})
}

func TestProduce_IdempotentOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		one := func(b kafkaproto.RecordBatch) kmsg.ProduceResponseTopicPartition {
			return r.send(13, produceOf(-1, to{2, 0, b}))[0]
		}
		require.Zero(t, one(from(7, 0, recordBatch("a", "b"))).BaseOffset)
		require.EqualValues(t, 2, one(from(7, 2, recordBatch("c"))).BaseOffset)
		again := one(from(7, 0, recordBatch("a", "b")))
		require.Zero(t, again.ErrorCode, "a duplicate is no error")
		require.Zero(t, again.BaseOffset, "and answers its true offset")
		began := time.Now()
		gapped := one(from(7, 9, recordBatch("z")))
		require.Equal(t, kerr.NotLeaderForPartition.Code, gapped.ErrorCode)
		require.GreaterOrEqual(t, time.Since(began), 1500*time.Millisecond)
		require.NotEqualValues(t, -1, gapped.CurrentLeader.LeaderID)
		require.EqualValues(t, 7, gapped.CurrentLeader.LeaderEpoch)

		newer := from(7, 0, recordBatch("n"))
		binary.BigEndian.PutUint16(newer[51:], 3)
		require.EqualValues(t, 3, one(sealed(newer)).BaseOffset)
		require.Equal(t, kerr.InvalidProducerEpoch.Code, one(from(7, 3, recordBatch("o"))).ErrorCode)
	})
}

func TestProduce_TopicConfigsThatChangeBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		got := r.send(12, produceOf(-1, to{4, 0, recordBatch("a")}, to{5, 0, recordBatch("b", "")}, to{3, 0, recordBatch("k")}))
		for _, p := range got {
			require.Zero(t, p.ErrorCode)
		}
		require.EqualValues(t, produceNow, got[0].LogAppendTime)
		require.EqualValues(t, -1, got[1].LogAppendTime)
		stamped, packed := r.stored(4), r.stored(5)
		require.True(t, stamped.LogAppendTime())
		require.EqualValues(t, produceNow, stamped.MaxTimestamp())
		require.Equal(t, stamped.CRC(), stamped.ComputeCRC())
		require.Equal(t, kafkaproto.Zstd, packed.Codec())
		require.Equal(t, packed.CRC(), packed.ComputeCRC())
		require.Equal(t, []byte(recordBatch("k")), []byte(r.stored(3)), "all else is stored verbatim")
	})
}

// stored reads the first batch of a topic's partition 0 from the bucket.
func (r *produceRig) stored(topic byte) kafkaproto.RecordBatch {
	r.t.Helper()
	tp := id.TopicPartition{Topic: id.Topic(topicID(topic))}
	r.seq.mu.Lock()
	x, _ := r.seq.state.Extents(tp, 0, 1, 1)
	r.seq.mu.Unlock()
	require.Len(r.t, x, 1)
	infos, err := r.bucket.List(context.Background(), "", "", 10)
	require.NoError(r.t, err)
	rd, err := r.bucket.Get(context.Background(), infos[0].Key, int64(x[0].Position), int64(x[0].Length))
	require.NoError(r.t, err)
	var b bytes.Buffer
	_, err = b.ReadFrom(rd)
	require.NoError(r.t, err)
	return b.Bytes()
}

func TestProduce_Acks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		require.Zero(t, r.send(12, produceOf(1, to{1, 0, recordBatch("a")}))[0].BaseOffset)
		got := r.send(12, produceOf(2, to{1, 0, recordBatch("a")}, to{1, 1, recordBatch("a")}))
		for _, p := range got {
			require.Equal(t, kerr.InvalidRequiredAcks.Code, p.ErrorCode)
		}
		quiet := r.begin(t.Context(), 12, produceOf(0, to{1, 0, recordBatch("a")}))()
		require.True(t, quiet.Silent)
		require.False(t, quiet.Close)
		failed := r.begin(t.Context(), 12, produceOf(0, to{1, 0, recordBatch("a")}, to{99, 0, recordBatch("a")}))()
		require.True(t, failed.Silent)
		require.True(t, failed.Close)
		require.ErrorIs(t, failed.Err, kerr.UnknownTopicOrPartition)
		require.EqualValues(t, 3, r.send(12, produceOf(1, to{1, 0, recordBatch("a")}))[0].BaseOffset)
	})
}

// transactional makes the batch part of its producer's transaction.
func transactional(b kafkaproto.RecordBatch) kafkaproto.RecordBatch {
	b[22] |= 0x10
	return sealed(b)
}

// transact gives a transactional producer, with partitions 0 and 1 of alpha in its transaction.
func (r *produceRig) transact(name string) (producer int64) {
	r.t.Helper()
	v := r.seq.apply(r.t, &metadata.InitTransaction{TransactionalID: name, TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1})
	producer = v.(metadata.InitTransactionResult).ProducerID
	alpha := id.Topic(topicID(1))
	r.seq.apply(r.t, &metadata.AddPartitions{
		TransactionRef: metadata.TransactionRef{TransactionalID: name, ProducerID: producer, Version: metadata.ProtocolOne, AsOf: r.seq.now()},
		Partitions:     []id.TopicPartition{{Topic: alpha}, {Topic: alpha, Partition: 1}},
	})
	return producer
}

func (q *sequencer) now() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.index
}

func (q *sequencer) apply(t *testing.T, c metadata.Command) any {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.index++
	r := q.state.Apply(q.index, &metadata.Batch{Now: 1, Commands: []metadata.Command{c}}, &metadata.Effects{}, nil)
	require.NoError(t, r[0].Err)
	return r[0].Value
}

func TestProduce_TransactionalIDIsWhatAuthorizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		for v := int16(3); v <= 13; v++ {
			in := produceOf(-1, to{1, 0, recordBatch("a")}, to{1, 1, transactional(from(1, 0, recordBatch("b")))})
			for _, part := range r.send(v, in) {
				require.Equal(t, kerr.TransactionalIDAuthorizationFailed.Code, part.ErrorCode)
			}
			in.TransactionID = kmsg.StringPtr("")
			got := r.send(v, in)
			require.Zero(t, got[0].ErrorCode)
			require.Equal(t, kerr.InvalidRequest.Code, got[1].ErrorCode)
			in.TransactionID = kmsg.StringPtr("tx")
			in = produceOf(-1, to{1, 0, transactional(from(1, 0, recordBatch("a")))}, to{1, 1, transactional(from(2, 0, recordBatch("b")))})
			in.TransactionID = kmsg.StringPtr("tx")
			for _, part := range r.send(v, in) {
				require.Equal(t, kerr.InvalidProducerIDMapping.Code, part.ErrorCode, "two producers")
			}
		}
	})
}

// TestProduce_Transactions: a batch is taken in its transaction only; the code of one that is not depends on what the
// version knows. Version 12 adds the partition by itself.
func TestProduce_Transactions(t *testing.T) {
	for v := int16(3); v <= 13; v++ {
		synctest.Test(t, func(t *testing.T) {
			r := newProduceRig(t)
			producer := r.transact("tx")
			r.onFresh = func() { r.stamp = r.seq.now() }
			in := produceOf(-1, to{1, 0, transactional(from(producer, 0, recordBatch("a")))}, to{1, 5, transactional(from(producer, 0, recordBatch("b")))})
			in.TransactionID = kmsg.StringPtr("tx")
			got := r.send(v, in)
			require.Zero(t, got[0].ErrorCode)
			require.Zero(t, got[0].BaseOffset)
			switch {
			case v < 11:
				require.Equal(t, kerr.InvalidTxnState.Code, got[1].ErrorCode)
			case v == 11:
				require.Equal(t, kerr.TransactionAbortable.Code, got[1].ErrorCode)
			default:
				require.Zero(t, got[1].ErrorCode)
				require.Zero(t, r.asked.Load(), "the epoch tells what is late")
			}
			outside := produceOf(-1, to{1, 0, from(producer, 1, recordBatch("c"))})
			require.Equal(t, kerr.InvalidTxnState.Code, r.send(v, outside)[0].ErrorCode, "not transactional, though a transaction is open")
		})
	}
}

// TestProduce_LateBatchesOfTheFirstProtocol: what came before the end of its transaction is not taken in the next one,
// however long its bundle took.
func TestProduce_LateBatchesOfTheFirstProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		producer := r.transact("tx")
		r.onFresh = func() { r.stamp = r.seq.now() }
		in := produceOf(-1, to{1, 0, transactional(from(producer, 0, recordBatch("a")))})
		in.TransactionID = kmsg.StringPtr("tx")
		wait := r.begin(t.Context(), 9, in)
		synctest.Wait() // stamped, and gathered: its bundle is not sealed yet
		ref := metadata.TransactionRef{TransactionalID: "tx", ProducerID: producer, Version: metadata.ProtocolOne, AsOf: r.seq.now()}
		r.seq.apply(t, &metadata.EndTransaction{TransactionRef: ref})
		ref.AsOf = r.seq.now()
		r.seq.apply(t, &metadata.AddPartitions{TransactionRef: ref, Partitions: []id.TopicPartition{{Topic: id.Topic(topicID(1))}}})
		reply := wait()
		out := kmsg.NewPtrProduceResponse()
		out.SetVersion(9)
		require.NoError(t, out.ReadFrom(reply.Head))
		require.Equal(t, kerr.InvalidTxnState.Code, out.Topics[0].Partitions[0].ErrorCode)
		require.Zero(t, r.send(9, in)[0].ErrorCode, "sent now it is of the transaction that is")
	})
}

// TestProduce_NoStamp: without a stamp in time nothing is known of a batch's age, and the client is to try again.
func TestProduce_NoStamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		producer := r.transact("tx")
		in := produceOf(-1, to{1, 0, transactional(from(producer, 0, recordBatch("a")))})
		in.TransactionID = kmsg.StringPtr("tx")
		r.fresh = client.ErrUnavailable
		require.Equal(t, kerr.NotEnoughReplicas.Code, r.send(9, in)[0].ErrorCode)
		r.fresh = nil
		r.onFresh = func() { time.Sleep(stampTimeout + time.Millisecond) }
		r.stamp = 1 << 40
		require.Equal(t, kerr.NotEnoughReplicas.Code, r.send(9, in)[0].ErrorCode, "a stamp that came too late")
		r.onFresh = func() { r.stamp = r.seq.now() }
		require.Zero(t, r.send(9, in)[0].ErrorCode)
	})
}

func TestProduce_TimeoutsAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		r.writer.OnSessionClosed()
		began := time.Now()
		in := produceOf(-1, to{1, 0, recordBatch("a")})
		in.TimeoutMillis = 2000
		got := r.send(12, in)
		require.Equal(t, kerr.RequestTimedOut.Code, got[0].ErrorCode)
		require.Equal(t, 2*time.Second, time.Since(began))
	})
}

func TestProduce_DrainingRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		require.NoError(t, r.writer.Drain(t.Context()))
		r.catalogue.OnCatalogue(&api.Catalogue{Index: 9, Membership: &api.Membership{Version: 8, Members: []*api.Member{member(2, "a")}}})
		got := r.send(12, produceOf(-1, to{1, 0, recordBatch("a")}))
		require.Equal(t, kerr.NotLeaderForPartition.Code, got[0].ErrorCode)
		require.EqualValues(t, 8, got[0].CurrentLeader.LeaderEpoch)
		require.Contains(t, []int32{20, 21}, got[0].CurrentLeader.LeaderID)
	})
}

func TestProduce_MalformedClosesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		reply := r.Start(t.Context(), &edge.Request{Key: 0, Version: 9, Body: []byte{1, 2, 3}, Arrived: time.Now()})()
		require.True(t, reply.Close)
		require.Error(t, reply.Err)
	})
}
