package replica

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Clock is a clock beside this machine's and the object store's.
type Clock struct {
	Name string // "etcd's clock"
	// Now returns the clock's time. It returns once ctx has ended.
	Now func(ctx context.Context) (time.Time, error)
}

// Bounds of a survey.
const (
	// quorum is the least number of clocks, with this machine's, of which a majority decides.
	quorum = 3
	// maxClocks bounds the other clocks of one survey, each asked once.
	maxClocks = 16
)

// survey compares clocks at one moment: first this machine's, then the store's as last measured, then the other clocks that answered.
type survey struct {
	clocks []compared
	max    time.Duration // between clocks that agree
}

// compared is one clock of a survey.
type compared struct {
	name  string
	ahead time.Duration // of this machine's clock before this one; 0 for itself
}

// survey asks the other clocks, all at once, for at most clockTimeout.
func (c *clock) survey(ctx context.Context) *survey {
	others := c.others()
	others = others[:min(len(others), maxClocks)]
	answers := make([]*compared, len(others))
	var asked sync.WaitGroup
	for i, other := range others {
		asked.Go(func() {
			if _, ahead, err := c.compare(ctx, other.Now); err == nil { // a silent clock has no vote
				answers[i] = &compared{other.Name, ahead}
			}
		})
	}
	asked.Wait()
	s := &survey{max: c.max, clocks: []compared{
		{"this machine's clock", 0}, {"the object store's clock", time.Duration(c.skew.Load())},
	}}
	for _, answer := range answers {
		if answer != nil {
			s.clocks = append(s.clocks, *answer)
		}
	}
	c.surveyed.Store(s)
	return s
}

// confirmed reports whether a majority of at least quorum clocks agrees with this machine's, itself included.
func (s *survey) confirmed() bool { return s.majority(s.clocks[0]) }

// majority reports whether a majority of at least quorum clocks agrees with a clock, itself included.
func (s *survey) majority(clock compared) bool {
	agreeing, _ := s.split(clock)
	return len(s.clocks) >= quorum && 2*len(agreeing) > len(s.clocks)
}

// split returns the clocks that agree with a clock, itself included, and the others.
func (s *survey) split(clock compared) (agreeing, off []compared) {
	for _, other := range s.clocks {
		if (other.ahead - clock.ahead).Abs() <= s.max {
			agreeing = append(agreeing, other)
		} else {
			off = append(off, other)
		}
	}
	return agreeing, off
}

// String names the clocks that are off and by how much. Without a majority it compares this machine's clock with each other clock.
func (s *survey) String() string {
	for _, clock := range s.clocks {
		if !s.majority(clock) {
			continue
		}
		agreeing, off := s.split(clock)
		var faults, names []string
		for _, a := range agreeing {
			names = append(names, a.name)
		}
		for _, o := range off {
			faults = append(faults, fmt.Sprintf("%s is %s", o.name, apart(clock.ahead-o.ahead)))
		}
		return fmt.Sprintf("%s %s", strings.Join(faults, ", "), strings.Join(names, " and "))
	}
	var differences []string
	for _, other := range s.clocks[1:] {
		differences = append(differences, apart(other.ahead)+" "+other.name)
	}
	return fmt.Sprintf("no majority of at least %d clocks agrees: this machine's clock is %s", quorum, strings.Join(differences, " and "))
}

// apart returns a difference in words, without the clock that it refers to.
func apart(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).Round(100*time.Millisecond).String() + " behind"
	}
	return ahead.Round(100*time.Millisecond).String() + " ahead of"
}
