package job

import (
	"slices"
	"time"
)

// maxMoments bounds the moments remembered.
const maxMoments = 4096

// ages tells how old log indexes are at least, by when this owner saw them. The state has no times of bundles, and a new
// owner begins anew: what waits for an age then waits a little longer.
type ages struct{ moments []moment }

// moment is a log index and a time at which that was reached.
type moment struct {
	index uint64
	at    time.Time
}

// note remembers the index of now. Of many moments every second one is forgotten.
func (a *ages) note(index uint64, now time.Time) {
	if n := len(a.moments); n > 0 && a.moments[n-1].index >= index {
		return
	}
	if len(a.moments) == maxMoments {
		for i := range maxMoments / 2 {
			a.moments[i] = a.moments[2*i+1]
		}
		a.moments = a.moments[:maxMoments/2]
	}
	a.moments = append(a.moments, moment{index, now})
}

// age is how long ago the entry was in the log already.
func (a *ages) age(index uint64, now time.Time) time.Duration {
	i, _ := slices.BinarySearchFunc(a.moments, index, func(m moment, index uint64) int {
		if m.index < index {
			return -1
		}
		return 1
	})
	if i == len(a.moments) {
		return 0
	}
	return now.Sub(a.moments[i].at)
}
