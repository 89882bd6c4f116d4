package removal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/agent/errand"
	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	jobs "github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const prefix = "vc/"

// store is the bucket, whose clock is the true one or behind it.
type store struct {
	objstore.Bucket
	behind atomic.Int64 // ns
}

func (s *store) Now(context.Context) (time.Time, error) {
	return time.Now().Add(-time.Duration(s.behind.Load())), nil
}

// world is a virtual cluster whose agents and clients are the test.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	bucket *store
	oracle *oracle

	mu    sync.Mutex
	chaos *rand.Rand // of the owner's goroutines
	state *metadata.State
	term  int           // who proposes for an earlier term is refused
	ahead time.Duration // of the owner's clock
	kept  uint64        // index of the older of the retained snapshots

	agents  []id.Session
	n       map[id.Session]uint32 // bundles of agents
	names   int                   // of instances and transactional ids
	topics  []id.Topic
	deleted []id.Topic
	open    []transaction
	tenure  *tenure
	held    []*task // jobs that were given and have not ended for their runner
	counts  counts
}

// counts says that the test met what it is for.
type counts struct {
	compacted, cleaned, refused, harmless, retained, removed, restored int
}

func (c *counts) add(o counts) {
	c.compacted += o.compacted
	c.cleaned += o.cleaned
	c.refused += o.refused
	c.harmless += o.harmless
	c.retained += o.retained
	c.removed += o.removed
	c.restored += o.restored
}

// task is a job in an agent's hands.
type task struct {
	runner  id.Session
	plan    *jobs.Plan
	whole   bool
	outcome *jobs.Outcome // once the work is done
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 15)), chaos: rand.New(rand.NewPCG(seed, 16)), bucket: &store{Bucket: mem.New()}, state: metadata.New(),
		n: map[id.Session]uint32{}, oracle: newOracle(),
	}
	w.must(&metadata.AllocateProducerIDs{Count: 1}) // 0 is none to the maker of batches
	for range 3 {
		w.agent()
	}
	for i, policy := range []string{"compact", "delete", "compact,delete"} {
		topic := id.Topic{byte(i + 1)}
		w.must(&metadata.CreateTopic{ID: topic, Name: fmt.Sprint("t", i), Partitions: 2, Configs: map[string]string{
			"cleanup.policy": policy, "min.cleanable.dirty.ratio": "0.01",
		}})
		w.topics = append(w.topics, topic)
	}
	return w
}

func (w *world) agent() {
	w.names++
	r := w.must(&metadata.OpenSession{
		Instance: fmt.Sprint("agent ", w.names), Roles: metadata.RoleProduce | metadata.RoleFetch | metadata.RoleJobs,
		Endpoints: []metadata.Endpoint{{Host: "h", Port: 1}},
	})
	w.agents = append(w.agents, r.Value.(metadata.OpenSessionResult).Session)
}

// apply applies a command and has the oracle judge what it removed.
func (w *world) apply(c metadata.Command) metadata.Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.applyLocked(c)
}

func (w *world) applyLocked(c metadata.Command) metadata.Result {
	before := w.lookAt(c)
	b := &metadata.Batch{Now: time.Now().Add(w.ahead).UnixMilli(), Commands: []metadata.Command{c}}
	r := w.state.Apply(w.state.Index()+1, b, nil, nil)[0]
	w.judge(c, before, r)
	return r
}

func (w *world) must(c metadata.Command) metadata.Result {
	w.t.Helper()
	r := w.apply(c)
	require.NoError(w.t, r.Err)
	return r
}

// tenure is one owner: its planner and its retention.
type tenure struct {
	w *world
	*job.Tenure
	term   int
	began  time.Time
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

var errLost = errors.New("answer lost")

func (o *tenure) Propose(_ context.Context, c metadata.Command) (metadata.Result, uint64, error) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	if o.term != o.w.term {
		return metadata.Result{}, 0, owner.ErrNotOwner
	}
	r := o.w.applyLocked(c)
	if _, garbage := c.(*metadata.ForgetBundles); !garbage && o.w.chaos.IntN(40) == 0 {
		return metadata.Result{}, 0, &owner.OutcomeUnknownError{Err: errLost}
	}
	return r, o.w.state.Index(), nil
}

func (o *tenure) Read(fn func(*metadata.State)) (uint64, error) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	if o.term != o.w.term {
		return 0, owner.ErrNotOwner
	}
	fn(o.w.state)
	return o.w.state.Index(), nil
}

// ReadFrozen looks at a state that may not be the newest any more when it is looked at.
func (o *tenure) ReadFrozen(fn func(*metadata.State)) (uint64, error) {
	o.w.mu.Lock()
	frozen, stale := o.w.state.Snapshot(), o.term != o.w.term
	if !stale && !o.garbage() && o.w.chaos.IntN(4) == 0 {
		o.w.configure(o.w.chaos, o.w.applyLocked)
	}
	o.w.mu.Unlock()
	if stale {
		return 0, owner.ErrNotOwner
	}
	fn(frozen)
	return frozen.Index(), nil
}

// garbage reports whether it is the moment of those who look for garbage, which come in no order: chance has no part in it.
func (o *tenure) garbage() bool { return time.Since(o.began)%garbageCheck == 0 }

// The intervals of retention and of garbage collection, at the moments of nothing else.
const (
	retentionCheck = 61_300 * time.Millisecond
	garbageCheck   = 97_700 * time.Millisecond
)

func (o *tenure) Connected(runner id.Session) bool {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	_, ok := o.w.state.Session(runner)
	return ok
}

func (o *tenure) Give(runner, n id.Session, plan []byte, last bool) bool {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	part, err := jobs.ParsePlan(plan)
	if err != nil || part.ID != n {
		panic(fmt.Sprintf("plan of job %d: %v", n, err))
	}
	if k := len(o.w.held) - 1; k >= 0 && o.w.held[k].plan.ID == n {
		o.w.held[k].plan.Partitions = append(o.w.held[k].plan.Partitions, part.Partitions...)
		o.w.held[k].whole = last
		return true
	}
	o.w.held = append(o.w.held, &task{runner: runner, plan: part, whole: last})
	return true
}

func (o *tenure) Cancel(id.Session, id.Session) {}

// agents do errands as an agent does.
func agents(bucket objstore.Bucket) lifecycle.Agents {
	return errand.Bundles{Bucket: bucket, Prefix: func() string { return prefix }}
}

// own ends the owner there is and begins another.
func (w *world) own() {
	w.t.Helper()
	w.stop()
	p, err := job.New(job.Config{StoreTime: w.bucket.Now, Registerer: prometheus.NewRegistry(), Settings: job.Settings{
		First:     job.FirstLevel{Bundles: 4, Bytes: 1 << 20, Age: time.Minute},
		Second:    job.SecondLevel{Bytes: 4000, Extents: 4, Age: 10 * time.Minute, JobBytes: 1 << 20, FinalBytes: 8000},
		DeadBytes: 500,
	}})
	require.NoError(w.t, err)
	l, err := lifecycle.New(lifecycle.Config{Agents: agents(w.bucket), StoreTime: w.bucket.Now, Registerer: prometheus.NewRegistry(), Settings: lifecycle.Settings{
		RetentionCheck: retentionCheck, GarbageCheck: garbageCheck,
	}})
	require.NoError(w.t, err)
	w.mu.Lock()
	w.term++
	o := &tenure{w: w, term: w.term, began: time.Now()}
	o.Tenure = p.Tenure(o, o)
	o.Begin(w.state)
	w.tenure = o
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	o.ended.Go(o.Start(ctx))
	o.ended.Go(l.Start(ctx, lifecycle.Tenure{Owner: o, Kept: func() uint64 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.kept
	}, WantSnapshot: func() {}}))
}

func (w *world) stop() {
	if w.tenure != nil {
		w.tenure.cancel()
		w.tenure.ended.Wait()
		w.tenure = nil
	}
}

// tasks are the jobs in the agents' hands.
func (w *world) tasks() []*task {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.held)
}

// apart keeps the test's moments from those of the owner's timers, so that a seed says who comes first.
const apart = 1700 * time.Microsecond

// pass lets time pass, while agents say that they are at work and the owner's ticks come.
func (w *world) pass(d time.Duration) {
	for d > 0 {
		step := min(d, 15*time.Second)
		time.Sleep(step + apart)
		synctest.Wait()
		d -= step
		for _, k := range w.tasks() {
			if w.tenure != nil {
				w.tenure.Progress(k.runner, k.plan.ID, 1<<20)
			}
		}
		w.must(&metadata.Tick{})
	}
	synctest.Wait()
}
