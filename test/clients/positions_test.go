package clients

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/test/harness"
)

// TestPositions: every family starts at the earliest, the latest, an offset and a timestamp, and finds the record of a
// timestamp exactly, within batches too.
func TestPositions(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t)
	all, base := families(t), baseTime()
	const topic = "positions"
	mustCreate(t, all["franz-go"], job{Bootstrap: dev.Bootstrap, Topic: topic, Partitions: 1})
	var want []record
	for batch := range 3 { // three batches, two of them compressed
		records := sample(0, base+int64(batch)*100_000)
		mustProduce(t, all["Java"], job{
			Bootstrap: dev.Bootstrap, Topic: topic, Codec: codecs[batch], Acks: "all", Idempotent: true, Records: records,
			BatchBytes: 1 << 20,
		})
		want = append(want, records...)
	}
	for i := range want {
		want[i].Offset = int64(i)
	}
	timestamps := []int64{0, base - 1, base, base + 1, base + 3000, base + 3001, base + 72_500, base + 100_000, base + 250_001}
	timestamps = append(timestamps, maxTimestamp(want).Timestamp, maxTimestamp(want).Timestamp+1)
	for name, f := range all {
		t.Run(name, func(t *testing.T) {
			j := job{Bootstrap: dev.Bootstrap, Topic: topic}
			for _, at := range []struct {
				from  string
				at    int64
				first int
			}{
				{"earliest", 0, 0},
				{"offset", 0, 0},
				{"offset", 57, 57},
				{"offset", int64(len(want)) - 1, len(want) - 1},
				{"timestamp", base + 3001, int(after(want, base+3001).Offset)},
				{"timestamp", base + 100_001, int(after(want, base+100_001).Offset)},
			} {
				j.From, j.At, j.Count = at.from, at.at, min(5, len(want)-at.first)
				same(t, want[at.first:at.first+j.Count], mustConsume(t, f, j), "from %s %d", at.from, at.at)
			}
			j.Timestamps = timestamps
			found, err := f.offsets(t, j)
			require.NoError(t, err)
			require.Equal(t, offsets{
				Earliest: 0, Latest: int64(len(want)), Max: told(f, maxTimestamp(want), true), Times: lookups(f, want, timestamps),
			}, found)
		})
	}
}

// after gives the first record, in offset order, with the timestamp or a later one; -1, -1 if there is none.
func after(records []record, timestamp int64) offset {
	for _, r := range records {
		if r.Timestamp >= timestamp {
			return offset{r.Offset, r.Timestamp}
		}
	}
	return offset{-1, -1}
}

// maxTimestamp gives the first record with the largest timestamp.
func maxTimestamp(records []record) offset {
	best := offset{-1, -1}
	for _, r := range records {
		if r.Timestamp > best.Timestamp {
			best = offset{r.Offset, r.Timestamp}
		}
	}
	return best
}

func lookups(f family, records []record, timestamps []int64) []offset {
	var out []offset
	for _, at := range timestamps {
		out = append(out, told(f, after(records, at), false))
	}
	return out
}

// TestLatest: a consumer that starts at the end gets what comes after, and only that.
func TestLatest(t *testing.T) {
	dev := harness.StartDev(t)
	for name, f := range families(t) {
		t.Run(name, func(t *testing.T) {
			j := job{Bootstrap: dev.Bootstrap, Topic: "latest-" + name, Partitions: 1, Codec: "none", Acks: "all", Records: sample(0, baseTime())[:3]}
			mustCreate(t, f, j)
			mustProduce(t, f, j)
			// The consumer begins at some moment while the producer goes on: it gets a run without a gap up to some record.
			j.From, j.Count = "latest", 2
			got := make(chan []record, 1)
			errs := make(chan error, 1)
			go func() {
				records, err := f.consume(t, j)
				got <- records
				errs <- err
			}()
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			next := int64(3)
			for {
				at := mustProduce(t, franz{}, job{
					Bootstrap: j.Bootstrap, Topic: j.Topic, Codec: "none", Acks: "all", Records: []record{{Value: fmt.Append(nil, next)}},
				})
				require.Equal(t, next, at[0])
				next++
				select {
				case records := <-got:
					require.NoError(t, <-errs)
					require.Len(t, records, 2)
					for _, r := range records {
						require.GreaterOrEqual(t, r.Offset, int64(3))
						require.Equal(t, fmt.Sprint(r.Offset), string(r.Value))
					}
					require.Equal(t, records[0].Offset+1, records[1].Offset)
					return
				case <-tick.C:
				}
			}
		})
	}
}

// TestLogAppendTime: with message.timestamp.type=LogAppendTime records carry the agent's time, whatever the client
// said, and clients are told which kind it is.
func TestLogAppendTime(t *testing.T) {
	dev := harness.StartDev(t)
	for name, f := range families(t) {
		t.Run(name, func(t *testing.T) {
			began := time.Now().UnixMilli()
			j := job{
				Bootstrap: dev.Bootstrap, Topic: "append-" + name, Partitions: 1, Configs: map[string]string{"message.timestamp.type": "LogAppendTime"},
				Codec: "lz4", Acks: "all", Idempotent: true, Records: sample(0, baseTime()),
			}
			mustCreate(t, f, j)
			results, err := f.produce(t, j)
			require.NoError(t, err)
			for i, r := range results {
				require.Empty(t, r.Error)
				require.Equal(t, int64(i), r.Offset)
			}
			j.From, j.Count = "earliest", len(j.Records)
			got := mustConsume(t, franz{}, j)
			for i, r := range got {
				require.True(t, r.LogAppend)
				require.GreaterOrEqual(t, r.Timestamp, began)
				require.LessOrEqual(t, r.Timestamp, time.Now().UnixMilli())
				require.Equal(t, j.Records[i].Value, r.Value)
				if name == "Java" || name == "librdkafka" {
					require.Equal(t, r.Timestamp, results[i].Timestamp, "the producer is told")
				}
			}
			// sarama alone does not tell which kind it is.
			again := mustConsume(t, f, j)
			for i := range again {
				again[i].LogAppend = true
			}
			same(t, got, again, "read by %s", name)
		})
	}
}

// TestAcks: with and without idempotence, every acks and codec; acks 0 and 1 arrive too.
func TestAcks(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t)
	for name, f := range families(t) {
		t.Run(name, func(t *testing.T) {
			topic := "acks-" + name
			mustCreate(t, f, job{Bootstrap: dev.Bootstrap, Topic: topic, Partitions: 3})
			for p, acks := range []string{"0", "1", "all"} {
				records := sample(int32(p), baseTime())
				results, err := f.produce(t, job{Bootstrap: dev.Bootstrap, Topic: topic, Codec: codecs[p+1], Acks: acks, Records: records})
				require.NoError(t, err)
				for i := range records {
					records[i].Offset = int64(i)
					require.Empty(t, results[i].Error)
					require.Equal(t, map[bool]int64{true: -1, false: int64(i)}[acks == "0"], results[i].Offset, "acks %s", acks)
				}
				got := mustConsume(t, franz{}, job{Bootstrap: dev.Bootstrap, Topic: topic, Partition: int32(p), From: "earliest", Count: len(records)})
				same(t, records, got, "acks %s", acks)
			}
		})
	}
}

// TestLarge: records up to max.message.bytes are taken, and larger ones refused with the client's own error for it,
// without harm to the others.
func TestLarge(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t)
	tooLarge := map[string]string{
		"Java": "RecordTooLargeException", "librdkafka": "MSG_SIZE_TOO_LARGE", "franz-go": "MESSAGE_TOO_LARGE", "sarama": "too large",
	}
	for name, f := range families(t) {
		for _, limit := range []int{1_048_588, 10 << 20} {
			t.Run(fmt.Sprint(name, " ", limit), func(t *testing.T) {
				topic := fmt.Sprint("large-", strings.ToLower(name), "-", limit)
				configs := map[string]string{"max.message.bytes": fmt.Sprint(limit)}
				mustCreate(t, f, job{Bootstrap: dev.Bootstrap, Topic: topic, Partitions: 1, Configs: configs})
				value := func(n int) []byte { return bytes.Repeat([]byte{byte(n)}, n) }
				want := []record{{Value: value(limit - 100)}, {Value: value(limit - 1000)}, {Value: []byte("small")}}
				j := job{Bootstrap: dev.Bootstrap, Topic: topic, Codec: "none", Acks: "all", Idempotent: true}
				for _, sent := range [][]record{want[:1], {{Value: value(limit + 100)}}, want[1:2], want[2:]} {
					j.Records = sent
					results, err := f.produce(t, j)
					require.NoError(t, err)
					if len(sent[0].Value) <= limit {
						require.Empty(t, results[0].Error)
						continue
					}
					require.Contains(t, results[0].Error, tooLarge[name])
				}
				j.From, j.Count = "earliest", len(want)
				got := mustConsume(t, f, j)
				for i := range want {
					require.True(t, bytes.Equal(want[i].Value, got[i].Value), "record %d: %d bytes, %d read", i, len(want[i].Value), len(got[i].Value))
				}
			})
		}
	}
}

// TestAcksZero_Errors: nothing is answered to acks 0; what goes wrong closes the connection, as in Kafka.
func TestAcksZero_Errors(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, "--auto-create-topics=false")
	mustCreate(t, franz{}, job{Bootstrap: dev.Bootstrap, Topic: "zero", Partitions: 1})
	unanswered := func(w *wire, topic string, spec batchSpec) {
		req := produceTo(topic, [16]byte{}, 0, spec.raw())
		req.Acks = 0
		req.SetVersion(9)
		require.NoError(t, w.send(req))
	}
	good := dial(t, dev.Bootstrap)
	for range 3 {
		unanswered(good, "zero", batchSpec{timestamp: 1})
	}
	ask[*kmsg.MetadataResponse](t, good, kmsg.NewPtrMetadataRequest(), 9) // the next answer on the connection
	got := mustConsume(t, franz{}, job{Bootstrap: dev.Bootstrap, Topic: "zero", From: "earliest", Count: 3})
	require.Len(t, got, 3)
	for name, fault := range map[string]func(w *wire){
		"unknown topic": func(w *wire) { unanswered(w, "unknown", batchSpec{}) },
		"bad checksum":  func(w *wire) { unanswered(w, "zero", batchSpec{corrupt: true}) },
	} {
		w := dial(t, dev.Bootstrap)
		fault(w)
		_, err := w.frame(0)
		require.ErrorIs(t, err, errClosed, name)
	}
}
