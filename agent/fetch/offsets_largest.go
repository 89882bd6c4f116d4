package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/extent"
)

// errOwner is returned when the owner does not answer.
var errOwner = errors.New("owner does not answer")

// largest is the search for the record with the largest timestamp (KIP-734). Extents are read in the order of the
// timestamps that they claim, until none claims more than the best record found. One extent is enough unless a batch
// header claims a timestamp that no record has.
type largest struct {
	*Offsets
	want  *OffsetWant
	marks *api.PartitionAnswer // the newest answer
	best  OffsetResult
	spans []span

	misses  int    // 404s
	planned uint64 // number of the newest look-up: lost.planning
}

// span is a part of the partition that was not searched: offsets [from, to), and its extent that claims most.
type span struct {
	from, to int64
	claims   extent.Extent
}

// searchLargest finds the first record with the largest timestamp. As in Kafka's UnifiedLog.fetchOffsetByTimestamp,
// records below the log start count while their extent is there.
func (o *Offsets) searchLargest(ctx context.Context, w *OffsetWant, a *api.PartitionAnswer, readCommitted bool) OffsetResult {
	l := largest{Offsets: o, want: w, best: noOffset}
	err := l.add(a, 0, a.GetHighWatermark())
	for range maxSteps {
		if err != nil || len(l.spans) == 0 || l.best.Timestamp >= l.top().claims.MaxTimestamp {
			break
		}
		err = l.step(ctx)
	}
	switch {
	case errors.Is(err, errOwner):
		return OffsetResult{Err: kerr.NotLeaderForPartition, Offset: -1, Timestamp: -1}
	case err == nil && len(l.spans) > 0 && l.best.Timestamp < l.top().claims.MaxTimestamp:
		return o.failed(w, errSteps)
	case err != nil:
		return o.failed(w, err)
	case l.best.Offset >= lastFetchable(l.marks, readCommitted):
		return noOffset
	}
	return l.best
}

// add notes the answer for a span; an empty span brings nothing.
func (l *largest) add(a *api.PartitionAnswer, from, to int64) error {
	l.marks = a
	exts, err := view.ParseExtents(a.GetExtents())
	if err != nil || len(exts) == 0 {
		return err
	}
	if exts[0].MaxTimestamp >= 0 {
		l.spans = append(l.spans, span{from: from, to: to, claims: exts[0]})
	}
	return nil
}

// top returns the span that claims most, the first of equal ones.
func (l *largest) top() *span {
	at := 0
	for i := range l.spans {
		x, y := &l.spans[i].claims, &l.spans[at].claims
		if cmp.Or(cmp.Compare(x.MaxTimestamp, y.MaxTimestamp), cmp.Compare(y.Base, x.Base)) > 0 {
			at = i
		}
	}
	return &l.spans[at]
}

// step searches the extent that claims most. If it claims too much, the spans before and behind it are left.
func (l *largest) step(ctx context.Context) error {
	s := *l.top()
	l.spans = slices.DeleteFunc(l.spans, func(x span) bool { return x.from == s.from })
	exact, err := l.read(ctx, &s.claims)
	missing := (*cache.GoneError)(nil)
	switch {
	case errors.As(err, &missing):
		if l.noteMissing(l.want, missing, l.planned, s.claims.Base) {
			return errLost
		}
		if l.misses++; l.misses == maxGone {
			return err
		}
		return l.ask(ctx, span{from: s.from, to: s.to})
	case err != nil || exact:
		return err
	}
	return l.ask(ctx, span{from: s.from, to: s.claims.Base}, span{from: s.claims.Last + 1, to: s.to})
}

// ask looks up which extents of the spans claim most.
func (l *largest) ask(ctx context.Context, spans ...span) error {
	spans = slices.DeleteFunc(spans, func(s span) bool { return s.from >= s.to })
	if len(spans) == 0 {
		return nil
	}
	questions := make([]*api.PartitionLookup, len(spans))
	for i, s := range spans {
		questions[i] = l.want.question()
		questions[i].From, questions[i].To = s.from, s.to
	}
	l.planned = l.lost.planning()
	answers, err := l.Offsets.ask(ctx, questions)
	if err != nil {
		return fmt.Errorf("%w: %w", errOwner, err)
	}
	for i, s := range spans {
		if err := l.add(answers[i], s.from, s.to); err != nil {
			return err
		}
	}
	return nil
}

// read searches an extent for a record with a larger timestamp than the best one, and reports whether its claim is
// true.
func (l *largest) read(ctx context.Context, e *extent.Extent) (exact bool, err error) {
	found, ok, err := l.searchExtent(ctx, e, e.MaxTimestamp, 0)
	if err != nil {
		return false, err
	}
	if ok {
		l.take(found)
		return found.Timestamp == e.MaxTimestamp, nil
	}
	err = l.batches(ctx, e, l.best.Timestamp+1, func(b *cache.Bytes, batch cache.Batch) (bool, error) {
		if batch.MaxTimestamp <= l.best.Timestamp {
			return true, nil
		}
		at, ok, err := l.opener.FindLargest(ctx, b.Copy(batch))
		if ok {
			l.take(OffsetResult{Offset: at.Offset, Timestamp: at.Timestamp})
		}
		return true, err
	})
	return false, err
}

// take keeps a record that is better than the best one.
func (l *largest) take(r OffsetResult) {
	if r.Timestamp > l.best.Timestamp || r.Timestamp == l.best.Timestamp && r.Offset < l.best.Offset {
		l.best = r
	}
}
