package writer_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/putbudget"
	"github.com/freshet-io/freshet/objstore/latency"
	"github.com/freshet-io/freshet/objstore/mem"
)

const (
	windowRequests = 5        // max.in.flight.requests.per.connection
	windowBatch    = 16 << 10 // batch.size
	windowTrip     = time.Millisecond
	commitTime     = 5 * time.Millisecond
)

// window is a client that sends its next request with each answer.
type window struct {
	r        *rig
	inFlight atomic.Int32
	busy     atomic.Bool // it has more to send
	answered atomic.Int64
}

func (w *window) Parked(requests int) bool {
	return !w.busy.Load() && int(w.inFlight.Load()) == requests
}

// send keeps the window full until stop is closed.
func (w *window) send(p int32, stop <-chan struct{}) {
	var running sync.WaitGroup
	slots := make(chan struct{}, windowRequests)
	b := plain(p, windowBatch)
	b.Window = w
	for stopped := false; !stopped; {
		select {
		case slots <- struct{}{}:
		case <-stop:
			stopped = true
			continue
		}
		w.inFlight.Add(1)
		produce := w.r.add(b)
		running.Go(func() {
			<-produce.Done()
			w.inFlight.Add(-1)
			w.answered.Add(1)
			time.Sleep(windowTrip)
			<-slots
		})
	}
	running.Wait()
}

// zoneOwner is the owner of a zone with one writer.
type zoneOwner struct {
	savings putbudget.Savings
	loan    putbudget.Loan
}

// lend takes the writer's report and renews its loan.
func (o *zoneOwner) lend(r *rig, session uint32) {
	report := r.Savings()
	o.savings.SetRate(report.Rate)
	o.savings.Report(&o.loan, report)
	r.OnZoneWriter(&api.ZoneWriter{Session: session, PutShare: 1, SavingsLimit: o.savings.Lend(&o.loan)})
}

// newS3Rig starts a writer with the latency of S3 Standard.
func newS3Rig(t *testing.T, change func(*writer.Config)) (r *rig, session uint32) {
	t.Helper()
	model, err := latency.Preset("s3-standard")
	require.NoError(t, err)
	r = newIdleRig(t, func(c *writer.Config) {
		c.Bucket = latency.New(mem.New(), model, 1)
		c.Sink = nil
		if change != nil {
			change(c)
		}
	})
	r.seq.transit = func(int) time.Duration { return commitTime }
	welcome := r.seq.open(t, "first")
	r.OnWelcome(welcome)
	return r, welcome.Session
}

// putTime returns the mean time of the PUTs so far.
func (r *rig) putTime() time.Duration {
	r.t.Helper()
	families, err := r.reg.Gather()
	require.NoError(r.t, err)
	for _, f := range families {
		if f.GetName() == "freshet_writer_put_seconds" {
			h := f.Metric[0].Histogram
			return time.Duration(h.GetSampleSum() / float64(h.GetSampleCount()) * float64(time.Second))
		}
	}
	r.t.Fatal("no histogram")
	return 0
}

// seals returns the bundles sealed for a reason.
func (r *rig) seals(reason string) int {
	r.t.Helper()
	families, err := r.reg.Gather()
	require.NoError(r.t, err)
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "freshet_writer_seals_total" && m.Label[0].GetValue() == reason {
				return int(m.Counter.GetValue())
			}
		}
	}
	return 0
}

// reach lets clients with full windows send for some seconds, and returns the part of what their windows allow without any
// wait in the writer.
func reach(t *testing.T, idle, seconds int, clients int32) (share, bytesPerSecond float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, session := newS3Rig(t, nil)
		var owner zoneOwner
		for range idle {
			time.Sleep(time.Second)
			owner.lend(r, session)
		}
		stop := make(chan struct{})
		var sending sync.WaitGroup
		all := make([]*window, clients)
		for i := range all {
			all[i] = &window{r: r}
			sending.Go(func() { all[i].send(int32(i), stop) })
		}
		for range seconds {
			time.Sleep(time.Second)
			owner.lend(r, session)
		}
		answered := int64(0)
		for _, w := range all {
			answered += w.answered.Load()
		}
		close(stop)
		sending.Wait()
		perSecond := float64(answered) / float64(seconds)
		bound := float64(windowRequests) * float64(clients) / (r.putTime() + commitTime + windowTrip).Seconds()
		share, bytesPerSecond = perSecond/bound, perSecond*windowBatch
	})
	return share, bytesPerSecond
}

// TestSavings_ParkedWindows: after an idle hour, a producer with the defaults of the Java client on one partition gets what
// its window allows.
func TestSavings_ParkedWindows(t *testing.T) {
	for _, clients := range []int32{1, 4} {
		without, slow := reach(t, 0, 30, clients)
		with, fast := reach(t, 3600, 30, clients)
		t.Logf("producers with 5 x 16 KiB in flight: %d: %.2f MB/s with savings (%.2f of the bound), %.2f MB/s without (%.2f)",
			clients, fast/1e6, with, slow/1e6, without)
		require.GreaterOrEqual(t, with, 0.9)
		require.Less(t, without, 0.5)
	}
}

// TestSavings_PutsCarryCompany: a PUT by savings follows an answered one, so producers with full windows come to share it.
func TestSavings_PutsCarryCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, session := newS3Rig(t, nil)
		r.OnZoneWriter(&api.ZoneWriter{Session: session, SavingsLimit: 1 << 20})
		stop := make(chan struct{})
		var sending sync.WaitGroup
		all := make([]*window, 8)
		for i := range all {
			all[i] = &window{r: r}
			sending.Go(func() {
				time.Sleep(time.Duration(i) * 13 * time.Millisecond)
				all[i].send(int32(i), stop)
			})
		}
		time.Sleep(20 * time.Second)
		answered := 0
		for _, w := range all {
			answered += int(w.answered.Load())
		}
		puts := r.seals("savings") + r.seals("linger") + r.seals("interval")
		close(stop)
		sending.Wait()
		t.Logf("%d PUTs in 20 s, %.1f windows in each", puts, float64(answered)/windowRequests/float64(puts))
		require.Greater(t, answered, puts*windowRequests*4)
	})
}

// TestSavings_AreForParkedWindows: a client with more to send, one that hands over, and one without credit get no PUT by
// savings. The budget's PUTs are as before.
func TestSavings_AreForParkedWindows(t *testing.T) {
	for name, prepare := range map[string]func(r *rig, w *window, session uint32){
		"more to send": func(r *rig, w *window, session uint32) {
			w.busy.Store(true)
			r.OnZoneWriter(&api.ZoneWriter{Session: session, SavingsLimit: 1 << 20})
		},
		"requests elsewhere": func(r *rig, w *window, session uint32) {
			w.inFlight.Add(1) // a fetch, for instance
			r.OnZoneWriter(&api.ZoneWriter{Session: session, SavingsLimit: 1 << 20})
		},
		"no credit": func(*rig, *window, uint32) {},
		"another agent writes": func(r *rig, _ *window, session uint32) {
			r.OnZoneWriter(&api.ZoneWriter{Session: session, SavingsLimit: 1 << 20})
			r.OnZoneWriter(&api.ZoneWriter{Session: session + 1, SavingsLimit: 1 << 20})
		},
		"a new stream": func(r *rig, _ *window, session uint32) {
			r.OnZoneWriter(&api.ZoneWriter{Session: session, SavingsLimit: 1 << 20})
			r.OnWelcome(&api.Welcome{Session: session, BundlePrefix: "vc/", NextN: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, session := newS3Rig(t, nil)
				w := &window{r: r}
				prepare(r, w, session)
				stop := make(chan struct{})
				var sending sync.WaitGroup
				sending.Go(func() { w.send(0, stop) })
				time.Sleep(30 * time.Second)
				close(stop)
				sending.Wait()
				require.Zero(t, r.seals("savings"))
				require.InDelta(t, 30*4, r.seals("linger")+r.seals("interval"), 6)
				require.Zero(t, r.Savings().Spent)
			})
		})
	}
}

// TestSavings_EndSmoothly: the rate falls back to the budget with a time constant of 20 s.
func TestSavings_EndSmoothly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, session := newS3Rig(t, nil)
		var owner zoneOwner
		for range 100 {
			time.Sleep(time.Second)
			owner.lend(r, session)
		}
		stop := make(chan struct{})
		var sending sync.WaitGroup
		w := &window{r: r}
		sending.Go(func() { w.send(0, stop) })
		var rates []float64 // requests a second, of each 20 s
		for range 13 {
			before := w.answered.Load()
			for range 20 {
				time.Sleep(time.Second)
				owner.lend(r, session)
			}
			rates = append(rates, float64(w.answered.Load()-before)/20)
		}
		close(stop)
		sending.Wait()
		t.Logf("requests a second: %.1f", rates)
		budget := 4.0 * windowRequests
		require.Greater(t, rates[0], 2*budget)
		require.InDelta(t, budget, rates[12], 0.1*budget)
		for i := 1; i < len(rates); i++ {
			require.Less(t, rates[i], rates[i-1]+2, "20 s, no. %d", i)
			require.Greater(t, rates[i], 0.5*rates[i-1], "20 s, no. %d", i)
		}
	})
}

// TestSavings_ReportTokensThatOverflow: the bucket keeps one second of the share, and a wish follows from a parked window.
func TestSavings_ReportTokensThatOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newS3Rig(t, func(c *writer.Config) { c.Share = func() float64 { return 0.5 } })
		require.Equal(t, putbudget.Report{Rate: 4}, r.Savings())
		time.Sleep(10 * time.Second)
		require.Equal(t, putbudget.Report{Rate: 4, Unused: 20}, r.Savings())
		w := &window{r: r}
		stop := make(chan struct{})
		var sending sync.WaitGroup
		sending.Go(func() { w.send(0, stop) })
		time.Sleep(3 * time.Second)
		report := r.Savings()
		close(stop)
		sending.Wait()
		require.Positive(t, report.Wanted)
		require.InDelta(t, 20, report.Unused, 0.1)
	})
}

// TestSavings_NothingIsWantedWithTokens: a slow producer has its tokens, and asks for no loan.
func TestSavings_NothingIsWantedWithTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newS3Rig(t, nil)
		w := &window{r: r}
		for range 10 {
			b := plain(0, 100)
			b.Window = w
			w.inFlight.Store(1)
			r.accepted(r.add(b))
			time.Sleep(time.Second)
			require.Zero(t, r.Savings().Wanted)
		}
	})
}

// TestSavings_FollowAnswers: until a bundle is answered, there is no further PUT by savings.
func TestSavings_FollowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newIdleRig(t, func(c *writer.Config) {
			c.PutBurst, c.FlushInterval, c.Share = 1, time.Hour, func() float64 { return 1e-3 }
		})
		welcome := r.seq.open(t, "first")
		r.OnWelcome(welcome)
		r.OnZoneWriter(&api.ZoneWriter{Session: welcome.Session, SavingsLimit: 10})
		r.bucket.before = func(ctx context.Context, put int) error { return delay(put, 3*time.Second)(ctx, put) }
		for i := range int32(4) { // the bucket's token, then savings
			w := &window{r: r}
			w.inFlight.Store(1)
			b := plain(i, 100)
			b.Window = w
			r.add(b)
			time.Sleep(200 * time.Millisecond)
		}
		require.Equal(t, 1, r.seals("savings"))
		time.Sleep(3 * time.Second)
		require.Equal(t, 2, r.seals("savings"))
		time.Sleep(10 * time.Second)
		require.Equal(t, 2, r.seals("savings"), "both windows that were left went together")
		require.EqualValues(t, 2, r.Savings().Spent)
	})
}
