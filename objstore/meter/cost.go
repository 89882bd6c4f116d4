package meter

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/objstore/price"
)

// costs counts what the object store charges for.
type costs struct {
	prices  price.Table
	charges [price.NumCharges]charge
}

func newCosts(prices price.Table, reg prometheus.Registerer) *costs {
	c := &costs{prices: prices}
	for n := range price.NumCharges {
		of := &c.charges[n]
		labels := prometheus.Labels{"charge": n.String()}
		reg.MustRegister(
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name:        "freshet_objstore_request_cost_usd_total",
				Help:        "What the object store charges for requests, and for their bytes where it does, by the prices of --request-prices.",
				ConstLabels: labels,
			}, func() float64 { return float64(of.total()) * prices[n] }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name:        "freshet_objstore_request_cost_usd_per_hour",
				Help:        "The same as USD per hour at the pace of the last minute.",
				ConstLabels: labels,
			}, func() float64 { return of.perSecond(time.Now()) * time.Hour.Seconds() * prices[n] }),
		)
	}
	return c
}

// add counts n requests or bytes. What costs nothing is not counted.
func (c *costs) add(of price.Charge, n int64) {
	if c.prices[of] != 0 {
		c.charges[of].add(n, time.Now())
	}
}

// perHour is what all charges come to, USD an hour at the pace of the last minute.
func (c *costs) perHour(now time.Time) (usd float64) {
	for n := range price.NumCharges {
		usd += c.charges[n].perSecond(now) * time.Hour.Seconds() * c.prices[n]
	}
	return usd
}

// A charge's pace is that of its newest slots: so long each, so many of them.
const (
	slotTime  = 5 * time.Second
	slotCount = 12
)

// charge counts one kind of what is charged for, all of it and the last minute's in slots of time.
type charge struct {
	mu    sync.Mutex
	sum   int64
	first time.Time // of the first count
	slots [slotCount]slot
}

// slot is what was counted in the number-th slotTime since the epoch.
type slot struct{ number, n int64 }

func slotOf(t time.Time) int64 { return t.UnixNano() / int64(slotTime) }

func (c *charge) add(n int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first.IsZero() {
		c.first = now
	}
	c.sum += n
	number := slotOf(now)
	s := &c.slots[number%slotCount]
	if s.number != number {
		*s = slot{number: number}
	}
	s.n += n
}

func (c *charge) total() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sum
}

// perSecond is the mean over the slots up to now, or over the time since the first count if that is shorter, one slot at
// least: the first request of a process is no pace.
func (c *charge) perSecond(now time.Time) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	newest, n := slotOf(now), int64(0)
	for _, s := range c.slots {
		if s.number > newest-slotCount && s.number <= newest {
			n += s.n
		}
	}
	span := now.Sub(time.Unix(0, (newest-slotCount+1)*int64(slotTime)))
	return float64(n) / max(min(span, now.Sub(c.first)), slotTime).Seconds()
}
