package requests

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/test/bufconn"

	"github.com/freshet-io/freshet/agent/errand"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/controlplane/zonewriter"
	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore/latency"
	"github.com/freshet-io/freshet/objstore/meter"
)

const (
	topicName   = "t"
	clusterID   = "cluster"
	seed        = 1
	recordBytes = 512 // of a record of 1 KiB, compressed
)

var topic = id.Topic{15: 1}

// world is one replica that owns a virtual cluster, and agents of some zones, over one store. Its time is the bubble's.
type world struct {
	t       *testing.T
	load    workload
	batch   []byte // that producers send, over and over
	store   *bucket
	sorted  *sorted
	control *meter.Bucket
	owner   *owner.Owner
	jobs    *job.Tenure
	agents  []*agent
	loads   load.Table // what agents said
	writers *zonewriter.Tenure
	reads   sync.WaitGroup
	sockets map[string]*bufconn.Listener // of agents, for each other
	started atomic.Bool                  // agents, all of them

	bundles atomic.Int64        // committed by agents
	written atomic.Int64        // bytes committed
	read    atomic.Int64        // bytes that consumers got
	inputs  [kinds]atomic.Int64 // bytes that jobs read or are going to, by the kind of what they write
}

// newWorld starts the control plane; stop ends it.
func newWorld(t *testing.T, l workload) (w *world, stop func()) {
	t.Helper()
	w = &world{t: t, load: l, batch: newBatch(l.batch), store: newBucket()}
	w.sockets = map[string]*bufconn.Listener{}
	model, err := latency.Preset("s3-standard")
	require.NoError(t, err)
	slow := latency.New(w.store, model, seed)
	w.sorted, w.control = newSorted(slow), meter.New(slow, nil)
	return w, w.startControlPlane()
}

// newBatch makes a batch of so many bytes, of zeros.
func newBatch(size int) []byte {
	b := make(kafkaproto.RecordBatch, size)
	binary.BigEndian.PutUint32(b[8:], uint32(size-12))
	b[16] = 2
	records := uint32(size / recordBytes)
	binary.BigEndian.PutUint32(b[23:], records-1)
	binary.BigEndian.PutUint64(b[43:], ^uint64(0)) // no producer
	binary.BigEndian.PutUint32(b[57:], records)
	binary.BigEndian.PutUint32(b[17:], b.ComputeCRC())
	return b
}

// startControlPlane runs a replica with its planner and what else works beside an owner.
func (w *world) startControlPlane() (stop func()) {
	log, _, err := memlog.New().Open("a", metalog.Config{})
	require.NoError(w.t, err)
	agents := errand.Bundles{Bucket: w.control, Prefix: func() string { return prefix }}
	work, err := lifecycle.New(lifecycle.Config{Agents: agents, StoreTime: w.control.Now})
	require.NoError(w.t, err)
	planner, err := job.New(job.Config{Settings: job.Settings{Interval: w.load.planning}, StoreTime: w.control.Now})
	require.NoError(w.t, err)
	owned := make(chan struct{})
	r, err := replica.New(replica.Config{
		Replica: "a", Address: "a:1", Log: log, Bucket: w.control, SnapshotPrefix: "vc/snapshots/", ClusterID: clusterID,
		OnOwner: func(o *owner.Owner) func() {
			w.owner, w.jobs = o, planner.Tenure(o, w)
			return func() {}
		},
		Beside: func(ctx context.Context, tn replica.Tenure) (wait func()) {
			close(owned)
			jobs := func() {}
			if w.load.jobs {
				jobs = w.jobs.Start(ctx)
			}
			worked := work.Start(ctx, lifecycle.Tenure{Owner: tn.Owner, Kept: tn.Kept, WantSnapshot: tn.WantSnapshot})
			return func() {
				worked()
				jobs()
			}
		},
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	<-owned
	w.propose(&metadata.CreateTopic{
		ID: topic, Name: topicName, Partitions: w.load.partitions, Configs: map[string]string{"retention.ms": "-1"},
	})
	return func() {
		cancel()
		require.NoError(w.t, <-ended)
	}
}

func (w *world) propose(c metadata.Command) any {
	w.t.Helper()
	result, _, err := w.owner.Propose(w.t.Context(), c)
	require.NoError(w.t, err)
	require.NoError(w.t, result.Err)
	return result.Value
}

// counts are all requests so far.
func (w *world) counts() counts {
	return counts{agents: w.sorted.counts(), control: w.control.Counts()}
}

// committed notes a bundle that has its offsets, and has it read by those who serve its partitions.
func (w *world) committed(encoded []byte, result *commit.Result) {
	parsed, err := commit.Parse(encoded)
	if err != nil || result.Status != commit.Settled {
		w.t.Errorf("commit: %v, status %d", err, result.Status)
		return
	}
	name := parsed.Header().Submission.Bundle()
	var section commit.SectionRuns
	var exts []placed
	for i := 0; parsed.NextSection(&section); i++ {
		spans := result.Sections[i].Spans
		if len(spans) != 1 || spans[0].Outcome != commit.Accepted {
			w.t.Errorf("bundle %s was not taken as it is: %v", name, spans)
			return
		}
		x := w.extent(section.Partition, spans[0].Base)
		exts = append(exts, placed{section.Partition.Partition, x})
		w.written.Add(int64(x.Length))
	}
	w.bundles.Add(1)
	if w.load.live {
		for _, a := range w.agents {
			a.announced(exts)
		}
	}
}

// placed is an extent of a partition.
type placed struct {
	partition int32
	extent    extent.Extent
}

// extent looks an extent up.
func (w *world) extent(tp id.TopicPartition, base int64) (x extent.Extent) {
	_, err := w.owner.Read(func(s *metadata.State) {
		if found, _ := s.Extents(tp, base, 1, 0); len(found) == 1 && found[0].Base == base {
			x = found[0]
		}
	})
	if err != nil || x.Length == 0 {
		w.t.Errorf("no extent of %s at %d: %v", tp, base, err)
	}
	return x
}

// serving tells which partitions an agent of a zone serves, as Metadata would place them.
func serving(zone []id.Session, n int32) map[id.Session][]bool {
	all := make([]uint32, len(zone))
	served := map[id.Session][]bool{}
	for i, s := range zone {
		all[i], served[s] = uint32(s), make([]bool, n)
	}
	for p, i := range assign.Partitions(topic, n, all) {
		served[zone[i]][p] = true
	}
	return served
}

// dial reaches an agent.
func (w *world) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return w.sockets[address].DialContext(ctx)
}

// startAgents starts all agents, each of which knows all.
func (w *world) startAgents() (stop func()) {
	zones := map[string][]id.Session{}
	var members []*view.Member
	for i := range w.load.agents {
		a := w.newAgent(i)
		w.agents = append(w.agents, a)
		zones[a.zone] = append(zones[a.zone], a.session)
		members = append(members, &view.Member{Session: a.session, Zone: a.zone, Peer: a.address})
	}
	stops := []func(){w.planWriters()}
	for _, a := range w.agents {
		a.catalogue.Store(&view.Snapshot{ClusterID: clusterID, Session: a.session, Members: members})
		a.serves = serving(zones[a.zone], w.load.partitions)[a.session]
		stops = append(stops, a.run(w.t.Context()))
	}
	w.started.Store(true)
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}
