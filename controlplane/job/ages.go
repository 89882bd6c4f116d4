package job

import (
	"slices"
	"time"
)

// maxMoments bounds the moments remembered.
const maxMoments = 4096

// ages tells how old log indexes are at least, by when this owner saw them. The state has no times of bundles, and a new
// owner begins anew: what waits for an age then waits a little longer.
type ages struct {
	spacing time.Duration // between moments: ages are too low by so much
	cover   time.Duration // greater ages need not be told apart
	moments []moment
}

// moment is a log index and a time at which that was reached.
type moment struct {
	index uint64
	at    time.Time
}

// newAges is for telling ages up to longest, and shortest to an eighth.
func newAges(shortest, longest time.Duration) ages {
	return ages{spacing: max(shortest/8, longest/maxMoments), cover: longest}
}

// note remembers the index of now, if the last moment is long ago.
func (a *ages) note(index uint64, now time.Time) {
	if n := len(a.moments); n > 0 && (a.moments[n-1].index >= index || now.Sub(a.moments[n-1].at) < a.spacing) {
		return
	}
	old := 0
	for old+1 < len(a.moments) && now.Sub(a.moments[old+1].at) >= a.cover {
		old++
	}
	a.moments = append(slices.Delete(a.moments, 0, old), moment{index, now})
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
