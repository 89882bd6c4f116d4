package job

import (
	"slices"
	"time"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// lease is what the owner keeps of an open job. Guarded by Tenure.mu.
type lease struct {
	metadata.JobInfo
	bytes   int64 // of the inputs; 0 if unknown: the job was planned by another owner
	done    int64 // of them, as the runner says
	out     int64 // bytes of the objects that parts of the outcome name
	written map[uint32]struct{}
	heard   time.Time // last sign of the runner
	until   time.Time // the job is aborted then
	parts   int       // of the outcome taken
}

func (l *lease) started() time.Time { return time.UnixMilli(l.StartedMs) }

func (l *lease) renew(now time.Time, d time.Duration) { l.heard, l.until = now, now.Add(d) }

// wrote adds up the sizes of the objects that parts of the outcome name.
func (l *lease) wrote(o *job.Outcome) {
	l.parts++
	if l.written == nil {
		l.written = map[uint32]struct{}{}
	}
	for _, b := range o.Bundles {
		if _, known := l.written[b.N]; !known {
			l.written[b.N] = struct{}{}
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
	l := &lease{JobInfo: j, heard: now, until: now.Add(t.settings.Lease)}
	t.mu.leases[j.ID] = l
	return l
}

// Progress implements session.Jobs.
func (t *Tenure) Progress(runner, n id.Session, bytes int64) (open bool) {
	l := t.lease(n)
	if l == nil || l.Runner != runner {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l.done = max(l.done, bytes)
	l.renew(time.Now(), t.settings.Lease)
	return t.mu.leases[n] == l
}

// lease gives what is kept of a job, also of one that is open in the state alone; nil if it has ended.
func (t *Tenure) lease(n id.Session) *lease {
	t.mu.Lock()
	l := t.mu.leases[n]
	t.mu.Unlock()
	if l != nil {
		return l
	}
	var info metadata.JobInfo
	open := false
	if _, err := t.owner.Read(func(s *metadata.State) { info, open = s.Job(n) }); err != nil || !open {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.adopt(info)
}

// overdue gives the jobs whose lease is over.
func (t *Tenure) overdue(now time.Time) (jobs []id.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, l := range t.mu.leases {
		if now.After(l.until) {
			jobs = append(jobs, n)
		}
	}
	return jobs
}
