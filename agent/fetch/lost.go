package fetch

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// Bounds of the table of lost extents.
const (
	// lostFor is the pause between two GETs of a missing object, and between two look-ups of a partition because of it.
	// A restored object, or another extent in its place, is read after lostFor at the latest.
	lostFor = 10 * time.Second
	// lostKept is how long an entry without readers counts. It must stay well below the 15 minutes for which the owner
	// keeps an object after compaction replaced it: the proof in noteMissing rests on that.
	lostKept = 2 * time.Minute
	// maxLost bounds each map of the table, 3 MiB in all. At the bound the table drops the older entries. Their readers
	// then find the loss again, by two GETs.
	maxLost = 8192
	// reportAgain is the least time between two log lines about one bundle. It is shorter if makeRoom dropped the entry.
	reportAgain = time.Hour
	// reportEvery and reportBurst bound the log lines about all bundles. A bundle beyond the bound is logged at a later 404.
	reportEvery, reportBurst = 10 * time.Second, 20
)

// streamKey is one reader's stream of a partition.
type streamKey struct {
	reader    uint64
	partition id.TopicPartition
}

// lost is the table of extents whose objects are missing although the metadata names them: something other than Freshet
// deleted the objects. For lostFor, reads of such an extent fail without a GET or a look-up. After lostFor, one reader sends
// one GET for all partitions of the bundle, and each partition is looked up once.
//
// A single 404 is usual: compaction replaced the bundle, and a stale window still names it. The first 404 only invalidates
// the window. An extent is lost if a second GET, for a plan that was looked up after the first 404, gets a 404 too.
//
// A partition with a lost extent gets KAFKA_STORAGE_ERROR, which clients retry without an error to the application.
// Kafka 4.4's consumer (FetchCollector.handleInitializeErrors) requests metadata and fetches the partition again at once.
// librdkafka (rd_kafka_fetch_reply_handle_partition_error) requests metadata and waits for fetch.error.backoff.ms. So the
// error must be rare: it does not end a fetch's wait, and a reader gets the error at most once per max wait (errorDue).
type lost struct {
	invalidate func(id.TopicPartition) // makes the next plan of a partition look up
	log        *zap.Logger
	reports    *rate.Limiter
	clock      atomic.Uint64 // counts invalidations, which orders plans and invalidations
	some       atomic.Bool   // the table has bundles

	mu struct {
		sync.Mutex
		swept   time.Time
		bundles map[id.Bundle]missing
		// invalidations has the newest one of each key.
		invalidations map[lostKey]invalidation
		answered      map[streamKey]time.Time // when each reader last got the error
	}
}

// missing is a bundle whose object was answered with 404.
type missing struct {
	at        time.Time // of the newest 404; zero if the object was read since
	confirmed bool      // a look-up after a 404 still named the bundle
	reported  time.Time // of the last log line
}

// lostKey names the extents of one partition in one bundle.
type lostKey struct {
	partition id.TopicPartition
	bundle    id.Bundle
}

// invalidation is when a partition's window was last invalidated because of a missing object.
type invalidation struct {
	at     time.Time
	number uint64 // value of clock. A plan is newer if planning returned this number or a higher one for the plan.
}

// verdict is the table's judgement of an extent.
type verdict uint8

const (
	readable      verdict = iota // nothing is known, or lostFor is over and a reader may try again
	outdated                     // the object is missing, and the plan may be older than the 404: look up again
	confirmedLost                // fail without a GET
)

func newLost(invalidate func(id.TopicPartition), log *zap.Logger) *lost {
	l := &lost{invalidate: invalidate, log: log, reports: rate.NewLimiter(rate.Every(reportEvery), reportBurst)}
	l.mu.bundles, l.mu.invalidations = make(map[id.Bundle]missing), make(map[lostKey]invalidation)
	l.mu.answered = make(map[streamKey]time.Time)
	return l
}

// planning returns a number that identifies the plans looked up from now on. Later plans have the same number or a higher one.
func (l *lost) planning() uint64 { return l.clock.Load() }

// check returns the index and the verdict of a plan's first extent that is not readable. If all are readable, n is the
// number of extents. planned is the plan's number. If the plan is outdated, check invalidates the partition's window.
func (l *lost) check(partition id.TopicPartition, exts []extent.Extent, planned uint64) (n int, v verdict) {
	if !l.some.Load() {
		return len(exts), readable
	}
	key, now := lostKey{partition: partition}, time.Now()
	l.mu.Lock()
	for ; n < len(exts) && v == readable; n++ {
		if exts[n].Kind != extent.Marker {
			key.bundle = exts[n].Bundle
			v = l.verdict(key, planned, now)
		}
	}
	known := planned < l.mu.invalidations[key].number // another reader has invalidated the window since the plan
	l.mu.Unlock()
	if v == readable {
		return n, v
	}
	if v == outdated && !known {
		l.invalidate(partition)
		l.mu.Lock()
		l.noteInvalidated(key, now)
		l.mu.Unlock()
	}
	return n - 1, v
}

// verdict returns the verdict on one extent. The lock is held.
func (l *lost) verdict(key lostKey, planned uint64, now time.Time) verdict {
	m, ok := l.mu.bundles[key.bundle]
	if !ok || now.Sub(m.at) >= lostFor {
		return readable
	}
	k, ok := l.mu.invalidations[key]
	switch {
	case !ok, now.Sub(k.at) >= lostFor, planned < k.number:
		return outdated
	case m.confirmed:
		return confirmedLost
	}
	return readable
}

// isLost reports whether a bundle is known to be lost. The extent must come from a look-up of just now.
func (l *lost) isLost(b id.Bundle) bool {
	if !l.some.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok := l.mu.bundles[b]
	return ok && m.confirmed && time.Since(m.at) < lostFor
}

// noteMissing notes a 404 for an extent of a plan, and reports whether the extent is lost. planned is the plan's number, or 0
// if no number was taken before the plan's look-up. offset is the reader's.
//
// A second 404 is a loss for this reason: the first 404 invalidated the window, so the plan's look-up began at most a
// look-up's time-out before the first 404. If compaction had replaced the bundle before that look-up, the plan would not name
// the bundle. If compaction replaced the bundle after that look-up, the owner would keep its object for 15 minutes.
func (l *lost) noteMissing(key lostKey, planned uint64, e *cache.GoneError, offset int64) (confirmed bool) {
	l.invalidate(key.partition)
	now := time.Now()
	l.mu.Lock()
	m, k := l.mu.bundles[key.bundle], l.mu.invalidations[key]
	switch {
	case k.number > 0 && planned >= k.number && now.Sub(k.at) < lostKept:
		m.confirmed = true
	case now.Sub(m.at) >= lostKept:
		m.confirmed = false
	}
	report := m.confirmed && now.Sub(m.reported) >= reportAgain && l.reports.Allow()
	if report {
		m.reported = now
	}
	m.at = now
	l.noteInvalidated(key, now)
	if _, ok := l.mu.bundles[key.bundle]; !ok {
		makeRoom(l.mu.bundles, func(m missing) time.Time { return m.at })
	}
	l.mu.bundles[key.bundle] = m
	l.some.Store(true)
	l.mu.Unlock()
	if report {
		l.log.Error("object of a committed extent is missing: restore the object from a backup or an object version, "+
			"or give up its records with freshet bundle cut SESSION/N",
			zap.Stringer("bundle", key.bundle), zap.String("key", e.Key), zapPartition(key.partition), zapOffset(offset))
	}
	return m.confirmed
}

// noteInvalidated notes that a partition's window was invalidated. The lock is held.
func (l *lost) noteInvalidated(key lostKey, now time.Time) {
	if _, ok := l.mu.invalidations[key]; !ok {
		makeRoom(l.mu.invalidations, func(k invalidation) time.Time { return k.at })
	}
	l.mu.invalidations[key] = invalidation{at: now, number: l.clock.Add(1)}
	l.sweep(now)
}

// sweep drops expired entries, at most once per lostKept. The lock is held.
func (l *lost) sweep(now time.Time) {
	if now.Sub(l.mu.swept) < lostKept {
		return
	}
	l.mu.swept = now
	maps.DeleteFunc(l.mu.bundles, func(_ id.Bundle, m missing) bool {
		return now.Sub(m.at) >= lostKept && now.Sub(m.reported) >= reportAgain
	})
	maps.DeleteFunc(l.mu.invalidations, func(_ lostKey, k invalidation) bool { return now.Sub(k.at) >= lostKept })
	l.some.Store(len(l.mu.bundles) > 0)
}

// noteRead notes that bytes of a bundle were read. A read within lostFor of a 404 proves nothing: its bytes may come from
// memory.
func (l *lost) noteRead(b id.Bundle) {
	if !l.some.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if m, ok := l.mu.bundles[b]; ok && time.Since(m.at) >= lostFor {
		m.at, m.confirmed = time.Time{}, false
		l.mu.bundles[b] = m
	}
}

// errorDue reports whether a reader is to get the error of a partition's lost extent: the reader got none for the time of
// every. If errorDue returns true, it notes that the reader got the error.
func (l *lost) errorDue(reader uint64, partition id.TopicPartition, every time.Duration) bool {
	key, now := streamKey{reader: reader, partition: partition}, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.mu.answered[key]
	if ok && now.Sub(at) < every {
		return false
	}
	if !ok {
		makeRoom(l.mu.answered, func(at time.Time) time.Time { return at })
	}
	l.mu.answered[key] = now
	return true
}

// extents returns the number of lost extents with a reader within lostKept.
func (l *lost) extents() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, now := 0, time.Now()
	l.sweep(now)
	for key, k := range l.mu.invalidations {
		if l.mu.bundles[key.bundle].confirmed && now.Sub(k.at) < lostKept {
			n++
		}
	}
	return float64(n)
}

// makeRoom drops entries of a full map: those older than the middle between the oldest and the newest.
func makeRoom[K comparable, V any](m map[K]V, at func(V) time.Time) {
	if len(m) < maxLost {
		return
	}
	var oldest, newest time.Time
	for _, v := range m {
		if t := at(v); oldest.IsZero() || t.Before(oldest) {
			oldest = t
		}
		if t := at(v); t.After(newest) {
			newest = t
		}
	}
	middle := oldest.Add(newest.Sub(oldest) / 2)
	for k, v := range m {
		if !at(v).After(middle) {
			delete(m, k)
		}
	}
}
