package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// lease is what the owner keeps of an open job. Guarded by Tenure.mu.
type lease struct {
	metadata.JobInfo
	class   int
	bytes   int64           // of the inputs; 0 if unknown: the job was planned by another owner
	done    int64           // of them, as the runner says
	out     int64           // bytes of the objects that parts of the outcome name
	written map[uint32]bool // numbers of the objects that parts of the outcome name
	heard   time.Time       // last sign of the runner
	until   time.Time       // the job is aborted then
	moved   time.Time       // last progress
	mark    int64           // done at that time
	parts   int             // of the outcome taken
	missing bool            // the state of the last round did not have it
}

func (l *lease) started() time.Time { return time.UnixMilli(l.StartedMs) }

func (l *lease) renew(now time.Time, d time.Duration) { l.heard, l.until = now, now.Add(d) }

// progress notes how many bytes of the inputs are worked off. A Clean job reads what is dirty twice; more counts for nothing.
func (l *lease) progress(bytes int64, now time.Time) {
	if l.bytes > 0 {
		bytes = min(bytes, 2*l.bytes)
	}
	l.done = max(l.done, bytes)
	if l.done-l.mark >= stallBytes {
		l.mark, l.moved = l.done, now
	}
}

// wrote counts a part of the outcome and the size of each object that it is the first to name.
func (l *lease) wrote(o *job.Outcome) {
	l.parts++
	if l.written == nil {
		l.written = map[uint32]bool{}
	}
	for _, b := range o.Bundles {
		if !l.written[b.N] {
			l.written[b.N] = true
			l.out += int64(b.Bytes)
		}
	}
}

// Begin takes over the open jobs of the state: each has a full lease for its runner to come back.
func (t *Tenure) Begin(s *metadata.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for j := range s.Jobs() {
		t.adopt(j)
	}
}

// reclaiming returns the open jobs that rewrite half-dead bundles, as far as this owner started them.
func (t *Tenure) reclaiming() map[id.Session]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	jobs := map[id.Session]bool{}
	for n, l := range t.mu.leases {
		if l.class == classReclaim {
			jobs[n] = true
		}
	}
	return jobs
}

// adopt keeps an open job that this owner did not hand out; nil if it ended after the state was looked at. Called with mu
// held.
func (t *Tenure) adopt(j metadata.JobInfo) *lease {
	if l := t.mu.leases[j.ID]; l != nil {
		return l
	}
	if slices.ContainsFunc(t.mu.history, func(e endedJob) bool { return e.ID == j.ID }) {
		return nil
	}
	now := time.Now()
	l := &lease{JobInfo: j, class: classOf(j.Kind, j.Level), heard: now, moved: now, until: now.Add(t.settings.Lease)}
	t.mu.leases[j.ID] = l
	return l
}

// Progress implements session.Jobs.
func (t *Tenure) Progress(runner, n id.Session, bytes int64) (open bool) {
	l, err := t.lease(n)
	if err != nil || l == nil || l.Runner != runner {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	l.progress(bytes, now)
	l.renew(now, t.settings.Lease)
	return t.mu.leases[n] == l
}

// lease returns what is kept of a job, also of one that is open in the state alone; nil if it has ended. Errors: Owner.Read's.
func (t *Tenure) lease(n id.Session) (*lease, error) {
	t.mu.Lock()
	l := t.mu.leases[n]
	t.mu.Unlock()
	if l != nil {
		return l, nil
	}
	var info metadata.JobInfo
	open := false
	if _, err := t.owner.Read(func(s *metadata.State) { info, open = s.Job(n) }); err != nil {
		return nil, fmt.Errorf("look job %d up: %w", n, err)
	}
	if !open {
		return nil, nil //nolint:nilnil // an ended job is no error
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.adopt(info), nil
}

// overdue returns the jobs whose lease is over, and why.
func (t *Tenure) overdue(now time.Time) map[id.Session]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	jobs := map[id.Session]string{}
	for n, l := range t.mu.leases {
		switch {
		case now.After(l.until):
			jobs[n] = abortedByTime
		case now.Sub(l.moved) > stallLease:
			jobs[n] = abortedByStall
		}
	}
	return jobs
}
