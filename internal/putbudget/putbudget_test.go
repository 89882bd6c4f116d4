package putbudget_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/putbudget"
)

func TestBucket_CountsWhatOverflows(t *testing.T) {
	var b putbudget.Bucket
	now := time.Unix(0, 0)
	b.Refill(now, 4, 4)
	require.True(t, b.Free())
	require.Zero(t, b.Unused())
	b.Charge()
	b.Refill(now.Add(time.Second), 4, 4)
	require.InDelta(t, 3, b.Unused(), 1e-9)
	for range 20 {
		b.Charge()
	}
	b.Refill(now.Add(time.Second), 4, 4)
	require.Equal(t, 1250*time.Millisecond+1, b.Wait(4), "the debt ends at one burst")
	b.Refill(now.Add(4*time.Second), 4, 4)
	require.InDelta(t, 7, b.Unused(), 1e-9)
}

func TestSavings_TotalsMakeLostAndRepeatedReportsHarmless(t *testing.T) {
	var s putbudget.Savings
	var l putbudget.Loan
	s.SetRate(4)
	s.Report(&l, putbudget.Report{Unused: 1000})
	require.Zero(t, s.Saved(), "the owner before may have had these")
	for range 3 {
		s.Report(&l, putbudget.Report{Unused: 1600, Wanted: 50})
		require.InDelta(t, 600, s.Saved(), 0)
	}
	require.EqualValues(t, 30, s.Lend(&l))
	require.EqualValues(t, 30, s.Lend(&l), "renewed only as it is spent")
	require.InDelta(t, 570, s.Saved(), 0)
	s.Report(&l, putbudget.Report{Unused: 1600, Spent: 4, Wanted: 50})
	require.EqualValues(t, 4+28, s.Lend(&l))
	require.InDelta(t, 568, s.Saved(), 0)
	s.Close(&l)
	require.InDelta(t, 568, s.Saved(), 0, "the rest of the loan is lost")
	require.Zero(t, s.Lend(&l))
}

func TestSavings_HoldAnHourAtMost(t *testing.T) {
	var s putbudget.Savings
	var a, b putbudget.Loan
	s.SetRate(4)
	s.Report(&a, putbudget.Report{})
	s.Report(&b, putbudget.Report{})
	s.Report(&a, putbudget.Report{Unused: 1e9, Wanted: 1e6})
	require.InDelta(t, 4*putbudget.MostSeconds, s.Saved(), 0)
	limit := s.Lend(&a)
	require.EqualValues(t, 4*putbudget.MostSeconds/putbudget.Part, limit)
	s.Report(&b, putbudget.Report{Unused: 1e9})
	require.InDelta(t, 4*putbudget.MostSeconds-float64(limit), s.Saved(), 0, "loans count")
	s.SetRate(1)
	require.InDelta(t, putbudget.MostSeconds-float64(limit), s.Saved(), 0, "a lower budget has a lower bound")
}

func TestSavings_RateFallsSmoothly(t *testing.T) {
	var s putbudget.Savings
	var l putbudget.Loan
	var c putbudget.Credit
	s.SetRate(4)
	s.Report(&l, putbudget.Report{})
	unused, wanted := 3600.0, uint64(20)
	var perSecond []uint64
	for range 600 {
		s.Report(&l, putbudget.Report{Unused: unused, Spent: c.Spent(), Wanted: wanted})
		c.Grant(s.Lend(&l))
		n := uint64(0)
		for ; c.Left() && n < wanted; n++ {
			c.Spend()
		}
		perSecond = append(perSecond, n)
	}
	require.EqualValues(t, wanted, perSecond[0])
	require.Zero(t, perSecond[599])
	for i := 1; i < len(perSecond); i++ {
		require.LessOrEqual(t, perSecond[i], perSecond[i-1])
		require.LessOrEqual(t, perSecond[i-1]-perSecond[i], uint64(1), "second %d", i)
	}
}

// process is an agent's writer.
type process struct {
	bucket putbudget.Bucket
	credit putbudget.Credit
	share  float64 // as it was told last
	load   load
	loan   putbudget.Loan // at the owner
	writes bool           // as the owner plans
}

// load is what clients of a writer do.
type load int

const (
	idle    load = iota
	some         // less than the budget
	waiting      // all that tokens and credit allow
	heavy        // seals by interval or size, which run into debt, and all that credit allows
	loads
)

// zone is writers and an owner, driven by a seed.
type zone struct {
	r       *rand.Rand
	rate    float64
	now     time.Time
	all     []*process
	savings *putbudget.Savings
	most    float64 // largest excess over the rate in any window, PUTs
	excess  float64 // PUTs less rate x time
	lowest  float64 // of excess
}

// put counts a PUT of the kind that the budget governs. The largest excess is over all windows that end now.
func (z *zone) put() {
	z.excess++
	z.most = max(z.most, z.excess-z.lowest)
}

// second lets a second pass: processes write, then report, and the owner lends.
func (z *zone) second() {
	z.now = z.now.Add(time.Second)
	z.excess -= z.rate
	z.lowest = min(z.lowest, z.excess)
	for _, p := range z.all {
		z.write(p)
	}
	for _, p := range z.all {
		z.talk(p)
	}
}

func (z *zone) write(p *process) {
	p.bucket.Refill(z.now, z.rate*p.share, max(z.rate*p.share, 1))
	if !p.writes {
		return
	}
	switch p.load {
	case some:
		if p.bucket.Free() && z.r.IntN(3) == 0 {
			p.bucket.Charge()
			z.put()
		}
	case heavy:
		for range z.r.IntN(40) {
			p.bucket.Charge() // not governed
		}
	case waiting:
		for p.bucket.Free() {
			p.bucket.Charge()
			z.put()
		}
	default:
		return
	}
	for p.load != some && p.credit.Left() && z.r.IntN(200) != 0 {
		p.credit.Spend()
		z.put()
	}
}

// talk has a process report, and the owner lend to it. Messages of both are lost or repeated at times.
func (z *zone) talk(p *process) {
	r := putbudget.Report{Rate: z.rate, Unused: p.bucket.Unused(), Spent: p.credit.Spent(), Wanted: z.r.Uint64N(100)}
	fate := z.r.IntN(20)
	switch {
	case !p.writes:
		return
	case fate == 0:
		return // lost
	case fate == 1:
		z.savings.Report(&p.loan, r) // repeated
	}
	z.savings.Report(&p.loan, r)
	limit := z.savings.Lend(&p.loan)
	if z.r.IntN(20) > 0 {
		p.credit.Grant(limit)
	}
}

// happen changes something.
func (z *zone) happen() {
	p := z.all[z.r.IntN(len(z.all))]
	switch z.r.IntN(8) {
	case 0: // a process restarts
		z.savings.Close(&p.loan)
		*p = process{writes: p.writes, share: p.share, load: p.load}
	case 1: // or joins
		if len(z.all) < 5 {
			z.all = append(z.all, &process{})
			z.plan()
		}
	case 2: // or goes
		if len(z.all) > 1 {
			z.savings.Close(&z.all[0].loan)
			z.all = z.all[1:]
			z.plan()
		}
	case 3: // other agents write
		z.plan()
	case 4: // the owner changes
		z.own()
	case 5: // a stream breaks
		z.savings.Close(&p.loan)
		p.credit.Grant(0)
	default:
		p.load = load(z.r.IntN(int(loads)))
	}
}

// own begins an owner's tenure.
func (z *zone) own() {
	z.savings = &putbudget.Savings{}
	z.savings.SetRate(z.rate)
	for _, p := range z.all {
		p.loan = putbudget.Loan{}
		p.credit.Grant(0)
	}
}

// plan chooses writers and shares the budget among them.
func (z *zone) plan() {
	writers := 1 + z.r.IntN(len(z.all))
	for i, at := range z.r.Perm(len(z.all)) {
		p := z.all[at]
		wrote := p.writes
		p.writes, p.share = i < writers, 1/float64(writers)
		if wrote && !p.writes {
			z.savings.Close(&p.loan)
			p.credit.Grant(0)
		}
	}
}

// TestSavings_BoundTheZone: with writers that join, restart, hand over and go, owners that change, and messages that are
// lost or repeated, no window of T hours has more than budget x (T + 1 h) PUTs.
func TestSavings_BoundTheZone(t *testing.T) {
	const hour = 3600
	highest := 0.0
	for seed := range uint64(300) {
		z := &zone{r: rand.New(rand.NewPCG(seed, 1)), rate: []float64{1, 4, 50}[seed%3], now: time.Unix(0, 0)}
		z.all = []*process{{}}
		z.own()
		z.plan()
		calm := seed%2 == 0 // idle hours first
		for second := range 4 * hour {
			switch {
			case calm && second < 2*hour:
				z.all[0].load = idle
			case calm && second == 2*hour:
				z.all[0].load = waiting
			case z.r.IntN(hour/10) == 0:
				z.happen()
			}
			z.second()
		}
		require.LessOrEqual(t, z.most, z.rate*hour, "seed %d", seed)
		highest = max(highest, z.most/z.rate/hour)
	}
	t.Logf("largest excess over the budget: %.3f h of it", highest)
	require.Greater(t, highest, 0.9, "savings are spent")
}
