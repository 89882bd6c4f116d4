package clients

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/test/harness"
)

// delays returns how long the first batch of a new producer is on its way. Agents wait 1.5 s for it; agent/writer and
// controlplane/session test that bound with a fake clock.
func delays() []time.Duration {
	if nightly.On() {
		return []time.Duration{500 * time.Millisecond, time.Second}
	}
	return []time.Duration{200 * time.Millisecond}
}

// twoAgents is a cluster of two agents, with the topic given, and a way to each agent.
func twoAgents(t *testing.T, topic string, partitions int32) (*harness.Cluster, []*side) {
	t.Helper()
	c := harness.StartCluster(t, harness.ClusterConfig{
		Agents: 2, ControlPlanes: 1,
		AgentFlags: []string{"--put-budget", "100"}, // the server here does not charge for PUTs
	})
	mustCreate(t, franz{}, job{Bootstrap: c.Agents[0].Bootstrap, Topic: topic, Partitions: partitions})
	sides := []*side{newSide(t, c.Agents[0].Bootstrap), newSide(t, c.Agents[1].Bootstrap)}
	return c, sides
}

// newProducer asks for a producer id.
func newProducer(t *testing.T, s *side) int64 {
	t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp := ask[*kmsg.InitProducerIDResponse](t, s.conn, req, 4)
	require.Zero(t, resp.ErrorCode, code(resp.ErrorCode))
	if resp.ProducerID == 0 { // a batchSpec without a producer
		return newProducer(t, s)
	}
	return resp.ProducerID
}

// sequenced is a produce of one record with the sequence number.
func sequenced(topic string, partition int32, producer int64, sequence int32) *kmsg.ProduceRequest {
	req := produceTo(topic, [16]byte{}, partition, batchSpec{
		producer: producer, sequence: sequence, timestamp: 1_700_000_000_000 + int64(sequence),
	}.raw())
	req.SetVersion(9)
	return req
}

// silent checks that nothing is answered for a time.
func silent(t *testing.T, w *wire, d time.Duration) {
	t.Helper()
	require.NoError(t, w.SetReadDeadline(time.Now().Add(d)))
	got := make([]byte, 200)
	n, err := w.Read(got)
	var timeout net.Error
	require.True(t, errors.As(err, &timeout) && timeout.Timeout(), "answered within %s: %x %v", d, got[:n], err)
}

// produced reads the answer to the request with the correlation id and gives its offsets by partition.
func produced(t *testing.T, w *wire, req *kmsg.ProduceRequest, correlation int32) map[int32]int64 {
	t.Helper()
	resp, err := w.receive(req, correlation)
	require.NoError(t, err)
	out := map[int32]int64{}
	for _, p := range resp.(*kmsg.ProduceResponse).Topics[0].Partitions {
		require.Zero(t, p.ErrorCode, "partition %d: %s", p.Partition, code(p.ErrorCode))
		out[p.Partition] = p.BaseOffset
	}
	return out
}

// TestGaps_FirstBatchLate: the second and third batch of a new producer reach one agent, the first one reaches another
// one later. They are waited for, take effect in order, and others do not wait.
func TestGaps_FirstBatchLate(t *testing.T) {
	c, _ := twoAgents(t, "late", int32(len(delays())))
	for i, delay := range delays() {
		t.Run(delay.String(), func(t *testing.T) {
			t.Parallel()
			p := int32(i)
			first, second, other := newSide(t, c.Agents[0].Bootstrap), newSide(t, c.Agents[1].Bootstrap), newSide(t, c.Agents[1].Bootstrap)
			producer := newProducer(t, first)
			one, two, three := sequenced("late", p, producer, 0), sequenced("late", p, producer, 1), sequenced("late", p, producer, 2)
			at := second.conn.correlation
			require.NoError(t, second.conn.send(two))
			require.NoError(t, second.conn.send(three))
			stranger := sequenced("late", p, newProducer(t, other), 0)
			require.NoError(t, other.conn.send(stranger))
			require.Equal(t, map[int32]int64{p: 0}, produced(t, other.conn, stranger, other.conn.correlation), "another producer does not wait")
			silent(t, second.conn, delay)
			require.NoError(t, first.conn.send(one))
			require.Equal(t, map[int32]int64{p: 1}, produced(t, first.conn, one, first.conn.correlation))
			require.Equal(t, map[int32]int64{p: 2}, produced(t, second.conn, two, at+1))
			require.Equal(t, map[int32]int64{p: 3}, produced(t, second.conn, three, at+2))
			again := sequenced("late", p, producer, 1)
			require.NoError(t, first.conn.send(again))
			require.Equal(t, map[int32]int64{p: 2}, produced(t, first.conn, again, first.conn.correlation), "a repetition by the other agent")
			got := mustConsume(t, franz{}, job{Bootstrap: c.Bootstrap(), Topic: "late", Partition: p, From: "offset", At: 1, Count: 3})
			for k, r := range got {
				require.Equal(t, 1_700_000_000_000+int64(k), r.Timestamp)
			}
		})
	}
}

// TestGaps_Crosswise: two producers and two agents; each agent has the second batch of one producer and the first of
// the other, in one request and in requests one after the other. Nobody waits for ever.
func TestGaps_Crosswise(t *testing.T) {
	_, sides := twoAgents(t, "cross", 2)
	join := func(a, b *kmsg.ProduceRequest) *kmsg.ProduceRequest {
		a.Topics[0].Partitions = append(a.Topics[0].Partitions, b.Topics[0].Partitions...)
		return a
	}
	p, q := newProducer(t, sides[0]), newProducer(t, sides[1])
	// Did a gap last as long as it is waited for, the answer would be an error.
	t.Run("in one request", func(t *testing.T) {
		requests := []*kmsg.ProduceRequest{
			join(sequenced("cross", 0, p, 1), sequenced("cross", 1, q, 0)),
			join(sequenced("cross", 1, q, 1), sequenced("cross", 0, p, 0)),
		}
		want := []map[int32]int64{{0: 1, 1: 0}, {0: 0, 1: 1}}
		for i, s := range sides {
			require.NoError(t, s.conn.send(requests[i]))
		}
		for i, s := range sides {
			require.Equal(t, want[i], produced(t, s.conn, requests[i], s.conn.correlation))
		}
	})
	t.Run("one after the other", func(t *testing.T) {
		requests := [][]*kmsg.ProduceRequest{
			{sequenced("cross", 0, p, 3), sequenced("cross", 1, q, 2)},
			{sequenced("cross", 1, q, 3), sequenced("cross", 0, p, 2)},
		}
		want := [][]map[int32]int64{{{0: 3}, {1: 2}}, {{1: 3}, {0: 2}}}
		for k := range 2 {
			for i, s := range sides {
				require.NoError(t, s.conn.send(requests[i][k]))
			}
		}
		for i, s := range sides {
			for k := range 2 {
				require.Equal(t, want[i][k], produced(t, s.conn, requests[i][k], s.conn.correlation-1+int32(k)))
			}
		}
	})
}

// TestGaps_StockClients: the leader of a partition changes while the first batch of a new idempotent producer is held
// up on its way to the old one. Nothing fails, is lost, or comes twice.
func TestGaps_StockClients(t *testing.T) {
	c, _ := twoAgents(t, "unused", 1)
	makers := map[string]func(testing.TB) family{
		"Java": func(t testing.TB) family {
			t.Helper()
			return worker{"Java", harness.JavaWorker(t, "Worker")}
		},
		"librdkafka": func(t testing.TB) family {
			t.Helper()
			return worker{"librdkafka", harness.PythonWorker(t, "worker.py")}
		},
		"franz-go": func(testing.TB) family { return franz{} },
	}
	for name, maker := range makers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, overtaken := maker(t), false
			for _, delay := range delays() {
				topic := "held-" + name + "-" + delay.String()
				mustCreate(t, franz{}, job{Bootstrap: c.Agents[0].Bootstrap, Topic: topic, Partitions: 2})
				m := newMover(t, c, delay, name == "Java")
				// One to the other partition first: a client with a connection to the second agent asks that for metadata.
				sent := []record{{Partition: 1, Value: []byte("other")}}
				var records []record
				for i := range 12 {
					records = append(records, record{Value: []byte{byte(i)}, Timestamp: 1_700_000_000_000 + int64(i)})
				}
				at := mustProduce(t, f, job{
					Bootstrap: m.bootstrap(), Topic: topic, Codec: "none", Acks: "all", Idempotent: true,
					Records: append(sent, records...), PauseMs: 100, MetadataMs: 50,
				})[1:]
				for i := range records {
					records[i].Offset = int64(i)
					require.Equal(t, int64(i), at[i], "acknowledged in order")
				}
				require.True(t, m.held(), "the first batch was held up")
				got := mustConsume(t, franz{}, job{Bootstrap: c.Bootstrap(), Topic: topic, From: "earliest", Count: len(records)})
				same(t, records, got, "%s, %s", name, delay)
				end, err := franz{}.offsets(t, job{Bootstrap: c.Bootstrap(), Topic: topic})
				require.NoError(t, err)
				require.Equal(t, int64(len(records)), end.Latest)
				overtaken = overtaken || m.overtaken()
			}
			if name == "Java" { // the others first wait for what is under way
				require.True(t, overtaken, "a later batch reached the other agent first")
			}
		})
	}
}
