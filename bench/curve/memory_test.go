package curve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/objstore/file"
)

// The environment of TestMemory_Fill: the memory limit in bytes, the number of partitions, and the number of snapshots that trims
// and commits go on for without a pause.
const (
	memoryVariable     = "FRESHET_CURVE_MEMORY"
	partitionsVariable = "FRESHET_CURVE_PARTITIONS"
	incessantVariable  = "FRESHET_CURVE_INCESSANT"
)

// TestMemory_StaysBelowTheLimit fills a state to its bound in a process of its own. Trims and commits then change every partition while
// snapshots are taken and compared with the log. The test compares the peak of the resident memory with the limit.
func TestMemory_StaysBelowTheLimit(t *testing.T) {
	t.Run("50,000 partitions at 256 MiB", func(t *testing.T) { fillProcess(t, 256<<20, 50_000, 0) })
	t.Run("50,000 partitions at 256 MiB, incessant trims", func(t *testing.T) { fillProcess(t, 256<<20, 50_000, 3) })
	t.Run("100,000 partitions at 256 MiB", func(t *testing.T) { fillProcess(t, 256<<20, 100_000, 0) })
	t.Run("400,000 partitions at 1 GiB", func(t *testing.T) {
		nightly.Only(t, "fills 256 MiB of metadata")
		fillProcess(t, 1<<30, 400_000, 0)
	})
}

func fillProcess(t *testing.T, limit int64, partitions, incessant int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemory_Fill$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", memoryVariable, limit), fmt.Sprintf("%s=%d", partitionsVariable, partitions),
		fmt.Sprintf("%s=%d", incessantVariable, incessant))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
}

// TestMemory_Fill is the process of TestMemory_StaysBelowTheLimit.
func TestMemory_Fill(t *testing.T) {
	limit, err := strconv.ParseInt(os.Getenv(memoryVariable), 10, 64)
	if err != nil {
		t.Skip("only as a process of TestMemory_StaysBelowTheLimit")
	}
	partitions, err := strconv.Atoi(os.Getenv(partitionsVariable))
	require.NoError(t, err)
	incessant, err := strconv.Atoi(os.Getenv(incessantVariable))
	require.NoError(t, err)
	debug.SetMemoryLimit(controlplane.RuntimeMemory(limit)) // as cmd/freshet does
	cfg := controlplane.Config{MemoryLimit: limit, VirtualClusters: make([]controlplane.VirtualCluster, 1)}

	f := startFilling(t, cfg.Bounds())
	f.fill(partitions)
	if incessant > 0 {
		f.change(partitions, incessant)
	} else {
		f.changeAtTheBound(partitions)
	}
	var load metadata.Load
	_, err = f.owner.Read(func(s *metadata.State) { load = s.Load() })
	require.NoError(t, err)
	f.stop()

	peak := peakMemory(t)
	t.Logf("limit %d MiB: VmHWM %d MiB; %d partitions, %d extents, %d producers, estimated at %d MiB; %.0f snapshots", limit>>20, peak>>20,
		load.Partitions, load.Extents, load.Producers, load.MemoryBytes()>>20, f.snapshots())
	require.EqualValues(t, partitions, load.Partitions, "every partition has records")
	require.Less(t, peak, limit)
}

// changeAtTheBound trims every partition and commits until the owner refuses, twice, with a snapshot after each time.
func (f *filling) changeAtTheBound(partitions int) {
	full := f.snapshots()
	for below := range int64(2) {
		f.trim(partitions, below+1)
		f.commitUntilRefused(partitions)
		require.Eventually(f.t, func() bool { return f.snapshots() > full+float64(below) }, 2*time.Minute, 100*time.Millisecond, "snapshots at the bound")
	}
}

// change trims every partition by one record and commits one to each, over and over, until a number of snapshots have been taken.
func (f *filling) change(partitions, snapshots int) {
	enough := f.snapshots() + float64(snapshots)
	below, refused := int64(1), 0
	for ; f.snapshots() < enough; below++ {
		f.trim(partitions, below)
		if !f.commitRound(partitions) {
			refused++
		}
	}
	f.t.Logf("%d rounds of trims; commits refused in %d", below-1, refused)
}

// filling is a replica that owns a virtual cluster over a log and a bucket in files, and takes snapshots one after another.
type filling struct {
	t        *testing.T
	owner    *owner.Owner
	registry *prometheus.Registry
	stop     func()

	session id.Session
	commits uint32
	written int // batches
}

func startFilling(t *testing.T, bounds controlplane.Bounds) *filling {
	t.Helper()
	bucket, err := file.Open(t.TempDir())
	require.NoError(t, err)
	log, err := metalog.New(newFileStore(t), metalog.Config{})
	require.NoError(t, err)
	f := &filling{t: t, registry: prometheus.NewRegistry()}
	owned := make(chan struct{})
	r, err := replica.New(replica.Config{
		Replica: "a", Address: "a:1", Log: log, Bucket: bucket, SnapshotPrefix: "vc/snapshots/", Registerer: f.registry,
		SnapshotInterval: time.Millisecond, SnapshotMinBytes: 1, SnapshotPoll: 100 * time.Millisecond, MaxProducers: bounds.Producers,
		Owner: owner.Config{
			MaxExtents: bounds.Extents, MaxBytes: bounds.Bytes, QueueBytes: bounds.QueueBytes,
			MaxDelay: 20 * time.Millisecond, // for a test that does not last
		},
		OnOwner: func(o *owner.Owner) func() {
			f.owner = o
			close(owned)
			return func() {}
		},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	<-owned
	f.stop = func() {
		cancel()
		require.NoError(t, <-ended)
	}
	return f
}

// fill creates the topic and commits until the owner refuses.
func (f *filling) fill(partitions int) {
	f.propose(&metadata.CreateTopic{ID: topic, Name: topicName, Partitions: int32(partitions)})
	f.session = f.propose(&metadata.OpenSession{Instance: "i"}).(metadata.OpenSessionResult).Session
	f.commitUntilRefused(partitions)
}

// commitUntilRefused commits bundles until the owner refuses one.
func (f *filling) commitUntilRefused(partitions int) {
	for f.commitBundle(partitions) {
	}
}

// commitRound commits a batch to each partition. It returns false if the owner refuses one of the bundles.
func (f *filling) commitRound(partitions int) bool {
	for to := f.written + partitions; f.written < to; {
		if !f.commitBundle(partitions) {
			return false
		}
	}
	return true
}

// commitBundle commits a batch to each of the next 5,000 partitions. The first batch to a partition is of a producer of its own.
// commitBundle returns false if the owner refuses the bundle.
func (f *filling) commitBundle(partitions int) bool {
	const sections = 5000
	var b commit.Builder
	first, written := f.written%partitions, f.written
	b.Reset(commit.Header{Submission: id.Submission{Session: f.session, N: f.commits + 1}, Acked: f.commits, Bytes: 1 << 30})
	for i := range min(sections, partitions-first) {
		batch := commit.Batch{Records: 1, Bytes: 61, MaxTimestamp: 1, ProducerID: -1}
		if written < partitions {
			batch.ProducerID = int64(written)
		}
		b.Section(commit.Section{Partition: id.TopicPartition{Topic: topic, Partition: int32(first + i)}, Position: uint32(i) * 61})
		b.Batch(batch)
		written++
	}
	result, _, err := f.owner.Propose(f.t.Context(), &metadata.CommitBundle{Encoded: b.AppendTo(nil)})
	if errors.Is(err, owner.ErrOverloaded) {
		return false
	}
	require.NoError(f.t, err)
	require.NoError(f.t, result.Err)
	f.written, f.commits = written, f.commits+1
	return true
}

// trim trims every partition to an offset, so that each is copied while a snapshot is taken.
func (f *filling) trim(partitions int, below int64) {
	const trims = 5000
	for first := 0; first < partitions; first += trims {
		c := &metadata.TrimPartitions{}
		for i := range min(trims, partitions-first) {
			c.Trims = append(c.Trims, metadata.Trim{Partition: id.TopicPartition{Topic: topic, Partition: int32(first + i)}, Offset: below})
		}
		f.propose(c)
	}
	f.propose(&metadata.Tick{})
}

func (f *filling) propose(c metadata.Command) any {
	result, _, err := f.owner.Propose(f.t.Context(), c)
	require.NoError(f.t, err)
	require.NoError(f.t, result.Err)
	return result.Value
}

// snapshots returns the number of snapshots taken.
func (f *filling) snapshots() float64 {
	families, err := f.registry.Gather()
	require.NoError(f.t, err)
	for _, family := range families {
		if family.GetName() == "freshet_replica_snapshots_total" {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// peakMemory returns the most memory that the process had resident.
func peakMemory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc/self/status: the system does not report the peak of resident memory")
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			require.NoError(t, err)
			return kib << 10
		}
	}
	t.Fatal("no VmHWM in /proc/self/status")
	return 0
}
