package session

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/freshet-io/freshet/metadata"
)

// sample holds the bundles of BucketChecks. Half of them are the newest ones, which a bucket to which the objects were copied earlier does not
// have. The others are spread over all names.
type sample struct {
	mu struct {
		sync.Mutex
		names []uint64
		until time.Time
	}
}

// bundles returns at most checkBundles live bundles, all of them if there are fewer. It walks the state once per checkTime, without the
// owner's lock. Fewer bundles are not kept: the walk costs nothing, and the next bundle counts.
func (p *sample) bundles(readFrozen func(func(*metadata.State)) (uint64, error)) ([]uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.mu.until) {
		return p.mu.names, nil
	}
	var names []uint64
	if _, err := readFrozen(func(s *metadata.State) { names = sampleOf(s) }); err != nil {
		return nil, err
	}
	if len(names) == checkBundles {
		p.mu.names, p.mu.until = names, time.Now().Add(checkTime)
	}
	return names, nil
}

// named is a bundle with its time.
type named struct {
	name   uint64
	madeMs int64
}

// sampleOf returns the newest checkBundles/2 bundles, and as many of the others at equal distances.
func sampleOf(s *metadata.State) (names []uint64) {
	const newestBundles = checkBundles / 2
	byTime := func(a, b named) int { return cmp.Compare(a.madeMs, b.madeMs) }
	var newest []named // oldest first
	count := 0
	for b, info := range s.Bundles() {
		count++
		n := named{uint64(b), info.MadeMs}
		if len(newest) == newestBundles {
			if n.madeMs < newest[0].madeMs {
				continue
			}
			newest = newest[1:]
		}
		at, _ := slices.BinarySearchFunc(newest, n, byTime)
		newest = slices.Insert(newest, at, n)
	}
	for _, n := range newest {
		names = append(names, n.name)
	}
	others, at := count-len(newest), 0
	spread := min(others, checkBundles-newestBundles)
	for b := range s.Bundles() {
		if slices.ContainsFunc(newest, func(n named) bool { return n.name == uint64(b) }) {
			continue
		}
		if taken := len(names) - len(newest); taken < spread && at == taken*others/spread {
			names = append(names, uint64(b))
		}
		at++
	}
	return names
}
