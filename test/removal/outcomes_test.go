package removal

import (
	"errors"
	"slices"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/job/clean"
	"github.com/freshet-io/freshet/agent/job/merge"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata/id"
	jobs "github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
)

// work does what a plan says, as an agent does. It returns false if the job was given up, as where an input is gone.
func (w *world) work(k *task) bool {
	w.t.Helper()
	if k.outcome != nil {
		return true
	}
	var o jobs.Outcome
	var err error
	if k.plan.Kind == jobs.Clean {
		w.mu.Lock()
		w.oracle.plans[k.plan.ID] = *k.plan.Partitions[0].Clean
		w.mu.Unlock()
		env := clean.Env{Bucket: w.bucket, Prefix: prefix, Metrics: clean.NewMetrics(prometheus.NewRegistry()), ExtentBytes: 2000}
		env.MapBytes = 24 * w.rng.Int64N(40) // often too little for all keys
		o, err = clean.Run(w.t.Context(), k.plan, func(int64) {}, env)
	} else {
		o, err = merge.Run(w.t.Context(), k.plan, func(int64) {}, merge.Env{Bucket: w.bucket, Prefix: prefix, ExtentBytes: 2000})
	}
	if errors.Is(err, objstore.ErrNotFound) {
		w.drop(k)
		if w.tenure != nil {
			_ = w.tenure.Abort(w.t.Context(), k.runner, k.plan.ID, err.Error(), jobs.Unreadable{}) // or it expires
			synctest.Wait()
		}
		return false
	}
	require.NoError(w.t, err)
	k.outcome = &o
	return true
}

func (w *world) drop(k *task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = slices.DeleteFunc(w.held, func(o *task) bool { return o == k })
}

// handIn hands an outcome in, whole or in parts, now and then twice.
func (w *world) handIn(k *task) {
	if w.tenure == nil || !w.work(k) {
		return
	}
	parts := []*jobs.Outcome{k.outcome}
	if n := len(k.outcome.Partitions); n > 1 && w.rng.IntN(2) == 0 {
		at := 1 + w.rng.IntN(n-1)
		parts = []*jobs.Outcome{
			{Bundles: k.outcome.Bundles, Partitions: k.outcome.Partitions[:at]}, {Bundles: k.outcome.Bundles, Partitions: k.outcome.Partitions[at:]},
		}
	}
	for i, part := range parts {
		for range 1 + w.rng.IntN(2) {
			_ = w.complete(k.runner, k.plan.ID, part, i == len(parts)-1) // late ones are refused
		}
	}
	if w.rng.IntN(2) == 0 { // the other half comes again, late
		w.drop(k)
	}
}

func (w *world) complete(runner, n id.Session, o *jobs.Outcome, last bool) error {
	defer synctest.Wait()
	return w.tenure.Complete(w.t.Context(), runner, n, jobs.AppendOutcome(nil, o), last)
}

// forge hands in what no honest runner does. The oracle sees to it that nothing comes of it; what must be refused is.
func (w *world) forge(k *task) {
	if w.tenure == nil || !w.work(k) || len(k.outcome.Partitions) == 0 {
		return
	}
	o, err := jobs.ParseOutcome(jobs.AppendOutcome(nil, k.outcome))
	require.NoError(w.t, err)
	r := &o.Partitions[w.rng.IntN(len(o.Partitions))]
	x := &r.Extents[len(r.Extents)-1]
	runner, n, refused := k.runner, k.plan.ID, true
	way := w.rng.IntN(9)
	switch way {
	case 0: // another agent
		runner = w.agents[(slices.Index(w.agents, runner)+1)%len(w.agents)]
	case 1: // another job
		n++
		refused = false // there may be none
	case 2: // beyond the plan
		if k.plan.Kind != jobs.Clean {
			return
		}
		r.To, x.Last = r.To+1000, x.Last+1000
	case 3: // clean what is not
		if k.plan.Kind == jobs.Clean {
			r.CleanedTo = r.To + 1
			return // which cannot be told from the truth
		}
		r.CleanedTo = r.To + 1
	case 4: // forget aborted transactions
		if k.plan.Kind == jobs.Clean {
			r.DroppedAborted = []int64{r.To}
			r.CleanedTo = r.To
		} else {
			r.DroppedAborted = []int64{r.From}
		}
	case 5: // a timestamp that keeps, or drops, by retention
		x.MaxTimestamp = []int64{-1, 1<<63 - 1}[w.rng.IntN(2)]
		if k.plan.Kind == jobs.Clean {
			x.MaxTimestamp = 1<<63 - 1
		}
		_ = w.complete(runner, n, o, false)
		w.counts.harmless++
		return
	case 6: // another partition
		r.ID.Topic[15] = 9
		o.Partitions = []jobs.Replacement{*r}
		refused = k.plan.Kind == jobs.Clean // one in the range of a compaction is left out
	case 7:
		x.Batches = x.Length
	case 8:
		r.From--
		r.Extents[0].Base--
		if k.plan.Kind == jobs.Compact || r.From < 0 {
			return
		}
	}
	w.mu.Lock()
	j, open := w.state.Job(n)
	w.mu.Unlock()
	err = w.complete(runner, n, o, w.rng.IntN(2) == 0)
	if refused && open && j.Runner == k.runner {
		require.Error(w.t, err, "forged in way %d, %s", way, k.plan.Kind)
		if unknown := (*owner.OutcomeUnknownError)(nil); !errors.As(err, &unknown) {
			require.ErrorIs(w.t, err, session.ErrBadRequest)
		}
		w.counts.refused++
	}
}

// settle has all jobs done honestly until there are none any more.
func (w *world) settle() {
	w.t.Helper()
	for idle := 0; idle < 12; idle++ {
		w.pass(31 * time.Second)
		for _, k := range w.tasks() {
			idle = 0
			if w.work(k) {
				_ = w.complete(k.runner, k.plan.ID, k.outcome, true) // the answer may be lost
			}
			w.drop(k)
		}
	}
}
