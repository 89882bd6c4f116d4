package lifecycle

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

const (
	// listsPerSecond bounds the LIST requests of sweeps, which cost as much as PUTs, where few sessions and jobs end.
	// listsPerWriter is the number of them for one session or job.
	listsPerSecond = 2
	listsPerWriter = 3
	// roundWriters bounds the ended sessions and jobs that one round sweeps where few end; more wait for the next.
	// maxRoundWriters bounds them anyway.
	roundWriters    = 100
	maxRoundWriters = 10_000
	// maxUncommitted bounds the unknown objects of a session whose submissions may not have been settled. An owner
	// holds no more commits of one, and an agent that is ahead of its owner by so many waits: more means that this state is
	// older than the bucket, and that they are records somebody may miss.
	maxUncommitted = 1024
	// clockSlack is by how much an object may seem older than the session that put it.
	clockSlack = time.Minute
	// loggedKeys bounds the keys that one round logs.
	loggedKeys = 20
)

// sweep deletes the orphans of the sessions and jobs that ended OrphanAge ago, and forgets these. Sessions end for ever (I9), so
// what no commit has made known by then never will be: no clock is involved. The time is for late PUTs only: no request of an
// agent can be in flight any more.
func (l *Lifecycle) sweep(ctx context.Context, o Owner) error {
	now, err := l.storeTime(ctx)
	if err != nil {
		return err
	}
	var due []metadata.EndedWriter
	var count int
	_, err = o.ReadFrozen(func(s *metadata.State) {
		due, count = l.due(s, min(now, s.Now()))
	})
	if err != nil {
		return fmt.Errorf("look for ended sessions: %w", err)
	}
	l.metrics.unswept.Set(float64(count))
	if l.cfg.Settings.OrphanSweep == SweepOff {
		return noteSwept(ctx, o, due...)
	}
	l.lists.SetLimit(rate.Limit(max(listsPerSecond, listsPerWriter*l.pace(count))))
	round := max(roundWriters, int(2*l.pace(count)*l.cfg.Settings.GarbageCheck.Seconds()))
	for _, w := range due[:min(len(due), round)] {
		if err := l.sweepWriter(ctx, o, w); err != nil {
			return fmt.Errorf("sweep session or job %d: %w", w.ID, err)
		}
	}
	return nil
}

// pace returns how many of count ended writers are swept a second: twice as many as end, if all of them ended within OrphanAge.
// So the table of them stays bounded however many jobs end.
func (l *Lifecycle) pace(count int) float64 {
	return 2 * float64(count) / max(l.cfg.Settings.OrphanAge, time.Minute).Seconds()
}

// due returns the ended writers whose sweep is due at now (ms), at most maxRoundWriters, and the number of all ended ones.
func (l *Lifecycle) due(s *metadata.State, now int64) (due []metadata.EndedWriter, count int) {
	for w := range s.EndedWriters() {
		count++
		if len(due) < maxRoundWriters && now >= w.EndedMs+l.cfg.Settings.OrphanAge.Milliseconds() {
			due = append(due, w)
		}
	}
	return due, count
}

// sweepWriter deletes the orphans of one session or job, page by page, and notes that it did.
func (l *Lifecycle) sweepWriter(ctx context.Context, o Owner, w metadata.EndedWriter) error {
	s := sweeper{l: l, owner: o, writer: w, prefix: bundle.SessionPrefix(l.cfg.BundlePrefix, w.ID)}
	if err := s.objects(ctx); err != nil {
		return err
	}
	if err := s.uploads(ctx); err != nil {
		return err
	}
	s.log()
	return noteSwept(ctx, o, w)
}

func noteSwept(ctx context.Context, o Owner, swept ...metadata.EndedWriter) error {
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

	behind  []objstore.Info // unknown objects of a session whose submissions may not have been settled
	count   int             // orphans
	bytes   int64
	odd     int // what is left though it is unknown
	aborted int // uploads
	keys    []string
}

// objects lists all of the writer's objects and deletes the orphans among them. Those that may not have been settled come
// last in the list, and are deleted when it is known how many they are.
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
		if len(s.behind) > maxUncommitted {
			s.odd += len(s.behind)
			s.l.cfg.Log.Error("a session has put far more than was committed: its objects are left, this state may be older than the bucket",
				zap.Uint32("session", uint32(s.writer.ID)), zap.String("prefix", s.prefix), zap.Uint32("settled_below", s.writer.NextN))
			return nil
		}
	}
	return s.remove(ctx, s.behind)
}

// mayBeUncommitted reports whether a submission of a session was possibly not settled when the session was closed. All below
// its lowest unsettled one (NextN) were: an unknown object there was abandoned, or its bundle is gone.
func mayBeUncommitted(w *metadata.EndedWriter, n uint32) bool { return !w.Job && n >= w.NextN }

// orphans gives the objects of a page that can go now, and puts aside those whose submissions may not have been settled.
func (s *sweeper) orphans(page []objstore.Info) (orphans []objstore.Info, err error) {
	_, err = s.owner.Read(func(state *metadata.State) {
		w, ok := state.EndedWriter(s.writer.ID)
		if !ok {
			return // swept by the next owner
		}
		for _, object := range page {
			b, err := bundle.ParseKey(s.l.cfg.BundlePrefix, object.Key)
			if err != nil || b.Submission().Session != w.ID || object.Modified.UnixMilli() < w.OpenedMs-clockSlack.Milliseconds() {
				s.odd++ // nothing that this session can have put
				continue
			}
			if _, _, _, known := state.Bundle(b); known {
				continue
			}
			if mayBeUncommitted(&w, b.Submission().N) {
				s.behind = append(s.behind, object)
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

// remove deletes orphans.
func (s *sweeper) remove(ctx context.Context, orphans []objstore.Info) error {
	if len(orphans) == 0 {
		return nil
	}
	for start := 0; start < len(orphans); start += objstore.MaxKeys {
		chunk := orphans[start:min(start+objstore.MaxKeys, len(orphans))]
		var keys []string
		var bytes int64
		for _, object := range chunk {
			keys, bytes = append(keys, object.Key), bytes+object.Size
		}
		if err := s.l.cfg.Bucket.Delete(ctx, keys); err != nil {
			return fmt.Errorf("delete %d orphans: %w", len(keys), err)
		}
		s.l.metrics.orphans.Add(float64(len(keys)))
		s.l.metrics.orphanBytes.Add(float64(bytes))
		s.count, s.bytes = s.count+len(keys), s.bytes+bytes
		s.keys = append(s.keys, keys[:min(len(keys), loggedKeys-len(s.keys))]...)
	}
	return nil
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
	s.l.metrics.orphansOdd.Add(float64(s.odd))
	if s.count+s.odd+s.aborted == 0 {
		return
	}
	s.l.cfg.Log.Info("swept orphans", zap.Uint32("session", uint32(s.writer.ID)), zap.Bool("job", s.writer.Job),
		zap.Int("objects", s.count), zap.Int64("bytes", s.bytes),
		zap.Int("left", s.odd), zap.Int("uploads_aborted", s.aborted), zap.Strings("keys", s.keys))
}
