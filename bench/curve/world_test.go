package curve

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/errand"
	"github.com/freshet-io/freshet/agent/job/runner"
	"github.com/freshet-io/freshet/controlplane/client"
	plan "github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
)

const (
	writers     = 3 // agents that commit
	recordBytes = 1 << 10
	topicName   = "t"
)

var topic = id.Topic{15: 1}

// world is one replica that owns a virtual cluster over a log and a bucket in memory, and agents that commit and run jobs.
// Its time is the bubble's.
type world struct {
	t      *testing.T
	load   load
	bucket objstore.Bucket
	owner  *owner.Owner
	jobs   *plan.Tenure
	ctx    context.Context

	mu struct {
		sync.Mutex
		runners   map[id.Session]*agent
		rewritten int64 // bytes
	}
}

// run lets a load run in a bubble, and gives the samples, the last one at its end.
func (l load) run(t *testing.T, each func(sample)) {
	t.Helper()
	bucket := mem.New()
	log, _, err := memlog.New().Open("a", metalog.Config{})
	require.NoError(t, err)
	w := &world{t: t, load: l, bucket: bucket, ctx: t.Context()}
	w.mu.runners = map[id.Session]*agent{}
	settings := lifecycle.Settings{RetentionCheck: time.Minute}
	agents := errand.Bundles{Bucket: bucket, Prefix: func() string { return "vc/bundles/" }}
	work, err := lifecycle.New(lifecycle.Config{Settings: settings, Agents: agents, StoreTime: bucket.Now})
	require.NoError(t, err)
	planner, err := plan.New(plan.Config{Settings: l.settings, MaxExtents: l.maxExtents, StoreTime: bucket.Now})
	require.NoError(t, err)
	owned := make(chan struct{})
	r, err := replica.New(replica.Config{
		Replica: "a", Address: "a:1", Log: log, Bucket: bucket, SnapshotPrefix: "vc/snapshots/", Poll: time.Second,
		Owner: owner.Config{MaxExtents: l.maxExtents},
		OnOwner: func(o *owner.Owner) func() {
			w.owner, w.jobs = o, planner.Tenure(o, w)
			return func() {}
		},
		Beside: func(ctx context.Context, tn replica.Tenure) (wait func()) {
			close(owned)
			jobs := w.jobs.Start(ctx)
			worked := work.Start(ctx, lifecycle.Tenure{Owner: tn.Owner, Kept: tn.Kept, WantSnapshot: tn.WantSnapshot})
			return func() {
				worked()
				jobs()
			}
		},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	<-owned
	w.drive(ctx, each)
	cancel()
	require.NoError(t, <-ended)
}

// drive makes the topic and the agents and lets them commit, until the load's time is over.
func (w *world) drive(ctx context.Context, each func(sample)) {
	configs := map[string]string{"retention.ms": retentionMs(w.load.retention)}
	w.propose(&metadata.CreateTopic{ID: topic, Name: topicName, Partitions: int32(w.load.partitions), Configs: configs})
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range w.load.runners {
		all.Go(w.startRunner(ctx, i))
	}
	var load sync.WaitGroup
	end := time.Now().Add(w.load.length)
	for i := range writers {
		load.Go(func() { w.write(ctx, i, end) })
	}
	for range samples {
		time.Sleep(w.load.length / samples) // sleeps: in a synctest bubble, whose clock it drives
		each(w.sample(end))
	}
	load.Wait()
}

func (w *world) propose(c metadata.Command) any {
	result, _, err := w.owner.Propose(w.ctx, c)
	if err != nil || result.Err != nil {
		w.t.Errorf("%T: %v, %v", c, err, result.Err)
	}
	return result.Value
}

// write commits a writer's share of the bundles until the end, those of a second together.
func (w *world) write(ctx context.Context, writer int, end time.Time) {
	opened := w.propose(&metadata.OpenSession{Instance: string(rune('a' + writer))}).(metadata.OpenSessionResult)
	var b commit.Builder
	rng := rand.New(rand.NewPCG(1, uint64(writer)))
	period := time.Duration(float64(time.Second) * max(1, writers/w.load.rate))
	bundles := max(1, int(w.load.rate/writers))
	time.Sleep(period * time.Duration(writer) / writers)                                 // sleeps: as above
	for n := uint32(1); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(period) { // sleeps: as above
		for range bundles {
			encoded := w.load.commit(&b, id.Submission{Session: opened.Session, N: n}, rng)
			w.propose(&metadata.CommitBundle{Encoded: encoded})
			n++
		}
	}
}

// commit makes a bundle: sections of one batch in partitions chosen evenly.
func (l *load) commit(b *commit.Builder, name id.Submission, rng *rand.Rand) []byte {
	b.Reset(commit.Header{Submission: name, Acked: name.N - 1, Bytes: uint32(l.bundle) + 4096})
	size := uint32(l.bundle / l.sections)
	batch := commit.Batch{
		Records: int32(max(1, size/recordBytes)), Bytes: int32(size), MaxTimestamp: time.Now().UnixMilli(), ProducerID: -1,
	}
	for i := range l.sections {
		from, to := i*l.partitions/l.sections, (i+1)*l.partitions/l.sections
		p := from
		if to-from > 1 {
			p += rng.IntN(to - from)
		}
		b.Section(commit.Section{
			Partition: id.TopicPartition{Topic: topic, Partition: int32(p)}, Position: bundleHead + uint32(i)*size,
		})
		b.Batch(batch)
	}
	return b.AppendTo(nil)
}

// agent runs jobs.
type agent struct {
	w       *world
	session id.Session
	runner  *runner.Runner
	parts   job.Plan // parts given of the plan to come
}

// startRunner opens an agent's session and gives what runs its jobs.
func (w *world) startRunner(ctx context.Context, n int) func() {
	opened := w.propose(&metadata.OpenSession{Instance: "runner" + string(rune('a'+n)), Roles: metadata.RoleJobs}).(metadata.OpenSessionResult)
	a := &agent{w: w, session: opened.Session}
	m := &merger{speed: w.load.speed, count: func(bytes int64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.mu.rewritten += bytes
	}}
	var err error
	a.runner, err = runner.New(runner.Config{
		Owner: a, Work: map[job.Kind]runner.Work{job.Compact: m.work},
		AtOnce: 2, // the next may come before the answer that the one before has ended
	})
	require.NoError(w.t, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.runners[a.session] = a
	return func() { _ = a.runner.Run(ctx) }
}

// JobProgress implements runner.Owner.
func (a *agent) JobProgress(n id.Session, bytes int64) {
	if !a.w.jobs.Progress(a.session, n, bytes) {
		a.runner.OnCancelJob(n)
	}
}

// CompleteJob implements runner.Owner.
func (a *agent) CompleteJob(ctx context.Context, n id.Session, outcome []byte, last bool) error {
	return a.w.jobs.Complete(ctx, a.session, n, outcome, last)
}

// AbortJob implements runner.Owner.
func (a *agent) AbortJob(ctx context.Context, n id.Session, reason string, unreadable job.Unreadable) error {
	if a.w.ctx.Err() == nil && reason != "the agent stops" {
		a.w.t.Errorf("job %d given up: %s", n, reason)
	}
	return a.w.jobs.Abort(ctx, a.session, n, reason, unreadable)
}

// Connected implements session.Runners.
func (w *world) Connected(n id.Session) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.runners[n] != nil
}

// Give implements session.Runners.
func (w *world) Give(to, _ id.Session, encoded []byte, last bool) bool {
	part, err := job.ParsePlan(encoded)
	if err != nil {
		w.t.Error(err)
		return false
	}
	w.mu.Lock()
	a := w.mu.runners[to]
	w.mu.Unlock()
	if a == nil {
		return false
	}
	if a.parts.ID != part.ID {
		a.parts = job.Plan{}
	}
	part.Partitions = append(a.parts.Partitions, part.Partitions...)
	a.parts = *part
	if last {
		a.runner.OnJob(part)
		a.parts = job.Plan{}
	}
	return true
}

// Cancel implements session.Runners.
func (w *world) Cancel(to, n id.Session) {
	w.mu.Lock()
	a := w.mu.runners[to]
	w.mu.Unlock()
	if a != nil {
		a.runner.OnCancelJob(n)
	}
}

var _ client.JobHandler = (*runner.Runner)(nil)
