package omb

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

const day = 24 * time.Hour

// Curve is a rate that changes with time, straight from point to point.
//
// In the form [[hour, minute, rate] ...] points are times of day, local ones, and the curve goes round: after the last
// point of a day it runs to the first of the next. In the form [[minutes, rate] ...] they count from the start of the
// load, and the first and last rate hold before and after.
type Curve struct {
	points []point
	ofDay  bool
}

type point struct {
	at   time.Duration
	rate float64
}

// Curve reads producerRateList; without one it is nil.
func (w *Workload) Curve() (*Curve, error) {
	if w.ProducerRateList == nil {
		return nil, nil //nolint:nilnil // no curve is not a fault
	}
	if len(w.ProducerRateList) == 0 {
		return nil, errors.New("no points")
	}
	c := &Curve{ofDay: len(w.ProducerRateList[0]) == 3}
	for i, entry := range w.ProducerRateList {
		if len(entry) != len(w.ProducerRateList[0]) || len(entry) < 2 || len(entry) > 3 {
			return nil, fmt.Errorf("entry %d has %d numbers, allowed are [hour, minute, rate] or [minutes, rate], the same for all", i+1, len(entry))
		}
		p := point{at: minutes(entry[0]), rate: entry[len(entry)-1]}
		if c.ofDay {
			if !upTo(entry[0], 23) || !upTo(entry[1], 59) {
				return nil, fmt.Errorf("entry %d is no time of day: %v:%v", i+1, entry[0], entry[1])
			}
			p.at = minutes(entry[0]*60 + entry[1])
		}
		if p.at < 0 || !upTo(p.rate, 1e12) {
			return nil, fmt.Errorf("entry %d has a negative time, or a rate that is not within 0 and 1e12", i+1)
		}
		c.points = append(c.points, p)
	}
	slices.SortStableFunc(c.points, func(a, b point) int { return int(a.at - b.at) })
	return c, nil
}

// At gives the rate at a moment of a load that began at start, in messages/s.
func (c *Curve) At(start, now time.Time) float64 {
	if !c.ofDay {
		return c.between(now.Sub(start))
	}
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	first, last := c.points[0], c.points[len(c.points)-1]
	round := Curve{points: slices.Concat(
		[]point{{at: last.at - day, rate: last.rate}}, c.points, []point{{at: first.at + day, rate: first.rate}},
	)}
	return round.between(now.Sub(midnight))
}

// between interpolates. Of points at the same time, the last counts from then on.
func (c *Curve) between(at time.Duration) float64 {
	after := slices.IndexFunc(c.points, func(p point) bool { return p.at > at })
	switch after {
	case -1:
		return c.points[len(c.points)-1].rate
	case 0:
		return c.points[0].rate
	}
	a, b := c.points[after-1], c.points[after]
	return a.rate + (b.rate-a.rate)*float64(at-a.at)/float64(b.at-a.at)
}
