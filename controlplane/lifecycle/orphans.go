package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

const (
	// listsPerSecond is the lowest bound of the sweeps' LIST rate, which rises if many sessions and jobs end. A LIST costs as much as a
	// PUT. listsPerWriter is the number of LISTs for one session or job.
	listsPerSecond = 2
	listsPerWriter = 3
	// roundWriters is the lowest bound of the sessions and jobs in one round, which also rises. maxRoundWriters is the highest.
	roundWriters    = 100
	maxRoundWriters = 10_000
	// againShare is the part of a round, one in so many, that writers whose sweep failed before can count on.
	againShare = 4
	// maxUncommitted is the maximum number of objects that a session can have put at or above its lowest unsettled submission: the
	// owner holds at most as many commits. More objects mean that the state is older than the bucket. They may hold acknowledged
	// records.
	maxUncommitted = 1024
	// clockSlack is the maximum time by which an object may be older than its session, by the store's clock.
	clockSlack = time.Minute
)

// sweep deletes the orphans of sessions and jobs that ended OrphanAge ago, and removes their entries from the state. A session ends for
// ever (I9), so an object without a commit stays an orphan. OrphanAge only has to outlast PUTs that are in flight.
func (l *Lifecycle) sweep(ctx context.Context, o Owner) error {
	now, err := l.storeTime(ctx)
	if err != nil {
		return err
	}
	var due, again []metadata.EndedWriter
	var count int
	_, err = o.ReadFrozen(func(s *metadata.State) {
		due, again, count = l.due(s, min(now, s.Now()))
	})
	if err != nil {
		return fmt.Errorf("look for ended sessions: %w", err)
	}
	l.metrics.unswept.Set(float64(count))
	if l.cfg.Settings.OrphanSweep == SweepOff {
		return recordSwept(ctx, o, due...)
	}
	l.lists.SetLimit(rate.Limit(max(listsPerSecond, listsPerWriter*l.pace(count))))
	round := max(roundWriters, int(2*l.pace(count)*l.cfg.Settings.GarbageCheck.Seconds()))
	return l.sweepAll(ctx, o, share(due, again, round))
}

// sweepAll sweeps one writer after the other. A writer that fails waits longer each time; the others go on, unless several fail in a
// row: then the store or the owner is away. A writer with objects that the store refuses to delete waits too, and is logged by itself.
func (l *Lifecycle) sweepAll(ctx context.Context, o Owner, due []metadata.EndedWriter) error {
	var errs []error
	inARow, lines := 0, 0
	for _, w := range due {
		err := l.sweepWriter(ctx, o, w)
		if err == nil {
			if err := recordSwept(ctx, o, w); err != nil {
				return err
			}
			l.unswept.clear(w.ID)
			inARow = 0
			continue
		}
		l.unswept.note(w.ID, time.Now(), l.cfg.Settings.GarbageCheck)
		if refused := new(objstore.DeleteError); errors.As(err, &refused) {
			if lines < loggedKeys && l.unswept.logDue(w.ID, time.Now()) {
				lines++
				key, err := refused.First()
				l.logRefused(zap.String("key", key), err, "the control plane")
			}
			inARow = 0
			continue
		}
		errs = append(errs, fmt.Errorf("sweep session or job %d: %w", w.ID, err))
		if inARow++; inARow == maxFailures || ctx.Err() != nil {
			break
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("%d of %d sweeps failed: %w", len(errs), len(due), errs[0])
	}
	return nil
}

// pace returns the number of sweeps per second: twice the rate at which count sessions and jobs ended within OrphanAge. So the table
// stays bounded at any rate of jobs.
func (l *Lifecycle) pace(count int) float64 {
	return 2 * float64(count) / max(l.cfg.Settings.OrphanAge, time.Minute).Seconds()
}

// due returns the ended writers whose sweep is due at now (ms), and the number of all ended ones. Writers whose sweep failed before are in
// again, the one that has waited longest first. Both lists have at most maxRoundWriters.
func (l *Lifecycle) due(s *metadata.State, now int64) (due, again []metadata.EndedWriter, count int) {
	l.unswept.retain(func(n id.Session) bool { _, ok := s.EndedWriter(n); return ok })
	for w := range s.EndedWriters() {
		count++
		if now < w.EndedMs+l.cfg.Settings.OrphanAge.Milliseconds() {
			continue
		}
		if _, failed := l.unswept[w.ID]; !failed && len(due) < maxRoundWriters {
			due = append(due, w)
		} else if failed && !l.unswept.waits(w.ID, time.Now()) {
			again = append(again, w)
		}
	}
	slices.SortStableFunc(again, func(a, b metadata.EndedWriter) int {
		return l.unswept[a.ID].until.Compare(l.unswept[b.ID].until)
	})
	return due, again[:min(len(again), maxRoundWriters)], count
}

// share returns the writers of a round of n, those of again last. Each list has the places that the other leaves. The share of again is
// n/againShare, so neither starves.
func share(due, again []metadata.EndedWriter, n int) []metadata.EndedWriter {
	due = due[:min(len(due), n-min(len(again), n/againShare))]
	return slices.Concat(due, again[:min(len(again), n-len(due))])
}

// sweepWriter deletes the orphans of one session or job, page by page, and aborts its unfinished uploads. If the store refuses to
// delete some of the orphans, sweepWriter does everything else and returns a DeleteError of the first ones.
func (l *Lifecycle) sweepWriter(ctx context.Context, o Owner, w metadata.EndedWriter) error {
	s := sweeper{l: l, owner: o, writer: w, prefix: bundle.SessionPrefix(l.cfg.BundlePrefix, w.ID), refused: make(map[string]error)}
	if err := s.objects(ctx); err != nil {
		return err
	}
	if err := s.uploads(ctx); err != nil {
		return err
	}
	s.log()
	if err := objstore.NewDeleteError(s.refused); err != nil {
		return err
	}
	l.metrics.orphansOdd.Add(float64(s.kept))
	return nil
}

func recordSwept(ctx context.Context, o Owner, swept ...metadata.EndedWriter) error {
	if len(swept) == 0 {
		return nil
	}
	c := &metadata.RecordSweep{}
	for _, w := range swept {
		c.Writers = append(c.Writers, w.ID)
	}
	if _, _, err := o.Propose(ctx, c); err != nil {
		return fmt.Errorf("note the sweep: %w", err)
	}
	return nil
}

// sweeper sweeps one ended session or job.
type sweeper struct {
	l      *Lifecycle
	owner  Owner
	writer metadata.EndedWriter
	prefix string

	unsettled []objstore.Info // unknown objects at or above the lowest unsettled submission
	count     int             // deleted orphans
	bytes     int64           // of them
	kept      int             // unknown objects that stay
	aborted   int             // aborted uploads
	keys      []string        // of the first deleted orphans, for the log

	refused map[string]error // the first orphans that the store did not delete, at most loggedKeys
}

// objects lists the writer's objects and deletes the orphans. Objects of unsettled submissions come last in the listing. They are deleted
// at its end, unless there are more than maxUncommitted.
func (s *sweeper) objects(ctx context.Context) error {
	for after := ""; ; {
		if err := s.l.lists.Wait(ctx); err != nil {
			return fmt.Errorf("wait to list: %w", err)
		}
		page, err := s.l.cfg.Bucket.List(ctx, s.prefix, after, objstore.MaxKeys)
		if err != nil {
			return fmt.Errorf("list %s: %w", s.prefix, err)
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Key
		orphans, err := s.orphans(page)
		if err != nil {
			return err
		}
		if err := s.remove(ctx, orphans); err != nil {
			return err
		}
		if len(s.unsettled) > maxUncommitted {
			s.kept += len(s.unsettled)
			s.l.cfg.Log.Error("sweep keeps a session's objects: it has put far more than was committed, this state may be older than the bucket",
				zap.Uint32("session", uint32(s.writer.ID)), zap.String("prefix", s.prefix), zap.Uint32("settled_below", s.writer.NextN))
			return nil
		}
	}
	return s.remove(ctx, s.unsettled)
}

// mayBeUncommitted reports whether submission n was possibly unsettled when its session was closed. Submissions below NextN were settled, so
// an unknown object there was abandoned, or its bundle was deleted.
func mayBeUncommitted(w *metadata.EndedWriter, n uint32) bool { return !w.Job && n >= w.NextN }

// orphans returns the objects of a page that can be deleted now. It collects objects of unsettled submissions in unsettled.
func (s *sweeper) orphans(page []objstore.Info) (orphans []objstore.Info, err error) {
	_, err = s.owner.Read(func(state *metadata.State) {
		w, ok := state.EndedWriter(s.writer.ID)
		if !ok {
			return // swept by the next owner
		}
		for _, object := range page {
			b, err := bundle.ParseKey(s.l.cfg.BundlePrefix, object.Key)
			if err != nil || b.Submission().Session != w.ID || object.Modified.UnixMilli() < w.OpenedMs-clockSlack.Milliseconds() {
				s.kept++ // this session cannot have put it
				continue
			}
			if _, _, _, known := state.Bundle(b); known {
				continue
			}
			if mayBeUncommitted(&w, b.Submission().N) {
				s.unsettled = append(s.unsettled, object)
			} else {
				orphans = append(orphans, object)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("compare with the state: %w", err)
	}
	return orphans, nil
}

// remove deletes orphans, and collects those that the store refuses to delete in refused.
func (s *sweeper) remove(ctx context.Context, orphans []objstore.Info) error {
	for chunk := range slices.Chunk(orphans, objstore.MaxKeys) {
		keys := make([]string, len(chunk))
		for i := range chunk {
			keys[i] = chunk[i].Key
		}
		failed, err := deleteSome(ctx, s.l.cfg.Bucket, keys)
		if err != nil {
			return err
		}
		for i := range chunk {
			s.removed(&chunk[i], failed[keys[i]])
		}
	}
	return nil
}

// removed counts one orphan by the outcome of its deletion.
func (s *sweeper) removed(object *objstore.Info, err error) {
	if err != nil {
		if len(s.refused) < loggedKeys {
			s.refused[object.Key] = err
		}
		return
	}
	s.l.metrics.orphans.Inc()
	s.l.metrics.orphanBytes.Add(float64(object.Size))
	s.count, s.bytes = s.count+1, s.bytes+object.Size
	if len(s.keys) < loggedKeys {
		s.keys = append(s.keys, object.Key)
	}
}

// uploads aborts the writer's unfinished uploads.
func (s *sweeper) uploads(ctx context.Context) error {
	for after := ""; ; {
		if err := s.l.lists.Wait(ctx); err != nil {
			return fmt.Errorf("wait to list: %w", err)
		}
		page, err := s.l.cfg.Bucket.Uploads(ctx, s.prefix, after, objstore.MaxKeys)
		if err != nil {
			return fmt.Errorf("list uploads of %s: %w", s.prefix, err)
		}
		if len(page) == 0 {
			return nil
		}
		for _, u := range page {
			if _, err := bundle.ParseKey(s.l.cfg.BundlePrefix, u.Key); err != nil {
				continue
			}
			if err := s.l.cfg.Bucket.AbortUpload(ctx, u); err != nil {
				return fmt.Errorf("abort the upload of %s: %w", u.Key, err)
			}
			s.aborted++
			s.l.metrics.uploads.Inc()
		}
		after = page[len(page)-1].Key
	}
}

func (s *sweeper) log() {
	if s.count+s.kept+s.aborted == 0 {
		return
	}
	s.l.cfg.Log.Info("swept orphans", zap.Uint32("session", uint32(s.writer.ID)), zap.Bool("job", s.writer.Job),
		zap.Int("objects", s.count), zap.Int64("bytes", s.bytes),
		zap.Int("left", s.kept), zap.Int("uploads_aborted", s.aborted), zap.Strings("keys", s.keys))
}

// deleteSome deletes objects and returns the errors of those that the store refused to delete. err is the whole request's: any of the
// objects may be left.
func deleteSome(ctx context.Context, b objstore.Bucket, keys []string) (failed map[string]error, err error) {
	err = b.Delete(ctx, keys)
	if refused := new(objstore.DeleteError); errors.As(err, &refused) {
		return refused.Failed, nil
	}
	if err != nil {
		return nil, fmt.Errorf("delete %d objects: %w", len(keys), err)
	}
	return nil, nil
}
