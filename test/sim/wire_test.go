package sim

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
)

// wire is one Kafka connection without any client behind it: requests are pipelined as the test says, and nothing is
// ever sent again.
type wire struct {
	t    *testing.T
	conn net.Conn
	sent []kmsg.Request // unanswered, in order
	next int32
}

// dialWire connects to an agent.
func (c *cluster) dialWire(a *node) *wire {
	c.t.Helper()
	conn, err := new(net.Dialer).DialContext(c.t.Context(), "tcp", a.address())
	require.NoError(c.t, err)
	w := &wire{t: c.t, conn: conn}
	c.t.Cleanup(func() { conn.Close() })
	return w
}

// Versions that name topics by name and are known to every part.
const (
	produceVersion     = 11
	fetchVersion       = 12
	listOffsetsVersion = 7
)

func (w *wire) send(req kmsg.Request) {
	w.t.Helper()
	require.NoError(w.t, w.trySend(req))
}

func (w *wire) trySend(req kmsg.Request) error {
	w.next++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("wire")).AppendRequest(nil, req, w.next)
	if err := w.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := w.conn.Write(frame); err != nil {
		return err
	}
	w.sent = append(w.sent, req)
	return nil
}

// receive gives the answer of the oldest unanswered request.
func (w *wire) receive(limit time.Duration) (kmsg.Response, error) {
	req := w.sent[0]
	w.sent = w.sent[1:]
	if err := w.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(w.conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w.conn, body); err != nil {
		return nil, err
	}
	want := w.next - int32(len(w.sent))
	if got := int32(binary.BigEndian.Uint32(body)); got != want {
		return nil, fmt.Errorf("answer %d where %d was due", got, want)
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	head := 4
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		head++
	}
	return resp, resp.ReadFrom(body[head:])
}

// ask sends a request and gives its answer.
func ask[T kmsg.Response](w *wire, req kmsg.Request, limit time.Duration) T {
	w.t.Helper()
	w.send(req)
	resp, err := w.receive(limit)
	require.NoError(w.t, err)
	return resp.(T)
}

// askOwner is ask for what the owner answers, until it has: an agent that has lost it for a moment says that the client is to
// come again, as one does whose owner has just taken over.
func askOwner[T kmsg.Response](w *wire, req kmsg.Request, code func(T) int16) T {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		resp := ask[T](w, req, patience)
		if !kerr.IsRetriable(kerr.ErrorForCode(code(resp))) || time.Now().After(deadline) {
			return resp
		}
	}
}

// producer is the idempotent producer that a batch is of.
type producer struct {
	id    int64
	epoch int16
}

// nobody is the producer of batches without idempotence.
var nobody = producer{id: -1, epoch: -1}

// batch encodes one record batch, its first record at the sequence.
func batch(p producer, sequence int32, values ...string) []byte {
	var records []byte
	for i, value := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: []byte(value)}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // its own length is one byte while empty
		records = r.AppendTo(records)
	}
	if p == nobody {
		sequence = -1
	}
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(values) - 1), FirstTimestamp: 1_700_000_000_000,
		MaxTimestamp: 1_700_000_000_000, ProducerID: p.id, ProducerEpoch: p.epoch, FirstSequence: sequence,
		NumRecords: int32(len(values)), Records: records,
	}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// produceRequest brings one batch to each of the partitions given.
func produceRequest(topic string, batches map[int32][]byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = produceVersion, -1, int32(patience.Milliseconds())
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	for p, records := range batches {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = p, records
		t.Partitions = append(t.Partitions, part)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// produced is the answer for one partition.
func produced(t *testing.T, resp kmsg.Response, partition int32) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	for _, topic := range resp.(*kmsg.ProduceResponse).Topics {
		for _, p := range topic.Partitions {
			if p.Partition == partition {
				return p
			}
		}
	}
	require.Fail(t, "no answer for the partition")
	return kmsg.ProduceResponseTopicPartition{}
}

// fetchRequest asks for everything of the partitions from the offsets on, without waiting.
func fetchRequest(topic string, offsets map[int32]int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes, req.SessionEpoch = fetchVersion, 50<<20, 1, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	for p, offset := range offsets {
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.FetchOffset, part.PartitionMaxBytes, part.CurrentLeaderEpoch = p, offset, 50<<20, -1
		t.Partitions = append(t.Partitions, part)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// fetch asks the agent for everything from the offsets on.
func (w *wire) fetch(topic string, offsets map[int32]int64) *kmsg.FetchResponse {
	w.t.Helper()
	return ask[*kmsg.FetchResponse](w, fetchRequest(topic, offsets), patience)
}

// fetched is the answer for one partition.
func fetched(t *testing.T, resp *kmsg.FetchResponse, partition int32) kmsg.FetchResponseTopicPartition {
	t.Helper()
	require.Zero(t, resp.ErrorCode)
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			if p.Partition == partition {
				return p
			}
		}
	}
	require.Fail(t, "no answer for the partition")
	return kmsg.FetchResponseTopicPartition{}
}

// readAll fetches a partition from the offset on until nothing more comes. An answer may leave out what would have to be
// read from the object store when it has something else to give.
func (w *wire) readAll(topic string, partition int32, from int64) (out []stored) {
	w.t.Helper()
	for {
		p := fetched(w.t, w.fetch(topic, map[int32]int64{partition: from}), partition)
		require.Zero(w.t, p.ErrorCode)
		got := batches(w.t, p.RecordBatches)
		if len(got) == 0 {
			require.Equal(w.t, p.HighWatermark, from, "an empty answer before the end")
			return out
		}
		out = append(out, got...)
		last := []byte(got[len(got)-1].bytes)
		from = got[len(got)-1].base + int64(binary.BigEndian.Uint32(last[23-16:])) + 1
	}
}

// stored is one batch as it was read.
type stored struct {
	base  int64
	bytes string // from the magic byte on: what lies before it is the broker's
}

// batches takes a fetch answer's records apart and checks each batch's own checksum.
func batches(t *testing.T, records []byte) (out []stored) {
	t.Helper()
	for b, err := range kafkaproto.Batches(records) {
		require.NoError(t, err)
		require.Equal(t, b.ComputeCRC(), b.CRC(), "checksum of the batch at %d", b.BaseOffset())
		out = append(out, stored{b.BaseOffset(), string(b[16:])})
	}
	return out
}

// endOffset asks one agent for the end of a partition; a partition's error comes back as its code.
func endOffset(w *wire, topic string, partition int32, limit time.Duration) (offset int64, code int16) {
	w.t.Helper()
	resp := ask[*kmsg.ListOffsetsResponse](w, endRequest(topic, partition), limit)
	answer := resp.Topics[0].Partitions[0]
	return answer.Offset, answer.ErrorCode
}

func endRequest(topic string, partition int32) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = listOffsetsVersion, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, -1, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// newProducer gets a producer id.
func newProducer(w *wire) producer {
	w.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionTimeoutMillis = 4, 1000
	resp := askOwner(w, req, func(r *kmsg.InitProducerIDResponse) int16 { return r.ErrorCode })
	require.Zero(w.t, resp.ErrorCode)
	return producer{resp.ProducerID, resp.ProducerEpoch}
}
