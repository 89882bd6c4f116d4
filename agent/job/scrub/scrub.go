// Package scrub reads bundles through for the owner of the virtual cluster, which plans what is checked and when: the
// control plane itself reads no records (I8). A check changes nothing and is repeated elsewhere if it is not answered, so it
// has no place in the log.
package scrub

import (
	"context"

	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// bytesPerSecond bounds what checks read: a bundle is read in a burst, and its owner pauses for as long as its bytes are
// worth. The largest takes two minutes.
const bytesPerSecond = 32 << 20

// Scrubber checks one bundle at a time.
type Scrubber struct {
	bucket objstore.Bucket
	key    func(id.Bundle) string
	answer func(id.Bundle, bundle.Finding)
	asked  chan question
}

type question struct {
	name  id.Bundle
	bytes uint32
}

// New gives a Scrubber of the bundles that key finds in a bucket. It answers by answer, which must not wait.
func New(b objstore.Bucket, key func(id.Bundle) string, answer func(id.Bundle, bundle.Finding)) *Scrubber {
	return &Scrubber{bucket: b, key: key, answer: answer, asked: make(chan question, 1)}
}

// OnCheckBundle implements client.CheckHandler. While a bundle is read one more waits; others are answered at once, as
// bundles of which nobody knows.
func (s *Scrubber) OnCheckBundle(name id.Bundle, bytes uint32) {
	select {
	case s.asked <- question{name, bytes}:
	default:
		s.answer(name, bundle.Finding{What: "the agent checks other bundles"})
	}
}

// Run checks until ctx ends; what is not answered then is asked again of others, since the session ends.
func (s *Scrubber) Run(ctx context.Context) error {
	limit := rate.NewLimiter(bytesPerSecond, bytesPerSecond)
	for {
		select {
		case <-ctx.Done():
			return nil
		case q := <-s.asked:
			f := bundle.CheckStored(ctx, s.bucket, s.key(q.name), q.name, int64(q.bytes), limit.WaitN)
			if ctx.Err() == nil {
				s.answer(q.name, f)
			}
		}
	}
}
