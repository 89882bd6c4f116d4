package merge_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/freshet-io/freshet/agent/job/merge"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
)

// same is a bucket in which every key has the same object, and which takes uploads and keeps nothing.
type same struct {
	objstore.Bucket
	data []byte
}

func (s same) Get(_ context.Context, _ string, offset, length int64) (io.ReadCloser, error) {
	from, n, _ := objstore.Range(offset, length, int64(len(s.data)))
	return io.NopCloser(bytes.NewReader(s.data[from : from+n])), nil
}

func (s same) Put(context.Context, string, objstore.Body) error { return nil }

func (s same) Create(context.Context, string) (objstore.Upload, error) { return s, nil }

func (same) Part(context.Context, int, int64, objstore.Body) error { return nil }

func (same) Complete(context.Context) error { return nil }

func (same) Abort(context.Context) error { return nil }

// uniform gives such a bucket with bundles of that many bytes, in sections of some partitions, and a plan that merges n.
func uniform(n, size, partitions, batchBytes int) (same, *job.Plan) {
	batch := make([]byte, batchBytes)
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	batch[16] = 2
	binary.BigEndian.PutUint32(batch[57:], 1)
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], objstore.Castagnoli))
	count := size / partitions / batchBytes
	section := bytes.Repeat(batch, count)
	b := same{data: bytes.Repeat(section, partitions)}
	plan := &job.Plan{ID: 1000, Kind: job.Compact, Level: 1}
	for i := range partitions {
		p := job.Partition{ID: tp(1, int32(i))}
		for j := range n {
			p.Extents = append(p.Extents, extent.Extent{
				Base: int64(j * count), Last: int64((j+1)*count - 1), Bundle: id.Submission{Session: 1, N: uint32(j)}.Bundle(),
				Position: uint32(i * len(section)), Length: uint32(len(section)), Batches: uint32(count),
			})
		}
		plan.Partitions = append(plan.Partitions, p)
	}
	return b, plan
}

// TestRun_MemoryIsBounded merges much more than it may hold.
func TestRun_MemoryIsBounded(t *testing.T) {
	const inputs, size, part = 24, 4 << 20, objstore.MinPart
	b, plan := uniform(inputs, size, 16, 16<<10)
	heap := func() int64 {
		runtime.GC() // twice: spare memory outlives one
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, most, looked := heap(), int64(0), int64(0)
	e := merge.Env{Bucket: b, Prefix: prefix, PartBytes: part, BundleBytes: 40 << 20, BuffersBytes: 4 << 20}
	_, err := merge.Run(t.Context(), plan, func(n int64) {
		if n-looked > 7<<20 {
			looked = n
			most = max(most, heap()-before)
		}
	}, e)
	require.NoError(t, err)
	require.EqualValues(t, inputs*size, bytesOf(plan))
	require.NotZero(t, most)
	require.Less(t, most, int64(2*part+4<<20+4<<20), "two parts, the buffers, some batches")
	require.Less(t, heap()-before, int64(1<<20), "nothing stays")
}

// cpuSeconds is the processor time of this process so far: other processes disturb it less than the clock.
func cpuSeconds(tb testing.TB) float64 {
	tb.Helper()
	var use unix.Rusage
	require.NoError(tb, unix.Getrusage(unix.RUSAGE_SELF, &use))
	return float64(use.Utime.Nano()+use.Stime.Nano()) / 1e9
}

// BenchmarkRun merges 64 inputs, the store costing nothing.
func BenchmarkRun(b *testing.B) {
	for _, batchBytes := range []int{1 << 10, 16 << 10, 128 << 10} {
		b.Run(fmt.Sprint(batchBytes), func(b *testing.B) {
			bucket, plan := uniform(64, 4<<20, 32, batchBytes)
			b.SetBytes(bytesOf(plan))
			b.ReportAllocs()
			before := cpuSeconds(b)
			for b.Loop() {
				_, err := merge.Run(b.Context(), plan, ignore, merge.Env{Bucket: bucket, Prefix: prefix, PartBytes: 16 << 20})
				require.NoError(b, err)
			}
			merged := float64(bytesOf(plan)) * float64(b.N) / (1 << 20)
			b.ReportMetric(merged/(cpuSeconds(b)-before), "MiB/cpu-s")
		})
	}
}
