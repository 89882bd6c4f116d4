package logsoak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/freshet-io/freshet/metadata/metalog"
)

// Sample is the state at one moment, and what happened since the sample before it.
type Sample struct {
	At       time.Duration // since the load began
	Rate     float64       // log bytes a second
	Log      int64         // untrimmed log bytes
	DB       int64         // bytes of etcd's database file
	InUse    int64         // of them in use
	WAL      int64         // bytes of etcd's write-ahead log files
	Heap     int64         // bytes of this process's heap: etcd, owner and follower
	Commits  int
	Refused  int           // commits refused for the log budget
	Longest  time.Duration // commit answered
	Snapshot uint64        // log index of the newest snapshot
}

// Result is a whole soak.
type Result struct {
	Samples     []Sample // one per second
	Failing     bool
	FailedFor   time.Duration // when snapshots began to work again
	HealedAfter time.Duration // since FailedFor; 0: not healed
}

// Max gives the largest of what f gives for the samples in [from, to).
func (r *Result) Max(from, to time.Duration, f func(Sample) int64) int64 {
	var largest int64
	for _, s := range r.Samples {
		if s.At >= from && s.At < to {
			largest = max(largest, f(s))
		}
	}
	return largest
}

// watchedLog keeps the tenure, for its sizes.
type watchedLog struct {
	metalog.Log
	mu     sync.Mutex
	tenure metalog.Tenure
}

// Acquire keeps what it gives.
func (w *watchedLog) Acquire(ctx context.Context, c metalog.Candidate) (metalog.Tenure, error) {
	t, err := w.Log.Acquire(ctx, c)
	if err == nil {
		w.mu.Lock()
		w.tenure = t
		w.mu.Unlock()
	}
	return t, err
}

func (w *watchedLog) current() metalog.Tenure {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tenure
}

// monitor takes samples while the load runs.
type monitor struct {
	r       *rig
	load    *load
	began   time.Time
	last    time.Time
	total   int64
	printed time.Time
	res     Result
}

func newMonitor(r *rig, l *load) *monitor {
	now := time.Now()
	m := &monitor{r: r, load: l, began: now, last: now, total: r.log.current().Total()}
	m.res.Failing = r.cfg.Failing
	fmt.Fprintln(r.cfg.Out, "seconds  log MiB/s  log MiB  db MiB  in use MiB  wal MiB  heap MiB  commits  refused  longest ms  snapshot")
	return m
}

func (m *monitor) result() *Result { return &m.res }

// watch runs the load for d, or until done says so.
func (m *monitor) watch(ctx context.Context, d time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	loaded := make(chan error, 1)
	go func() { loaded <- m.load.run(ctx) }()
	ticker := time.NewTicker(min(time.Second, m.r.cfg.Sample))
	defer ticker.Stop()
	for {
		select {
		case err := <-loaded:
			return err
		case <-ticker.C:
		}
		if err := m.sample(ctx); err != nil && ctx.Err() == nil {
			cancel()
			return errors.Join(err, <-loaded)
		}
		if done != nil && done() {
			cancel()
			return <-loaded
		}
	}
}

func (m *monitor) sample(ctx context.Context) error {
	status, err := m.r.etcd.Client().Status(ctx, "")
	if err != nil {
		return fmt.Errorf("ask etcd for its size: %w", err)
	}
	refs, err := m.r.log.Snapshots(ctx)
	if err != nil {
		return err
	}
	now, c, tenure := time.Now(), m.load.take(), m.r.log.current()
	s := Sample{
		At: now.Sub(m.began), Log: tenure.Bytes(), DB: status.DbSize, InUse: status.DbSizeInUse,
		Commits: c.commits, Refused: c.refused, Longest: c.longest,
	}
	total := tenure.Total()
	s.Rate = float64(total-m.total) / now.Sub(m.last).Seconds()
	m.last, m.total = now, total
	if len(refs) > 0 {
		s.Snapshot = refs[0].Index
	}
	if s.WAL, err = dirBytes(filepath.Join(m.r.etcdDir(), "member", "wal")); err != nil {
		return err
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	s.Heap = int64(memory.HeapInuse)
	m.res.Samples = append(m.res.Samples, s)
	if now.Sub(m.printed) >= m.r.cfg.Sample {
		m.printed = now
		m.print(s)
	}
	return nil
}

func (m *monitor) print(s Sample) {
	mib := func(n int64) float64 { return float64(n) / (1 << 20) }
	fmt.Fprintf(m.r.cfg.Out, "%7.0f  %9.1f  %7.1f  %6.1f  %10.1f  %7.1f  %8.1f  %7d  %7d  %10.1f  %8d\n", s.At.Seconds(),
		s.Rate/(1<<20), mib(s.Log), mib(s.DB), mib(s.InUse), mib(s.WAL), mib(s.Heap), s.Commits, s.Refused,
		float64(s.Longest.Microseconds())/1000, s.Snapshot)
}

// Summarize writes the extremes.
func (r *Result) Summarize(w io.Writer) {
	mib := func(f func(Sample) int64) float64 { return float64(r.Max(0, math.MaxInt64, f)) / (1 << 20) }
	var rate float64
	for _, s := range r.Samples {
		rate += s.Rate / float64(len(r.Samples)) / (1 << 20)
	}
	fmt.Fprintf(w, "mean %.1f MiB/s of log; largest: untrimmed log %.0f MiB, etcd database %.0f MiB, write-ahead log %.0f MiB, heap %.0f MiB; "+
		"slowest commit %.0f ms\n", rate,
		mib(func(s Sample) int64 { return s.Log }), mib(func(s Sample) int64 { return s.DB }),
		mib(func(s Sample) int64 { return s.WAL }), mib(func(s Sample) int64 { return s.Heap }),
		float64(r.Max(0, math.MaxInt64, func(s Sample) int64 { return s.Longest.Milliseconds() })))
	if r.Failing && r.HealedAfter > 0 {
		fmt.Fprintf(w, "healed %.1f s after snapshots worked again\n", r.HealedAfter.Seconds())
	} else if r.Failing {
		fmt.Fprintln(w, "NOT healed")
	}
}

// healing notes that snapshots work again.
func (m *monitor) healing() {
	m.res.FailedFor = time.Since(m.began)
	fmt.Fprintln(m.r.cfg.Out, "snapshots work again")
}

// healed notes when the log first is below its soft limit with nothing refused since the last sample, and tells
// whether to end there.
func (m *monitor) healed() bool {
	s := m.res.Samples[len(m.res.Samples)-1]
	if m.res.HealedAfter == 0 && s.Log < m.softLimit() && s.Refused == 0 && s.Commits > 0 {
		m.res.HealedAfter = s.At - m.res.FailedFor
	}
	return m.res.HealedAfter > 0 && m.r.cfg.StopHealed
}

func (m *monitor) softLimit() int64 {
	if m.r.cfg.SoftLogBytes > 0 {
		return m.r.cfg.SoftLogBytes
	}
	return 256 << 20
}

// dirBytes is the size of the files directly in dir; files that vanish meanwhile do not count.
func dirBytes(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", dir, err)
	}
	return total, nil
}
