package curve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore/file"
)

// memoryVariable holds the filling of the process TestMemory_Fill as JSON.
const memoryVariable = "FRESHET_CURVE_MEMORY"

// memoryCase is a way to fill a state to its bound.
type memoryCase struct {
	Limit      int64 // bytes of memory
	Partitions int
	Agents     int // each has one commit in flight
	Incessant  int // snapshots during which trims and commits go on without a pause
}

// TestMemory_StaysBelowTheLimit fills a state to its bound in a process of its own. Trims and commits then change every partition while
// snapshots are taken and compared with the log. The test compares the peak of the resident memory with the limit.
func TestMemory_StaysBelowTheLimit(t *testing.T) {
	t.Run("50,000 partitions at 256 MiB", func(t *testing.T) { fillProcess(t, memoryCase{Limit: 256 << 20, Partitions: 50_000, Agents: 1}) })
	t.Run("50,000 partitions at 256 MiB, incessant trims", func(t *testing.T) {
		fillProcess(t, memoryCase{Limit: 256 << 20, Partitions: 50_000, Agents: 1, Incessant: 3})
	})
	t.Run("100,000 partitions at 256 MiB", func(t *testing.T) { fillProcess(t, memoryCase{Limit: 256 << 20, Partitions: 100_000, Agents: 1}) })
	t.Run("64 agents at 256 MiB", func(t *testing.T) { fillProcess(t, memoryCase{Limit: 256 << 20, Partitions: 100_000, Agents: 64}) })
	t.Run("400,000 partitions at 1 GiB", func(t *testing.T) {
		nightly.Only(t, "fills 256 MiB of metadata")
		fillProcess(t, memoryCase{Limit: 1 << 30, Partitions: 400_000, Agents: 1})
	})
}

func fillProcess(t *testing.T, c memoryCase) {
	t.Helper()
	encoded, err := json.Marshal(c)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemory_Fill$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), memoryVariable+"="+string(encoded))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
}

// TestMemory_Fill is the process of TestMemory_StaysBelowTheLimit.
func TestMemory_Fill(t *testing.T) {
	if os.Getenv(memoryVariable) == "" {
		t.Skip("only as a process of TestMemory_StaysBelowTheLimit")
	}
	var c memoryCase
	require.NoError(t, json.Unmarshal([]byte(os.Getenv(memoryVariable)), &c))
	debug.SetMemoryLimit(controlplane.RuntimeMemory(c.Limit)) // as cmd/freshet does
	cfg := controlplane.Config{MemoryLimit: c.Limit, VirtualClusters: make([]controlplane.VirtualCluster, 1)}

	f := startFilling(t, cfg.Bounds(), c)
	f.fill()
	if c.Incessant > 0 {
		f.change(c.Incessant)
	} else {
		f.changeAtTheBound()
	}
	var load metadata.Load
	_, err := f.owner.Read(func(s *metadata.State) { load = s.Load() })
	require.NoError(t, err)
	f.stop()

	peak := peakMemory(t)
	t.Logf("limit %d MiB: VmHWM %d MiB; %d partitions, %d extents, %d producers, estimated at %d MiB; %.0f snapshots", c.Limit>>20, peak>>20,
		load.Partitions, load.Extents, load.Producers, load.MemoryBytes()>>20, f.snapshots())
	require.EqualValues(t, c.Partitions, load.Partitions, "every partition has records")
	if waited, ran := scheduled(t); peak >= c.Limit && waited > ran/3 {
		t.Skipf("threads waited %s for a processor and ran %s: the collector falls behind on a machine so busy with other work", waited, ran)
	}
	require.Less(t, peak, c.Limit)
}

// scheduled returns how long the threads of this process waited for a processor, and how long they ran. On a quiet machine the wait is a
// fifth.
func scheduled(t *testing.T) (waited, ran time.Duration) {
	t.Helper()
	threads, err := filepath.Glob("/proc/self/task/*/schedstat")
	require.NoError(t, err)
	for _, name := range threads {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		var run, wait time.Duration // nanoseconds
		_, err = fmt.Sscan(string(b), &run, &wait)
		require.NoError(t, err)
		waited, ran = waited+wait, ran+run
	}
	return waited, ran
}

// changeAtTheBound trims every partition and commits until the owner refuses, twice, with a snapshot after each time.
func (f *filling) changeAtTheBound() {
	full := f.snapshots()
	for below := range int64(2) {
		f.trim(below + 1)
		f.commitUntilRefused()
		require.Eventually(f.t, func() bool { return f.snapshots() > full+float64(below) }, 2*time.Minute, 100*time.Millisecond, "snapshots at the bound")
	}
}

// change trims every partition by one record and commits one to each, over and over, until a number of snapshots have been taken.
func (f *filling) change(snapshots int) {
	enough := f.snapshots() + float64(snapshots)
	below, refused := int64(1), 0
	for ; f.snapshots() < enough; below++ {
		f.trim(below)
		if !f.commitRound() {
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

	memoryCase
	agents  []fillingAgent
	written atomic.Int64 // batches
}

// fillingAgent has one commit in flight at most.
type fillingAgent struct {
	session id.Session
	commits uint32
}

func startFilling(t *testing.T, bounds controlplane.Bounds, c memoryCase) *filling {
	t.Helper()
	bucket, err := file.Open(t.TempDir())
	require.NoError(t, err)
	store := newFileStore(t)
	lease, err := metalog.NewLease(store, metalog.Config{})
	require.NoError(t, err)
	t.Cleanup(memlog.Start(lease))
	log, err := metalog.New(store, metalog.Config{Lease: lease})
	require.NoError(t, err)
	f := &filling{t: t, registry: prometheus.NewRegistry(), memoryCase: c}
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
func (f *filling) fill() {
	f.propose(&metadata.CreateTopic{ID: topic, Name: topicName, Partitions: int32(f.Partitions)})
	for i := range f.Agents {
		opened := f.propose(&metadata.OpenSession{Instance: fmt.Sprint("i", i)}).(metadata.OpenSessionResult)
		f.agents = append(f.agents, fillingAgent{session: opened.Session})
	}
	f.commitUntilRefused()
}

// commitUntilRefused commits bundles of all agents side by side until the owner refuses one of each.
func (f *filling) commitUntilRefused() {
	var all sync.WaitGroup
	for i := range f.agents {
		all.Go(func() {
			for f.agents[i].commit(f) {
			}
		})
	}
	all.Wait()
}

// commitRound commits a batch to each partition. It returns false if the owner refuses one of the bundles.
func (f *filling) commitRound() bool {
	for to := f.written.Load() + int64(f.Partitions); f.written.Load() < to; {
		if !f.agents[0].commit(f) {
			return false
		}
	}
	return true
}

// commit commits a batch to each of the next 5,000 partitions. The first batch to a partition is of a producer of its own.
// commit returns false if the owner refuses the bundle.
func (a *fillingAgent) commit(f *filling) bool {
	const sections = 5000
	var b commit.Builder
	b.Reset(commit.Header{Submission: id.Submission{Session: a.session, N: a.commits + 1}, Acked: a.commits, Bytes: 1 << 30})
	written := f.written.Add(sections) - sections
	for i := range int64(sections) {
		batch := commit.Batch{Records: 1, Bytes: 61, MaxTimestamp: 1, ProducerID: -1}
		if written+i < int64(f.Partitions) {
			batch.ProducerID = written + i
		}
		partition := id.TopicPartition{Topic: topic, Partition: int32((written + i) % int64(f.Partitions))}
		b.Section(commit.Section{Partition: partition, Position: uint32(i) * 61})
		b.Batch(batch)
	}
	result, _, err := f.owner.Propose(f.t.Context(), &metadata.CommitBundle{Encoded: b.AppendTo(nil)})
	if errors.Is(err, owner.ErrOverloaded) {
		return false
	}
	if !assert.NoError(f.t, err) || !assert.NoError(f.t, result.Err) {
		return false
	}
	a.commits++
	return true
}

// trim trims every partition to an offset, so that each is copied while a snapshot is taken.
func (f *filling) trim(below int64) {
	const trims = 5000
	for first := 0; first < f.Partitions; first += trims {
		c := &metadata.TrimPartitions{}
		for i := range min(trims, f.Partitions-first) {
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
