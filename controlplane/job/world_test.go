package job_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	planner "github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a state machine with a planner beside it, in a bubble of synctest; runners are in the test's hands.
type world struct {
	t        *testing.T
	settings planner.Settings
	bound    int64 // of extents
	registry *prometheus.Registry

	mu    sync.Mutex
	state *metadata.State
	term  int // who proposes for an earlier term is refused

	n map[id.Session]uint32 // submissions of sessions

	runner map[id.Session]id.Session // of the jobs given, by any replica
	behind time.Duration             // of the store's clock
	silent bool                      // the store does not tell the time
	log    *zap.Logger
	asked  int // for the store's time
}

func (w *world) storeTime(context.Context) (time.Time, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if w.silent {
		return time.Time{}, errCut
	}
	return time.Now().Add(-w.behind), nil
}

func newWorld(t *testing.T, adjust ...func(*planner.Settings)) *world {
	t.Helper()
	w := &world{t: t, state: metadata.New(), n: map[id.Session]uint32{}, registry: prometheus.NewRegistry(), runner: map[id.Session]id.Session{}}
	for _, f := range adjust {
		f(&w.settings)
	}
	return w
}

// small makes jobs of a few bundles and extents.
func small(s *planner.Settings) {
	s.First = planner.FirstLevel{Bundles: 4, Bytes: 1 << 20, Age: time.Minute}
	s.Second = planner.SecondLevel{Bytes: 1000, Extents: 4, Age: time.Hour, JobBytes: 1 << 20, FinalBytes: 2000}
}

// gauge returns the value of a gauge without labels.
func (w *world) gauge(name string) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	require.NoError(w.t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	require.Fail(w.t, "no metric "+name)
	return 0
}

func (w *world) apply(c metadata.Command) metadata.Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &metadata.Batch{Now: time.Now().UnixMilli(), Commands: []metadata.Command{c}}
	return w.state.Apply(w.state.Index()+1, b, nil, nil)[0]
}

func (w *world) must(c metadata.Command) metadata.Result {
	w.t.Helper()
	r := w.apply(c)
	require.NoError(w.t, r.Err)
	return r
}

// replica is an owner of one term.
type replica struct {
	*world
	*planner.Tenure
	p       *planner.Planner
	term    int
	cut     bool   // from the log
	still   bool   // command time stands still, as it does in the log while no Tick is due
	reads   int    // calls of ReadFrozen
	lose    int    // answers to proposals
	between func() // called once, when a round has its state and does not look at it yet
	agents  map[id.Session]bool
	given   map[id.Session][]*job.Plan // by runner, whole
	begun   map[id.Session]*job.Plan
	dropped []id.Session // cancelled jobs
	cancel  context.CancelFunc
	wait    func()
}

var errCut = errors.New("cut off")

func (r *replica) Propose(_ context.Context, c metadata.Command) (metadata.Result, uint64, error) {
	r.mu.Lock()
	gone := r.cut || r.term != r.world.term
	lost := r.lose > 0
	if lost {
		r.lose--
	}
	r.mu.Unlock()
	if gone {
		return metadata.Result{}, 0, owner.ErrNotOwner
	}
	result := r.apply(c)
	if lost {
		return metadata.Result{}, 0, &owner.OutcomeUnknownError{Err: errCut}
	}
	return result, 0, nil
}

func (r *replica) Read(fn func(*metadata.State)) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.term != r.world.term {
		return 0, owner.ErrNotOwner
	}
	fn(r.state)
	return r.state.Index(), nil
}

func (r *replica) ReadFrozen(fn func(*metadata.State)) (uint64, error) {
	r.mu.Lock()
	r.reads++
	still := r.still
	r.mu.Unlock()
	if !still {
		r.apply(&metadata.Tick{}) // as every owner does now and then: command time goes on
	}
	r.mu.Lock()
	frozen, stale := r.state.Snapshot(), r.term != r.world.term
	between := r.between
	r.between = nil
	r.mu.Unlock()
	if between != nil {
		between()
	}
	if stale {
		return 0, owner.ErrNotOwner
	}
	fn(frozen)
	return frozen.Index(), nil
}

func (r *replica) Connected(runner id.Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.agents[runner]
}

func (r *replica) Give(runner, n id.Session, plan []byte, last bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.agents[runner] {
		return false
	}
	part, err := job.ParsePlan(plan)
	if err != nil || part.ID != n {
		panic(fmt.Sprintf("plan of job %d: %v", n, err))
	}
	r.runner[n] = runner
	if r.begun[n] == nil {
		r.begun[n] = part
	} else {
		r.begun[n].Partitions = append(r.begun[n].Partitions, part.Partitions...)
	}
	if last {
		r.given[runner] = append(r.given[runner], r.begun[n])
	}
	return true
}

// Complete hands a part in as the job's runner.
func (r *replica) Complete(ctx context.Context, n id.Session, outcome []byte, last bool) error {
	return r.Tenure.Complete(ctx, r.runnerOf(n), n, outcome, last)
}

// Abort gives a job up as its runner.
func (r *replica) Abort(ctx context.Context, n id.Session, reason string, unreadable job.Unreadable) error {
	return r.Tenure.Abort(ctx, r.runnerOf(n), n, reason, unreadable)
}

func (w *world) runnerOf(n id.Session) id.Session {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runner[n]
}

func (r *replica) Cancel(_, n id.Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped = append(r.dropped, n)
}

// own begins a term. agents are connected.
func (w *world) own(agents ...id.Session) *replica {
	w.t.Helper()
	p, err := planner.New(planner.Config{Settings: w.settings, MaxExtents: w.bound, StoreTime: w.storeTime, Registerer: w.registry, Log: w.log})
	require.NoError(w.t, err)
	w.mu.Lock()
	w.term++
	r := &replica{
		world: w, p: p, term: w.term, agents: map[id.Session]bool{}, given: map[id.Session][]*job.Plan{},
		begun: map[id.Session]*job.Plan{},
	}
	for _, a := range agents {
		r.agents[a] = true
	}
	r.Tenure = p.Tenure(r, r)
	r.Begin(w.state)
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.wait = r.Start(ctx)
	return r
}

func (r *replica) stop() {
	r.cancel()
	r.wait()
}

// plans gives the plans of jobs handed out since the last call, by id.
func (r *replica) plans() []*job.Plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*job.Plan
	for _, runner := range slices.Sorted(maps.Keys(r.given)) {
		all = append(all, r.given[runner]...)
	}
	clear(r.given)
	slices.SortFunc(all, func(a, b *job.Plan) int { return int(a.ID) - int(b.ID) })
	return all
}

// next waits for a round and gives the one job that it started.
func (r *replica) next() *job.Plan {
	r.t.Helper()
	all := r.rounds(1)
	require.Len(r.t, all, 1)
	return all[0]
}

// rounds waits for rounds to pass and gives the jobs that they started.
func (r *replica) rounds(n int) []*job.Plan {
	time.Sleep(time.Duration(n) * 12 * time.Second)
	synctest.Wait()
	return r.plans()
}

// pass lets the bubble's time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// await waits until jobs are started, for a few minutes.
func (r *replica) await() []*job.Plan {
	r.t.Helper()
	for range 100 {
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if all := r.plans(); len(all) > 0 {
			return all
		}
	}
	require.Fail(r.t, "no job was started")
	return nil
}

// agent opens a session that runs jobs.
func (w *world) agent() id.Session {
	w.t.Helper()
	r := w.must(&metadata.OpenSession{
		Instance: fmt.Sprint("agent ", len(w.n)), Roles: metadata.RoleProduce | metadata.RoleFetch | metadata.RoleJobs,
		Endpoints: []metadata.Endpoint{{Host: "h", Port: 1}},
	})
	session := r.Value.(metadata.OpenSessionResult).Session
	w.n[session] = 0
	return session
}

func (w *world) topic(first byte, partitions int32, configs ...string) id.Topic {
	w.t.Helper()
	c := &metadata.CreateTopic{ID: id.Topic{first}, Name: fmt.Sprint("t", first), Partitions: partitions, Configs: map[string]string{}}
	for i := 0; i < len(configs); i += 2 {
		c.Configs[configs[i]] = configs[i+1]
	}
	w.must(c)
	return c.ID
}

func tp(topic id.Topic, n int32) id.TopicPartition {
	return id.TopicPartition{Topic: topic, Partition: n}
}

// commit is a session's next bundle with a batch of ten records and so many bytes for each partition.
func (w *world) commit(session id.Session, bytes int, partitions ...id.TopicPartition) id.Bundle {
	w.t.Helper()
	w.n[session]++
	name := id.Submission{Session: session, N: w.n[session]}
	var b commit.Builder
	b.Reset(commit.Header{Submission: name, Bytes: uint32(16 + bytes*len(partitions))})
	slices.SortFunc(partitions, id.TopicPartition.Compare)
	for i, p := range partitions {
		b.Section(commit.Section{Partition: p, Position: uint32(16 + i*bytes)})
		b.Batch(commit.Batch{Records: 10, Bytes: int32(bytes), MaxTimestamp: time.Now().UnixMilli(), ProducerID: commit.NoProducer})
	}
	w.must(&metadata.CommitBundle{Encoded: b.AppendTo(nil)})
	return name.Bundle()
}

// work is what a runner would make of a plan: runs become extents of at least long bytes, the last one excepted.
func work(p *job.Plan, long uint32) *job.Outcome {
	o := &job.Outcome{}
	position := uint32(16)
	for i := range p.Partitions {
		q := &p.Partitions[i]
		for run := range q.Runs {
			r := job.Replacement{ID: q.ID, From: run[0].Base, To: run[len(run)-1].Last}
			var x extent.Extent
			for i, in := range run {
				if x.Length == 0 {
					x = extent.Extent{
						Base: in.Base, Kind: extent.Absolute, Position: position, Bundle: id.Submission{Session: p.ID, N: 1}.Bundle(),
					}
				}
				x.Last = in.Last
				x.Length += max(in.Length, 61)
				x.Batches += in.Batches
				x.MaxTimestamp = max(x.MaxTimestamp, in.MaxTimestamp)
				if x.Length >= long || i == len(run)-1 {
					r.Extents = append(r.Extents, x)
					position += x.Length
					x = extent.Extent{}
				}
			}
			if p.Kind == job.Clean {
				r.CleanedTo = r.To + 1
			}
			o.Partitions = append(o.Partitions, r)
		}
	}
	o.Bundles = []job.Bundle{{N: 1, Bytes: position}}
	return o
}

// finish does a job and hands it in.
func (r *replica) finish(p *job.Plan) {
	r.t.Helper()
	require.NoError(r.t, r.Complete(context.Background(), p.ID, job.AppendOutcome(nil, work(p, 2000)), true))
}

// speak has the runners of jobs show that they are at work.
func (r *replica) speak(plans ...*job.Plan) {
	r.t.Helper()
	for _, p := range plans {
		info, ok := r.frozen().Job(p.ID)
		require.True(r.t, ok)
		require.True(r.t, r.Progress(info.Runner, p.ID, 1))
	}
}

// run has the jobs run that the next rounds start, until none are started any more; it gives their plans.
func (r *replica) run() (all []*job.Plan) {
	r.t.Helper()
	for idle := 0; idle < 2; {
		plans := r.rounds(1)
		if idle++; len(plans) > 0 {
			idle = 0
		}
		for _, p := range plans {
			r.finish(p)
		}
		all = append(all, plans...)
		require.Less(r.t, len(all), 10_000, "planning has no end")
	}
	return all
}

// frozen gives the state as it is.
func (w *world) frozen() *metadata.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.Snapshot()
}

func (w *world) openJobs() []metadata.JobInfo { return slices.Collect(w.frozen().Jobs()) }

// levels counts the live bundles by level.
func (w *world) levels() (n [3]int) {
	for _, b := range w.frozen().Bundles() {
		n[b.Level]++
	}
	return n
}

// extents gives a partition's, whose offsets have no hole.
func (w *world) extents(p id.TopicPartition) []extent.Extent {
	w.t.Helper()
	s := w.frozen()
	marks, _ := s.Watermarks(p)
	exts, _ := s.Extents(p, 0, 0, 0)
	next := marks.LogStart
	for i, x := range exts {
		if i > 0 {
			require.Equal(w.t, next, x.Base)
		} else {
			require.LessOrEqual(w.t, x.Base, next)
		}
		next = x.Last + 1
	}
	require.Equal(w.t, marks.HighWatermark, next)
	return exts
}

// bundles gives the bundles of a plan's extents in a partition, in their order.
func bundles(p *job.Plan, q id.TopicPartition) (all []id.Bundle) {
	for i := range p.Partitions {
		if p.Partitions[i].ID == q {
			for _, x := range p.Partitions[i].Extents {
				all = append(all, x.Bundle)
			}
		}
	}
	return all
}
