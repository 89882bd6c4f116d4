package timing

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/test/harness"
)

// hostileFor returns how long each attack lasts, at least.
func hostileFor() time.Duration {
	if nightly.On() {
		return 4 * time.Second
	}
	return time.Second
}

// mostLines returns how many lines a process may log under attack. The listener, the fetcher and the group coordinator
// may each log 5 warnings at once and one per second. Everything else together is a few lines.
func mostLines(elapsed time.Duration) int {
	const limiters, burst, perSecond, others = 3, 5, 1, 40
	return limiters*(burst+perSecond*int(elapsed/time.Second)) + others
}

// TestHostile_OthersAreServed: clients send noise, broken requests of every API, frames that claim much and stop, and
// fetches whose answers they never read. The process lives on in bounded memory and an honest client is served.
func TestHostile_OthersAreServed(t *testing.T) {
	const limit = 256 << 20
	started := time.Now()
	d := harness.StartDev(t, "--memory-limit", strconv.Itoa(limit))
	harness.CLI(t, d.Bootstrap, nil, "topic", "create", "t", "--partitions", "4")
	const seed = 1
	fill(t, d.Bootstrap, 96<<20)

	for name, attack := range map[string]struct {
		clients int
		once    func(*rand.Rand, net.Conn)
		served  int // round trips of the honest client, at least
	}{
		"noise":               {8, noise, 5},
		"unregister brokers":  {2, unregister, 5},
		"broken requests":     {8, brokenRequests, 5},
		"connections for fun": {16, func(*rand.Rand, net.Conn) {}, 5},
		// These hold memory that others wait for, each until it has stood still for 2 s.
		"half-sent frames":   {400, halfSent, 1},
		"answers never read": {150, neverRead, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var attackers sync.WaitGroup
			var attacks atomic.Int64
			for i := range attack.clients {
				attackers.Go(func() {
					r := rand.New(rand.NewPCG(seed, uint64(i)))
					for ctx.Err() == nil {
						if c, err := net.DialTimeout("tcp", d.Bootstrap, time.Second); err == nil {
							stop := context.AfterFunc(ctx, func() { c.Close() })
							attack.once(r, c)
							stop()
							c.Close()
							attacks.Add(1)
						}
					}
				})
			}
			served, slowest := honest(t, attack.served, d.Bootstrap)
			cancel()
			attackers.Wait()
			t.Logf("%d attacks; honest client: %d round trips, slowest %s; peak memory %d MiB", attacks.Load(), served, slowest, peak(t, d.PID())>>20)
			require.True(t, d.Running())
			require.Positive(t, attacks.Load())
			if runtime.GOOS == "linux" {
				require.Less(t, peak(t, d.PID()), int64(limit)*2, "memory")
			}
		})
	}
	require.NotContains(t, d.Output(), "panic")
	harness.CLI(t, d.Bootstrap, strings.NewReader("after all\n"), "produce", "after")
	require.Equal(t, "after all\n", harness.CLI(t, d.Bootstrap, nil, "consume", "after", "--from", "earliest", "-e"))
	logged, most := lines(d.Output()), mostLines(time.Since(started))
	t.Logf("%d lines in the log, bound %d", logged, most)
	require.LessOrEqual(t, logged, most, "the log is not filled")
}

// lines counts those of a log that are not etcd's, which warns of a machine that is slow.
func lines(log string) (n int) {
	for line := range strings.Lines(log) {
		if !strings.Contains(line, " logger=etcd") {
			n++
		}
	}
	return n
}

// fill produces so many bytes of records to topic t.
func fill(t *testing.T, bootstrap string, bytes int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic("t"), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	value := make([]byte, 64<<10)
	for range bytes / len(value) {
		client.Produce(t.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("produce: %v", err)
			}
		})
	}
	require.NoError(t, client.Flush(t.Context()))
}

// roundTrip bounds one of the honest client's: attackers hold the machine's processors too.
const roundTrip = 2 * time.Minute

// honest produces and reads back one record after the other, for hostileFor and as many times at least. It fails when one
// takes longer than roundTrip.
func honest(t *testing.T, least int, bootstrap string) (served int, slowest time.Duration) {
	t.Helper()
	end := time.Now().Add(hostileFor())
	topic := fmt.Sprintf("honest-%d", time.Now().UnixNano())
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation(),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(50*time.Millisecond))
	require.NoError(t, err)
	defer client.Close()
	for time.Now().Before(end) || served < least {
		began := time.Now()
		one, cancel := context.WithTimeout(t.Context(), roundTrip)
		require.NoError(t, client.ProduceSync(one, kgo.StringRecord(strconv.Itoa(served))).FirstErr())
		for read := 0; read == 0; {
			fetches := client.PollFetches(one)
			require.NoError(t, one.Err())
			fetches.EachRecord(func(r *kgo.Record) {
				read++
				require.Equal(t, strconv.Itoa(served), string(r.Value))
			})
		}
		cancel()
		served++
		slowest = max(slowest, time.Since(began))
	}
	return served, slowest
}

func random(r *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// write sends what it can within a second.
func write(c net.Conn, p []byte) bool {
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, err := c.Write(p)
	return err == nil
}

func noise(r *rand.Rand, c net.Conn) { write(c, random(r, 1+r.IntN(4096))) }

// frame encodes a request of any bytes.
func frame(key, version int16, size int32, body []byte) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(size))
	p = binary.BigEndian.AppendUint16(p, uint16(key))
	p = binary.BigEndian.AppendUint16(p, uint16(version))
	return append(p, body...)
}

// brokenRequests sends requests of served APIs and versions with random bodies, or real ones with random damage.
func brokenRequests(r *rand.Rand, c net.Conn) {
	table := kafkaproto.Table()
	for range 20 {
		e := table[r.IntN(len(table))]
		if e.Served.Empty() {
			continue
		}
		version := e.Served.Min + int16(r.IntN(int(e.Served.Max-e.Served.Min)+1))
		body := random(r, r.IntN(300))
		if r.IntN(2) == 0 {
			request := kmsg.RequestForKey(e.Key)
			request.SetVersion(version)
			body = binary.BigEndian.AppendUint32(nil, r.Uint32()) // correlation id
			body = append(body, 0xff, 0xff)                       // no client id
			if request.IsFlexible() {
				body = append(body, 0)
			}
			body = request.AppendTo(body)
			for range 1 + r.IntN(4) {
				body[r.IntN(len(body))] = byte(r.Uint32())
			}
		}
		if !write(c, frame(e.Key, version, int32(4+len(body)), body)) {
			return
		}
	}
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, _ = c.Read(make([]byte, 4096))
}

// unregister asks for every broker there may be to be taken out of the cluster.
func unregister(_ *rand.Rand, c net.Conn) {
	for node := range int32(10) {
		request := kmsg.NewPtrUnregisterBrokerRequest()
		request.BrokerID = node
		body := binary.BigEndian.AppendUint32(nil, uint32(node)) // correlation id
		body = append(body, 0xff, 0xff, 0)                       // no client id, no tags
		body = request.AppendTo(body)
		if !write(c, frame(request.Key(), 0, int32(4+len(body)), body)) {
			return
		}
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.ReadFull(c, make([]byte, 256))
}

// halfSent claims up to 100 MiB, sends a part, and waits to be thrown out.
func halfSent(r *rand.Rand, c net.Conn) {
	keys := []int16{0, 1, 3, 19}
	key := keys[r.IntN(len(keys))]
	write(c, frame(key, 7, int32(1<<20+r.IntN(99<<20)), random(r, r.IntN(256<<10))))
	_, _ = c.Read(make([]byte, 1))
}

// neverRead fetches everything, again and again, and reads nothing.
func neverRead(r *rand.Rand, c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10)
	}
	request := kmsg.NewPtrFetchRequest()
	request.Version, request.MaxBytes, request.MinBytes, request.MaxWaitMillis, request.ReplicaID = 11, 1<<31-1, 1, 1000, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "t"
	for i := range int32(4) {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = i, int64(r.IntN(300)), 1<<31-1
		topic.Partitions = append(topic.Partitions, p)
	}
	request.Topics = append(request.Topics, topic)
	for range 10 {
		body := binary.BigEndian.AppendUint32(nil, 1)
		body = append(body, 0xff, 0xff)
		body = request.AppendTo(body)
		if !write(c, frame(1, request.Version, int32(4+len(body)), body)) {
			return
		}
	}
	buf := make([]byte, 1)
	for { // a byte now and then, so that nobody knows whether it is only slow
		if _, err := c.Read(buf); err != nil {
			return
		}
		pause := time.NewTimer(time.Second)
		<-pause.C
	}
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak is the most memory a process has held, bytes; 0 where that cannot be known.
func peak(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	found := peakLine.FindSubmatch(status)
	require.NotNil(t, found)
	kib, err := strconv.ParseInt(string(found[1]), 10, 64)
	require.NoError(t, err)
	return kib << 10
}
