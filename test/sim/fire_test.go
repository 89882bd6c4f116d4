package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore"
)

// TestFire_Seed lets a seed break things while jobs rewrite everything there is, bundles are deleted and logs trimmed:
// every full read, at any moment and through any agent, is what the producers' journals say, and jobs go on. With FRESHET_SIM_SEEDS it
// does so with each of the seeds from 1 to that number, one after the other.
func TestFire_Seed(t *testing.T) {
	t.Parallel()
	n, err := strconv.ParseUint(cmp.Or(os.Getenv("FRESHET_SIM_SEEDS"), "0"), 10, 32)
	require.NoError(t, err)
	if n == 0 {
		runFire(t, seed(t, 44))
	}
	for s := range n {
		t.Run(fmt.Sprint(s+1), func(t *testing.T) { runFire(t, s+1) })
	}
}

func runFire(t *testing.T, seed uint64) {
	t.Helper()
	t.Logf("seed %d", seed)
	f := startFire(t, seed)
	counts := map[string]int{}
	for end := time.Now().Add(duration(t, "FRESHET_SIM_DURATION", 15*time.Second)); time.Now().Before(end); {
		a := fires[f.rng.IntN(len(fires))]
		counts[a.name]++
		f.logger.Warn("action: " + a.name)
		a.do(f)
		<-time.After(time.Duration(100+f.rng.IntN(600)) * time.Millisecond)
	}
	t.Logf("done: %v", counts)
	f.objects.Clear()
	f.stop()
}

// fire is a cluster whose jobs run all the time, and the load on it.
type fire struct {
	chaos
	journals []*journal
	tellers  *tellers
	client   *kgo.Client // of the operator
	base     []kgo.Opt   // of clients: agents keep their addresses
	seats    []string    // addresses of agents
	cancel   context.CancelFunc
	load     sync.WaitGroup
	readings atomic.Int64
	deleted  atomic.Int64 // topics
}

func startFire(t *testing.T, seed uint64) *fire {
	t.Helper()
	c := newCluster(t, options{
		seed: seed, replicas: 3, succession: true, agents: 3, replica: smallSnapshots, work: hasty(), jobs: incessantJobs(),
		limits: session.Limits{SessionTimeout: 2 * time.Second}, agent: func(cfg *agent.Config) { cfg.PutBudget = 8 },
	})
	f := &fire{chaos: chaos{cluster: c, rng: rand.New(rand.NewPCG(seed, 2))}, base: c.clientOptions(), seats: c.seeds()}
	f.storeFaults = append(slices.Clone(storeFaults), uploadFaults...)
	f.journals = []*journal{
		newJournal("kept", 3, 0), newJournal("trimmed", 3, 0), newJournal("retained", 2, 0), newJournal("compacted", 2, 20),
	}
	for topic, configs := range map[string]map[string]string{
		"kept": nil, "trimmed": nil, "retained": {"retention.bytes": "20000"},
		"compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
	} {
		f.create(topic, f.journal(topic).partitions, configs)
	}
	client, err := kgo.NewClient(f.base...)
	require.NoError(t, err)
	f.client = client
	t.Cleanup(client.Close)
	f.tellers = c.startTellers(seed, 1)
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	t.Cleanup(cancel)
	for i, j := range f.journals {
		for n := range 2 {
			rng := rand.New(rand.NewPCG(seed, uint64(100+10*i+n)))
			f.load.Go(func() { j.write(ctx, c, rng, 15*time.Millisecond, f.base) })
		}
		rng := rand.New(rand.NewPCG(seed, uint64(200+i)))
		f.load.Go(func() { f.reread(ctx, j, rng) })
	}
	f.load.Go(func() { f.comeAndGo(ctx, rand.New(rand.NewPCG(seed, 300))) })
	c.await("first jobs of both levels", func() bool { return c.done("level", "1") > 0 && c.done("level", "2") > 0 })
	return f
}

func (f *fire) journal(topic string) *journal {
	return f.journals[slices.IndexFunc(f.journals, func(j *journal) bool { return j.topic == topic })]
}

func (f *fire) create(topic string, partitions int32, configs map[string]string) {
	f.t.Helper()
	given := map[string]*string{}
	for name, value := range configs {
		given[name] = &value
	}
	f.createTopicWith(topic, partitions, given)
}

// reread reads a topic again and again, each time through another agent. What cannot be read under fire is tried again.
func (f *fire) reread(ctx context.Context, j *journal, rng *rand.Rand) {
	for ; ctx.Err() == nil; pause(ctx, 300*time.Millisecond) {
		to := f.seats[rng.IntN(len(f.seats))]
		options := append(slices.Clone(f.base), kgo.SeedBrokers(to), kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, to)
		}))
		limited, cancel := context.WithTimeout(ctx, 15*time.Second)
		faults, err := j.reread(limited, options...)
		cancel()
		if len(faults) > 0 {
			f.t.Errorf("under fire, through %s:\n%s", to, strings.Join(faults, "\n"))
			return
		}
		if err == nil {
			f.readings.Add(1)
		}
	}
}

// comeAndGo makes topics, writes to them and deletes them.
func (f *fire) comeAndGo(ctx context.Context, rng *rand.Rand) {
	admin := kadm.NewClient(f.client)
	for n := 0; ctx.Err() == nil; n++ {
		topic := fmt.Sprint("passing-", n%3) // names come again
		if created, err := admin.CreateTopic(ctx, 2, 1, nil, topic); err != nil || created.Err != nil {
			pause(ctx, 100*time.Millisecond)
			continue
		}
		writing, cancel := context.WithTimeout(ctx, time.Duration(500+rng.IntN(1500))*time.Millisecond)
		newJournal(topic, 2, 0).write(writing, f.cluster, rng, 10*time.Millisecond, f.base)
		cancel()
		for ctx.Err() == nil {
			limited, cancel := context.WithTimeout(ctx, 5*time.Second)
			answers, err := admin.DeleteTopics(limited, topic)
			cancel()
			if err == nil && answers[topic].Err == nil {
				f.deleted.Add(1)
				break
			}
			if err == nil && strings.Contains(answers[topic].Err.Error(), "UNKNOWN_TOPIC") {
				break // an answer was lost
			}
			pause(ctx, 100*time.Millisecond)
		}
	}
}

// fires are what may happen: what happens to any cluster, and more that concerns jobs.
var fires = append([]struct {
	name string
	do   func(*fire)
}{
	{"records deleted", func(f *fire) { f.deleteRecords() }},
	{"records deleted", func(f *fire) { f.deleteRecords() }},
	{"records deleted", func(f *fire) { f.deleteRecords() }},
	{"answers of the log lost", func(f *fire) { f.loseAppends(memlog.LoseAnswer) }},
	{"appends to the log lost", func(f *fire) { f.loseAppends(memlog.LoseRequest) }},
	{"runner crashed", func(f *fire) { f.replace((*node).crash) }},
}, onFire()...)

func onFire() (all []struct {
	name string
	do   func(*fire)
},
) {
	for _, a := range actions {
		all = append(all, struct {
			name string
			do   func(*fire)
		}{a.name, func(f *fire) { a.do(&f.chaos) }})
	}
	return all
}

// uploadFaults are of the way that jobs write.
var uploadFaults = []string{
	"create_upload p=0.2 throttle",
	"put_part p=0.1 outcome-unknown-after",
	"put_part p=0.1 delay=400ms",
	"complete_upload p=0.3 outcome-unknown-after",
	"complete_upload p=0.2 outcome-unknown-before",
	"put_part p=0.05 fail",
	"delete p=0.5 throttle",
}

func (f *fire) deleteRecords() {
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Second)
	defer cancel()
	f.journal("trimmed").deleteRecords(ctx, f.client, f.rng)
}

// loseAppends lets some of the owner's appends go wrong for a moment.
func (f *fire) loseAppends(what memlog.Fault) {
	p := f.owner()
	n := 0
	p.store.SetFaults(func(op memlog.Op) memlog.Fault {
		if n++; op.Kind == memlog.OpAppend && n%3 == 0 {
			return what
		}
		return memlog.Pass
	})
	<-time.After(time.Duration(f.rng.IntN(500)) * time.Millisecond)
	p.store.SetFaults(nil)
}

// stop ends the load, lets jobs, retention and garbage come to an end, and checks everything through every agent, among
// them one that has nothing in memory.
func (f *fire) stop() {
	f.t.Helper()
	began := time.Now()
	step := func(what string) { f.t.Logf("%6v: %s", time.Since(began).Round(100*time.Millisecond), what) }
	before := f.done("", "")
	f.await("jobs after all that", func() bool { return f.done("", "") > before+5 })
	f.await("something of everything", func() bool {
		if f.start("trimmed") == 0 { // chance may not have chosen it
			f.journal("trimmed").deleteRecords(f.t.Context(), f.client, f.rng)
		}
		return f.start("trimmed") > 0 && f.start("retained") > 0 && f.deleted.Load() > 0 && f.readings.Load() > 0 &&
			f.done("kind", "clean") > 0
	})
	f.cancel()
	step("jobs went on")
	f.load.Wait()
	step("the load has ended")
	f.tellers.stop()
	step("transactions are whole")
	f.await("everything is compacted", func() bool { return f.fresh() < 2 })
	step("all is compacted")
	f.startAgent()
	f.awaitMembers()
	for _, j := range f.journals {
		j.mustBe(f.cluster)
	}
	f.tellers.checkTransactions()
	f.tellers.checkCopies()
	step("all is there")
	f.await("dead bundles deleted", func() bool { return f.garbage() < 64 })
	step("dead bundles are deleted")
	for _, j := range f.journals {
		j.mustBe(f.cluster)
	}
	for _, topic := range []string{"trimmed", "retained"} {
		f.await("something to be gone from "+topic, func() bool { return f.start(topic) > 0 })
	}
	require.NotZero(f.t, f.deleted.Load(), "topics deleted")
	require.NotZero(f.t, f.readings.Load(), "full reads under fire")
	require.NotZero(f.t, f.done("kind", "clean"), "jobs that clean")
	f.t.Logf("%v jobs of level 1, %v of level 2, %v that clean; %v given up; runs: %v replaced, %v in vain; %d full reads under fire, %d topics deleted",
		f.done("level", "1"), f.done("level", "2"), f.done("kind", "clean"), f.counted("freshet_jobs_aborted_total", "", ""),
		f.counted("freshet_jobs_runs_replaced_total", "", ""), f.counted("freshet_jobs_runs_kept_total", "", ""), f.readings.Load(), f.deleted.Load())
}

// start gives the highest log start of a topic's partitions that are told.
func (f *fire) start(topic string) (highest int64) {
	listed, err := kadm.NewClient(f.client).ListStartOffsets(f.t.Context(), topic)
	if err != nil {
		return 0
	}
	listed.Each(func(o kadm.ListedOffset) { highest = max(highest, o.Offset) })
	return highest
}

// fresh counts the live bundles as agents wrote them.
func (f *fire) fresh() (n int) {
	n = -1
	if o := f.tenure.Load(); o != nil {
		if _, err := o.Read(func(s *metadata.State) { n = s.Load().Fresh }); err != nil {
			return 1 << 30
		}
	}
	return n
}

// garbage counts objects of bundles that are not live.
func (f *fire) garbage() int {
	o := f.tenure.Load()
	live := 0
	if _, err := o.Read(func(s *metadata.State) { live = s.Load().Bundles }); err != nil {
		return 1 << 30
	}
	stored := 0
	for after := ""; ; {
		page, err := f.audit.List(f.t.Context(), bundlePrefix, after, objstore.MaxKeys)
		require.NoError(f.t, err)
		if len(page) == 0 {
			return stored - live
		}
		stored += len(page)
		after = page[len(page)-1].Key
	}
}
