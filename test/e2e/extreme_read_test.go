package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
)

// rawLimit bounds the wait for one answer.
const rawLimit = time.Minute

var errClosed = errors.New("connection closed")

// rawConn is a connection that sends requests as they are, one at a time.
type rawConn struct {
	address     string
	conn        net.Conn // nil before the first request and after a failure
	correlation int32
}

func (c *rawConn) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

func (c *rawConn) write(req kmsg.Request) error {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.address, rawLimit)
		if err != nil {
			return err
		}
		c.conn = conn
	}
	if err := c.conn.SetDeadline(time.Now().Add(rawLimit)); err != nil {
		return err
	}
	c.correlation++
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw"))
	_, err := c.conn.Write(format.AppendRequest(nil, req, c.correlation))
	return err
}

// sendOnly sends a request without an answer, and returns errClosed if the connection is closed then.
func (c *rawConn) sendOnly(req kmsg.Request) error {
	defer c.close()
	if err := c.write(req); err != nil {
		return err
	}
	if _, err := c.conn.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
		return errClosed
	} else if err != nil {
		return err
	}
	return errors.New("an answer to acks=0")
}

func (c *rawConn) do(req kmsg.Request) (resp kmsg.Response, err error) {
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if err := c.write(req); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != c.correlation {
		return nil, fmt.Errorf("correlation id %d, want %d", got, c.correlation)
	}
	body = body[4:]
	if req.IsFlexible() {
		body = body[1:] // no tags in the header
	}
	resp = req.ResponseKind()
	return resp, resp.ReadFrom(body)
}

// checkRaw reads each partition to its end, batch by batch: their offsets follow each other, and the well-behaved clients'
// batches hold what was acknowledged. Those of aborted transactions are in both isolation levels: clients leave them out.
func (w *extremeWorld) checkRaw(isolation int8) {
	w.t.Helper()
	c := &rawConn{address: w.bootstrap}
	defer c.close()
	got := map[place]string{}
	accepted := 0
	for topic := range extremeTopics {
		for p := range int32(extremePartitions) {
			end := w.list(c, topic, p, -1, isolation).Offset
			for next := int64(0); next < end; {
				batches := w.fetch(c, topic, p, next, isolation)
				require.NotEmpty(w.t, batches, "%s-%d at %d of %d", topic, p, next, end)
				for len(batches) > 0 {
					b, rest, err := kafkaproto.NextBatch(batches)
					require.NoError(w.t, err)
					require.Equal(w.t, next, b.BaseOffset(), "%s-%d", topic, p)
					require.Equal(w.t, b.CRC(), b.ComputeCRC())
					next, batches = b.LastOffset()+1, rest
					if _, extreme := w.mu.extreme[place{topic, p, b.BaseOffset()}]; extreme {
						accepted++
						continue
					}
					if !b.Control() {
						w.records(got, topic, p, b)
					}
				}
			}
		}
	}
	require.Equal(w.t, len(w.mu.extreme), accepted)
	require.Equal(w.t, w.expected(true, ""), got)
}

// records adds the records of a well-behaved client's batch.
func (w *extremeWorld) records(got map[place]string, topic string, partition int32, b kafkaproto.RecordBatch) {
	w.t.Helper()
	payload, err := kafkaproto.Decompress(b.Codec(), b[kafkaproto.BatchOverhead:], 1<<20)
	require.NoError(w.t, err)
	for len(payload) > 0 {
		length, n := binary.Varint(payload)
		require.Positive(w.t, n)
		var r kmsg.Record
		require.NoError(w.t, r.ReadFrom(payload[:n+int(length)]))
		payload = payload[n+int(length):]
		if value := string(r.Value); value != "end" {
			require.True(w.t, wellBehaved(value), "%q at %d of %s-%d", value, b.BaseOffset(), topic, partition)
			got[place{topic, partition, b.BaseOffset() + int64(r.OffsetDelta)}] = value
		}
	}
}

func (w *extremeWorld) fetch(c *rawConn, topic string, partition int32, offset int64, isolation int8) []byte {
	w.t.Helper()
	in := kmsg.NewPtrFetchRequest()
	in.SetVersion(11)
	in.ReplicaID, in.MaxWaitMillis, in.MinBytes, in.MaxBytes, in.IsolationLevel, in.SessionEpoch = -1, 1000, 1, 16<<20, isolation, -1
	t := kmsg.NewFetchRequestTopic()
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	in.Topics = append(in.Topics, t)
	resp, err := c.do(in)
	require.NoError(w.t, err)
	got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	require.NoError(w.t, kerr.ErrorForCode(got.ErrorCode), "%s-%d at %d", topic, partition, offset)
	return got.RecordBatches
}

func (w *extremeWorld) list(c *rawConn, topic string, partition int32, timestamp int64, isolation int8) kmsg.ListOffsetsResponseTopicPartition {
	w.t.Helper()
	in := kmsg.NewPtrListOffsetsRequest()
	in.SetVersion(7)
	in.ReplicaID, in.IsolationLevel = -1, isolation
	t := kmsg.NewListOffsetsRequestTopic()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = partition, timestamp
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	in.Topics = append(in.Topics, t)
	resp, err := c.do(in)
	require.NoError(w.t, err)
	got := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	require.NoError(w.t, kerr.ErrorForCode(got.ErrorCode), "%s-%d, timestamp %d", topic, partition, timestamp)
	return got
}

// checkListOffsets looks for timestamps and for the largest one in each partition.
func (w *extremeWorld) checkListOffsets() {
	w.t.Helper()
	c := &rawConn{address: w.bootstrap}
	defer c.close()
	largest := int64(math.MinInt64)
	for topic := range extremeTopics {
		for p := range int32(extremePartitions) {
			end := w.list(c, topic, p, -1, 0).Offset
			require.Zero(w.t, w.list(c, topic, p, -2, 0).Offset)
			for _, timestamp := range []int64{0, 1, time.Now().UnixMilli(), math.MaxInt64 - 1, math.MaxInt64, -3} {
				got := w.list(c, topic, p, timestamp, 0)
				require.Less(w.t, got.Offset, end)
				if timestamp == -3 {
					require.GreaterOrEqual(w.t, got.Offset, int64(0), "%s-%d", topic, p)
					largest = max(largest, got.Timestamp)
				} else if got.Offset >= 0 {
					require.GreaterOrEqual(w.t, got.Timestamp, timestamp, "%s-%d", topic, p)
				}
			}
		}
	}
	require.EqualValues(w.t, math.MaxInt64, largest)
}
