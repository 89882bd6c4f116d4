package sim

import (
	"encoding/binary"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/ledger"
)

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// peakMemory is the most memory that the process had resident, where the system tells.
func peakMemory(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "peak of resident memory unknown"
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return "resident at most " + strings.TrimSpace(value)
		}
	}
	return "peak of resident memory unknown"
}

// TestMemory_HalfSentFrames: 500 connections announce a produce request of 1 MiB each, send half of it and fall
// silent. Memory stays within the bound, and others are served.
func TestMemory_HalfSentFrames(t *testing.T) { // not parallel: it measures the process
	c := newCluster(t, options{seed: 15, memory: 128 << 20})
	l := c.startLoad("t", 3, 2, 20*time.Millisecond)
	l.more(100)
	const connections, size = 500, 1 << 20
	before := heap()
	half := make([]byte, 4+size/2)
	binary.BigEndian.PutUint32(half, size)
	binary.BigEndian.PutUint16(half[4:], uint16(kmsg.Produce))
	binary.BigEndian.PutUint16(half[6:], produceVersion)
	var sent atomic.Int64
	for i := range connections {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", c.agents[i%2].address())
		require.NoError(t, err)
		defer conn.Close()
		go func() { // most of it stays in socket buffers, for the agent does not read it
			for rest := half; len(rest) > 0; {
				n, err := conn.Write(rest[:min(len(rest), 16<<10)])
				if err != nil {
					return
				}
				sent.Add(int64(n))
				rest = rest[n:]
			}
		}()
	}
	c.await("frames that wait for memory", func() bool { return c.agents[0].metric("freshet_kafka_request_memory_waiting") > 50 })
	grown := heap() - before
	l.more(300)
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 9
	require.NotEmpty(t, ask[*kmsg.MetadataResponse](c.dialWire(c.agents[0]), metadata, patience).Brokers)
	grown = max(grown, heap()-before)
	t.Logf("%d MiB sent, heap grew by %.1f MiB", sent.Load()>>20, float64(grown)/(1<<20))
	require.Less(t, grown, int64(2*128<<20/4), "two agents, a quarter of their memory limit each")
	l.stop(ledger.Rules{})
}

// TestMemory_SmallRecordsFullCache writes records of 300 bytes and reads them at the live edge for FRESHET_SIM_SOAK
// (8 s), with the least memory an agent takes, so that the caches are full most of the time.
func TestMemory_SmallRecordsFullCache(t *testing.T) { // not parallel: it measures the process
	const limit = 128 << 20
	c := newCluster(t, options{seed: 16, memory: limit, hedge: true})
	c.audit.keep = 128 << 20 // what a slow reader may be behind
	c.audit.dawdle = 50
	c.createTopic("t", 16)
	before := heap()
	producing, err := kgo.NewClient(c.clientOptions(kgo.DefaultProduceTopic("t"), kgo.ProducerLinger(5*time.Millisecond),
		kgo.MaxBufferedRecords(20_000), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	require.NoError(t, err)
	defer producing.Close()
	consuming, err := kgo.NewClient(c.clientOptions(kgo.ConsumeTopics("t"), kgo.FetchMaxBytes(4<<20),
		kgo.MaxConcurrentFetches(2))...)
	require.NoError(t, err)
	defer consuming.Close()
	ctx := t.Context()
	var acked, read, failed atomic.Int64
	go func() {
		for ctx.Err() == nil {
			fetches := consuming.PollFetches(ctx)
			read.Add(int64(fetches.NumRecords()))
		}
	}()
	length := duration(t, "FRESHET_SIM_SOAK", 8*time.Second)
	begun, end := time.Now(), time.Now().Add(length)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for time.Now().Before(end) {
			producing.Produce(ctx, &kgo.Record{Value: make([]byte, 300)}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Add(1)
				} else {
					acked.Add(1)
				}
			})
		}
	}()
	var tenths [10]int64 // most growth of the heap in each tenth of the run
	lastAcked, lastAt := int64(0), time.Now()
	cached := 0.0
	stalls := time.Duration(0)
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(time.Second):
		}
		tenth := &tenths[min(int(10*time.Since(begun)/length), 9)]
		*tenth = max(*tenth, (heap()-before)>>20)
		if now := acked.Load(); now > lastAcked {
			lastAcked, lastAt = now, time.Now()
		}
		stalls = max(stalls, time.Since(lastAt))
		for _, a := range c.agents {
			require.LessOrEqual(t, a.metric("freshet_write_buffer_held_bytes"), a.metric("freshet_write_buffer_limit_bytes"))
			cached = max(cached, a.metric("freshet_cache_bytes"))
		}
	}
	require.NoError(t, producing.Flush(ctx))
	c.await("the reader has all", func() bool { return read.Load() >= acked.Load() })
	t.Logf("%d records (%d MiB), %d puts, %d of them read slowly, longest time without an answer %v", acked.Load(),
		acked.Load()*300>>20, c.audit.puts.Load(), c.audit.dawdled.Load(), stalls.Round(time.Second))
	t.Logf("heap grew by at most %v MiB in the tenths of the run, the store's %d included; an agent cached at most %.0f MiB; %s",
		tenths, c.audit.keep>>20, cached/(1<<20), peakMemory(t))
	require.Zero(t, failed.Load())
	require.Less(t, stalls, patience, "progress never stops")
	early, late := slices.Max(tenths[:5]), slices.Max(tenths[5:])
	require.Less(t, late, (2*limit+c.audit.keep)>>20+clientsMiB, "both agents, what the store keeps, and the clients")
	if length >= 5*time.Minute { // everything is full in the first half
		require.Less(t, late, early+early/4, "memory goes on growing")
	}
}

// clientsMiB is room for the two clients' own buffers and garbage.
const clientsMiB = 192

// TestMemory_HedgedPutsReadLate: hedged PUTs whose losing attempt goes on reading the buffers long after the winner's
// answer. Under the race detector released memory is overwritten: every attempt must still see the right bytes.
func TestMemory_HedgedPutsReadLate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{seed: 17, hedge: true})
	c.audit.dawdle = 25
	l := c.startLoad("t", 3, 3, 20*time.Millisecond)
	c.await("slow puts", func() bool { return c.audit.dawdled.Load() >= 8 })
	hedged := 0.0
	for _, a := range c.agents {
		hedged += a.metric("freshet_objstore_hedges_total")
	}
	require.Positive(t, hedged)
	l.stop(ledger.Rules{})
}
