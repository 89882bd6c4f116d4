package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/errand"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
)

const (
	// listsPerSecond is the lowest bound of the rate of errands that list, which rises if many sessions and jobs end. Such an errand makes
	// one LIST as a rule, which costs as much as a PUT. listsPerWriter is the number of these errands for one session or job.
	listsPerSecond = 2
	listsPerWriter = 3
	// roundWriters is the lowest bound of the sessions and jobs in one round, which also rises. maxRoundWriters is the highest.
	roundWriters    = 100
	maxRoundWriters = 10_000
	// maxUploadErrands is the maximum number of errands of one sweep that abort uploads.
	maxUploadErrands = 100
	// againShare is the part of a round, one in so many, that writers whose sweep failed before can count on.
	againShare = 4
	// maxUncommitted is the maximum number of objects that a session can have put at or above its lowest unsettled submission: the
	// owner holds at most as many commits. More objects mean that the state is older than the bucket. They may hold acknowledged
	// records.
	maxUncommitted = 1024
	// maxSparePages and minPageObjects bound the pages of one sweep: an agent that answers with endless short pages would hold up the sweeps
	// of all writers. A store's page has 1,000 keys as a rule. Each page of a large writer has minPageObjects on average, or the sweep fails.
	maxSparePages  = 100
	minPageObjects = 100
	// clockSlack is the maximum time by which an object may be older than its session, by the store's clock.
	clockSlack = time.Minute
)

// errPages is returned if a listing has more pages than its writer can have filled.
var errPages = errors.New("agents list more pages than the session or job can have objects")

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
	due = share(due, again, round)
	err = l.sweepAll(ctx, o, due)
	if ctx.Err() != nil {
		return err
	}
	l.metrics.sweepWaits.Set(0)
	if errors.Is(err, errand.ErrNoAgent) {
		l.metrics.sweepWaits.Set(l.overdue(due, now).Seconds())
		return nil
	}
	return err
}

// overdue returns the time from the earliest moment at which a sweep of the writers was due to now (ms).
func (l *Lifecycle) overdue(writers []metadata.EndedWriter, now int64) time.Duration {
	ended := now
	for _, w := range writers {
		ended = min(ended, w.EndedMs)
	}
	return max(0, time.Duration(now-ended)*time.Millisecond-l.cfg.Settings.OrphanAge)
}

// sweepAll sweeps one writer after the other. A writer that fails waits longer each time; the others go on, unless several fail in a
// row: then the store or the owner is away. A writer with objects that agents do not delete waits too, and is logged by itself. Without an
// agent to ask, sweepAll returns errand.ErrNoAgent, and no writer waits longer for that.
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
		if errors.Is(err, errand.ErrNoAgent) {
			return err
		}
		l.unswept.note(w.ID, time.Now(), l.cfg.Settings.GarbageCheck)
		if refused := new(refusal); errors.As(err, &refused) {
			if lines < loggedKeys && l.unswept.logDue(w.ID, time.Now()) {
				lines++
				l.logRefused(refused.bundle, refused.err)
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

// sweepWriter deletes the orphans of one session or job, page by page, and aborts its unfinished uploads. If agents do not delete some of
// the orphans, sweepWriter does everything else and returns a refusal of the first one.
func (l *Lifecycle) sweepWriter(ctx context.Context, o Owner, w metadata.EndedWriter) error {
	s := sweeper{l: l, owner: o, writer: w}
	if err := s.objects(ctx); err != nil {
		return err
	}
	if err := s.uploads(ctx); err != nil {
		return err
	}
	s.log()
	if s.refused != nil {
		return s.refused
	}
	l.metrics.orphansOdd.Add(float64(s.kept))
	return nil
}

// refusal is an orphan that an agent did not delete.
type refusal struct {
	bundle id.Bundle
	err    error
}

func (r *refusal) Error() string { return fmt.Sprintf("delete bundle %s: %v", r.bundle, r.err) }

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

	unsettled []orphan    // unknown objects at or above the lowest unsettled submission
	count     int         // deleted orphans
	bytes     int64       // of them
	kept      int         // unknown objects that stay
	aborted   int         // aborted uploads
	deleted   []id.Bundle // the first deleted orphans, for the log
	refused   *refusal    // of the first orphan that an agent did not delete
}

// orphan is an unknown object.
type orphan struct {
	bundle id.Bundle
	bytes  int64
}

// objects lists the writer's objects and deletes the orphans. Objects of unsettled submissions come last in the listing. They are deleted
// at its end, unless there are more than maxUncommitted.
func (s *sweeper) objects(ctx context.Context) error {
	after := uint32(0)
	for left := maxPages(&s.writer); ; left-- {
		if left == 0 {
			return errPages
		}
		if err := s.l.lists.Wait(ctx); err != nil {
			return fmt.Errorf("wait to list: %w", err)
		}
		page, err := s.l.cfg.Agents.ListSession(ctx, s.writer.ID, after)
		if err != nil {
			return err //nolint:wrapcheck // names the session
		}
		s.kept += int(page.Odd)
		if len(page.Objects) == 0 {
			break
		}
		after = page.Objects[len(page.Objects)-1].N
		orphans, err := s.orphans(page.Objects)
		if err != nil {
			return err
		}
		if err := s.remove(ctx, orphans); err != nil {
			return err
		}
		if len(s.unsettled) > maxUncommitted {
			s.kept += len(s.unsettled)
			s.l.cfg.Log.Error("sweep keeps a session's objects: it has put far more than was committed, this state may be older than the bucket",
				zap.Uint32("session", uint32(s.writer.ID)), zap.Uint32("settled_below", s.writer.NextN))
			return nil
		}
	}
	return s.remove(ctx, s.unsettled)
}

// maxPages returns the maximum number of pages of a writer's listing, the last and empty one included.
func maxPages(w *metadata.EndedWriter) int {
	objects := int(w.NextN) + maxUncommitted
	if w.Job {
		objects = job.MaxBundles
	}
	return maxSparePages + objects/minPageObjects
}

// mayBeUncommitted reports whether submission n was possibly unsettled when its session was closed. Submissions below NextN were settled, so
// an unknown object there was abandoned, or its bundle was deleted.
func mayBeUncommitted(w *metadata.EndedWriter, n uint32) bool { return !w.Job && n >= w.NextN }

// orphans returns the objects of a page that can be deleted now. It collects objects of unsettled submissions in unsettled.
func (s *sweeper) orphans(page []*api.SessionObject) (orphans []orphan, err error) {
	_, err = s.owner.Read(func(state *metadata.State) {
		w, ok := state.EndedWriter(s.writer.ID)
		if !ok {
			return // swept by the next owner
		}
		for _, object := range page {
			if object.ModifiedMs < w.OpenedMs-clockSlack.Milliseconds() {
				s.kept++ // of an earlier session with this id
				continue
			}
			b := id.Submission{Session: w.ID, N: object.N}.Bundle()
			if _, _, _, known := state.Bundle(b); known {
				continue
			}
			if mayBeUncommitted(&w, object.N) {
				s.unsettled = append(s.unsettled, orphan{b, object.Bytes})
			} else {
				orphans = append(orphans, orphan{b, object.Bytes})
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("compare with the state: %w", err)
	}
	return orphans, nil
}

// remove deletes orphans, and notes the first one that an agent does not delete in refused.
func (s *sweeper) remove(ctx context.Context, orphans []orphan) error {
	for chunk := range slices.Chunk(orphans, objstore.MaxKeys) {
		names := make([]id.Bundle, len(chunk))
		for i := range chunk {
			names[i] = chunk[i].bundle
		}
		failed, err := s.l.cfg.Agents.DeleteBundles(ctx, names)
		if err != nil {
			return err //nolint:wrapcheck // says what was deleted
		}
		for _, o := range chunk {
			s.removed(o, failed[o.bundle])
		}
	}
	return nil
}

// removed counts one orphan by the outcome of its deletion.
func (s *sweeper) removed(o orphan, err error) {
	if err != nil {
		if s.refused == nil {
			s.refused = &refusal{o.bundle, err}
		}
		return
	}
	s.l.metrics.orphans.Inc()
	s.l.metrics.orphanBytes.Add(float64(o.bytes))
	s.count, s.bytes = s.count+1, s.bytes+o.bytes
	if len(s.deleted) < loggedKeys {
		s.deleted = append(s.deleted, o.bundle)
	}
}

// uploads aborts the writer's unfinished uploads. Uploads that are too young fail the sweep, so it is repeated.
func (s *sweeper) uploads(ctx context.Context) error {
	for range maxUploadErrands {
		if err := s.l.lists.Wait(ctx); err != nil {
			return fmt.Errorf("wait to list: %w", err)
		}
		done, err := s.l.cfg.Agents.AbortUploads(ctx, s.writer.ID)
		if err != nil {
			return err //nolint:wrapcheck // names the session
		}
		s.aborted += int(done.Aborted)
		s.l.metrics.uploads.Add(float64(done.Aborted))
		if done.Aborted == objstore.MaxKeys {
			continue
		}
		if done.Young > 0 {
			return fmt.Errorf("%d unfinished uploads are too young to be aborted", done.Young)
		}
		return nil
	}
	return fmt.Errorf("aborted %d unfinished uploads, more are left", s.aborted)
}

func (s *sweeper) log() {
	if s.count+s.kept+s.aborted == 0 {
		return
	}
	s.l.cfg.Log.Info("swept orphans", zap.Uint32("session", uint32(s.writer.ID)), zap.Bool("job", s.writer.Job),
		zap.Int("objects", s.count), zap.Int64("bytes", s.bytes),
		zap.Int("left", s.kept), zap.Int("uploads_aborted", s.aborted), zap.Stringers("bundles", s.deleted))
}
