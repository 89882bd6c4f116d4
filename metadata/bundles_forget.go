package metadata

import (
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

const (
	// reviveMs is how long a dead bundle can be revived by a resubmission, which agents give up after seconds. It
	// must be well below DeadBundleMinMs: an object that is being deleted must not come to life.
	reviveMs = 5 * 60 * 1000
	// DeadBundleMinMs is the least command time since its death after which a bundle's object may be deleted.
	DeadBundleMinMs = 2 * reviveMs
)

// ForgetBundles takes dead bundles out of the state, once their objects are deleted. Those that are not dead stay.
// Result: how many it took out (int64).
type ForgetBundles struct{ Bundles []id.Bundle }

func (s *machine) forgetBundles(c *ForgetBundles, _ *Effects) Result {
	var n int64
	for _, b := range c.Bundles {
		if d, ok := s.dead.Get(b); ok && s.now-d.AtMs >= DeadBundleMinMs {
			s.dead.Delete(b)
			n++
		}
	}
	return Result{Value: n}
}

func (c *ForgetBundles) appendBody(dst []byte) []byte { return appendBundles(dst, c.Bundles) }

func (c *ForgetBundles) readBody(w *wire.Reader) { c.Bundles = readBundles(w) }

// revivable tells whether a resubmission may still refer to a bundle.
func (s *machine) revivable(b id.Bundle) bool {
	d, dead := s.dead.Get(b)
	return !dead || s.now-d.AtMs < reviveMs
}
