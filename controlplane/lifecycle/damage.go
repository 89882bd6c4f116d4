package lifecycle

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// check is one of the things that are checked of a bundle, so that one check does not clear what the other has found.
type check int

const (
	missing check = iota // it is there, with the right size
	broken               // its bytes are intact
)

// damage is what the scrubber has found, as long as it is so.
type damage struct {
	mu    sync.Mutex
	found map[damaged]Damage
}

type damaged struct {
	bundle id.Bundle
	by     check
}

// found notes damage, if the bundle still is live: one that died meanwhile may be gone by right.
func (l *Lifecycle) found(ctx context.Context, o Owner, by check, name id.Bundle, what string) {
	live := false
	if _, err := o.Read(func(s *metadata.State) { _, live = s.BundleLevel(name) }); err != nil || !live {
		return
	}
	d := Damage{Bundle: name, Key: bundle.Key(l.cfg.BundlePrefix, name), What: what}
	d.FoundMs, _ = l.storeTime(ctx) // 0 says that nobody knows
	if l.damage.note(damaged{name, by}, d) {
		l.cfg.Log.Error("a bundle that records are in is damaged", zap.String("key", d.Key), zap.String("damage", what))
	}
	l.metrics.damaged.Set(float64(l.damage.count()))
}

// note remembers damage; false if it was known.
func (d *damage) note(key damaged, x Damage) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.found[key]; known {
		return false
	}
	if d.found == nil {
		d.found = map[damaged]Damage{}
	}
	if len(d.found) < maxDamage {
		d.found[key] = x
	}
	return true
}

func (d *damage) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	bundles := map[id.Bundle]bool{}
	for key := range d.found {
		bundles[key.bundle] = true
	}
	return len(bundles)
}

// clear forgets what a check had found and finds no more.
func (l *Lifecycle) clear(by check, name id.Bundle) {
	l.damage.mu.Lock()
	_, known := l.damage.found[damaged{name, by}]
	delete(l.damage.found, damaged{name, by})
	l.damage.mu.Unlock()
	if known {
		l.metrics.damaged.Set(float64(l.damage.count()))
	}
}

// Damaged gives the damaged bundles that records are still in, in the order of their names, as far as this replica has
// found them since it started.
func (l *Lifecycle) Damaged(s *metadata.State) []Damage {
	l.damage.mu.Lock()
	defer l.damage.mu.Unlock()
	var list []Damage
	for key, d := range l.damage.found {
		if _, live := s.BundleLevel(key.bundle); live {
			list = append(list, d)
		} else {
			delete(l.damage.found, key)
		}
	}
	slices.SortFunc(list, func(a, b Damage) int { return cmp.Or(cmp.Compare(a.Bundle, b.Bundle), cmp.Compare(a.What, b.What)) })
	return list
}

// prune forgets damage of bundles that no records are in any more.
func (l *Lifecycle) prune(o Owner) {
	_, _ = o.Read(func(s *metadata.State) { l.Damaged(s) }) // who is no owner prunes nothing
	l.metrics.damaged.Set(float64(l.damage.count()))
}
