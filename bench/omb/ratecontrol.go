package omb

import "time"

// The search for the highest rate starts at startRate and looks every searchPeriod.
const (
	startRate    = 10_000 // messages/s
	searchPeriod = 3 * time.Second
	backlogLimit = 1000 // messages that may be behind, received or published, without being too many
	leastStep    = 0.01 // of the rate
	mostStep     = 1.0
)

// rateControl looks for the highest rate at which publishing and receiving keep up.
type rateControl struct {
	step                float64
	published, received int64 // at the look before
}

func newRateControl() *rateControl { return &rateControl{step: mostStep} }

// next gives the rate to try after a period at rate, from the totals of messages published, and received by each
// subscription. When too many are behind, the step halves and the rate falls to what was achieved, or to what would have
// left nothing behind if that is less; else the step doubles and the rate grows by it.
func (c *rateControl) next(rate float64, period time.Duration, published, received int64) float64 {
	expected := int64(rate * period.Seconds())
	publishedNow, receivedNow := published-c.published, received-c.received
	c.published, c.received = published, received
	if behind := published - received; behind > backlogLimit {
		return c.down(period, receivedNow, expected-behind)
	}
	if behind := expected - publishedNow; behind > backlogLimit {
		return c.down(period, publishedNow, expected-behind)
	}
	c.step = min(mostStep, c.step*2)
	return rate + rate*c.step
}

func (c *rateControl) down(period time.Duration, achieved, bearable int64) float64 {
	c.step = max(leastStep, c.step/2)
	return float64(min(achieved, max(0, bearable))) / period.Seconds()
}
