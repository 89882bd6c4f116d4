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
	// lostFor is how long a missing object is not asked for again, and its extents are not looked up again. An object
	// that is brought back, or another extent in its place, is read after that time at the latest.
	lostFor = 10 * time.Second
	// lostKept is how long an entry without readers counts. It must stay well below the 15 minutes that an object
	// is kept after compaction replaced it: that makes a second 404 a loss (gone).
	lostKept = 2 * time.Minute
	// maxLost bounds each map of the table, 3 MiB in all. At the bound the older entries go, and their readers ask again
	// as if for the first time.
	maxLost = 8192
	// reportAgain is how long a bundle that was reported is not reported again, unless maxLost others were.
	reportAgain = time.Hour
	// reportEvery and reportBurst bound the lines for different bundles. A bundle without a line gets one later.
	reportEvery, reportBurst = 10 * time.Second, 20
)

// lost is the table of extents whose objects are gone although the metadata names them: somebody else deleted the objects.
// Readers of such an extent fail for lostFor without a GET or a look-up. Then the next reader asks for the object again,
// once for all partitions in it, and each partition is looked up again.
//
// A single 404 is usual: compaction replaced the bundle, and a stale window names it still. It only makes the window
// look up again. An extent is lost if a second GET fails too, for a plan that was looked up after the first.
//
// Partitions with a lost extent fail with KAFKA_STORAGE_ERROR, which clients retry without telling the application.
// Kafka 4.3's consumer (FetchCollector.handleInitializeErrors) requests metadata and fetches the partition again at once.
// librdkafka (rd_kafka_fetch_reply_handle_partition_error) requests metadata and waits for fetch.error.backoff.ms. So the
// error must be rare: it does not end a fetch's wait, and a reader gets it at most once per max wait (tell).
type lost struct {
	invalidate func(id.TopicPartition) // makes the next plan of a partition look up
	log        *zap.Logger
	reports    *rate.Limiter
	clock      atomic.Uint64 // counts the looks, so that plans made before one are known
	some       atomic.Bool   // there are bundles in the table

	mu struct {
		sync.Mutex
		swept   time.Time
		bundles map[id.Bundle]missing
		looks   map[lostKey]look
		told    map[streamKey]time.Time
	}
}

// missing is an object that was not there.
type missing struct {
	at        time.Time // of the newest 404; zero: it is there again
	confirmed bool      // the metadata named it after a 404
	reported  time.Time
}

// lostKey names the extents of one partition in one bundle.
type lostKey struct {
	partition id.TopicPartition
	bundle    id.Bundle
}

// look is when a partition's window was last invalidated because of a missing object.
type look struct {
	at   time.Time
	made uint64 // plans are newer if clock was this or more before they were made
}

// verdict is what the table says of an extent.
type verdict uint8

const (
	readable verdict = iota // nothing is known, or it is time to ask again
	outdated                // its object is missing, and the plan may be older than that: look up
	missed                  // lost
)

func newLost(invalidate func(id.TopicPartition), log *zap.Logger) *lost {
	l := &lost{invalidate: invalidate, log: log, reports: rate.NewLimiter(rate.Every(reportEvery), reportBurst)}
	l.mu.bundles, l.mu.looks = make(map[id.Bundle]missing), make(map[lostKey]look)
	l.mu.told = make(map[streamKey]time.Time)
	return l
}

// planning returns a number for the plans that are made from now on. Later plans have higher ones.
func (l *lost) planning() uint64 { return l.clock.Load() }

// check returns the index of the first of a plan's extents that is not readable, with its verdict, or the number of extents
// if all are. planned is what planning returned before the plan was made. If the plan is outdated, the partition's window
// is invalidated when check returns.
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
	known := planned < l.mu.looks[key].made // another reader invalidated the window since
	l.mu.Unlock()
	if v == readable {
		return n, v
	}
	if v == outdated && !known {
		l.invalidate(partition)
		l.mu.Lock()
		l.look(key, now)
		l.mu.Unlock()
	}
	return n - 1, v
}

// verdict is the verdict on one extent. The lock is held.
func (l *lost) verdict(key lostKey, planned uint64, now time.Time) verdict {
	m, ok := l.mu.bundles[key.bundle]
	if !ok || now.Sub(m.at) >= lostFor {
		return readable
	}
	k, ok := l.mu.looks[key]
	switch {
	case !ok, now.Sub(k.at) >= lostFor, planned < k.made:
		return outdated
	case m.confirmed:
		return missed
	}
	return readable
}

// stands reports whether a bundle is known to be lost, for extents that were looked up just now.
func (l *lost) stands(b id.Bundle) bool {
	if !l.some.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok := l.mu.bundles[b]
	return ok && m.confirmed && time.Since(m.at) < lostFor
}

// gone notes a 404 that a plan led to, and reports whether the extent is lost. planned is what planning returned before the
// plan's look-up, 0 if the plan may be older than that. offset is the reader's.
//
// Why a second 404 is a loss: the first one invalidated the window, so the plan's look-up is no older than the first 404 and
// a look-up's time-out. If compaction had replaced the bundle before that look-up, the plan would not name it. If
// compaction replaced it afterwards, its object would be kept for 15 minutes.
func (l *lost) gone(key lostKey, planned uint64, e *cache.GoneError, offset int64) (confirmed bool) {
	l.invalidate(key.partition)
	now := time.Now()
	l.mu.Lock()
	m, k := l.mu.bundles[key.bundle], l.mu.looks[key]
	switch {
	case k.made > 0 && planned >= k.made && now.Sub(k.at) < lostKept:
		m.confirmed = true
	case now.Sub(m.at) >= lostKept:
		m.confirmed = false
	}
	report := m.confirmed && now.Sub(m.reported) >= reportAgain && l.reports.Allow()
	if report {
		m.reported = now
	}
	m.at = now
	l.look(key, now)
	if _, ok := l.mu.bundles[key.bundle]; !ok {
		makeRoom(l.mu.bundles, func(m missing) time.Time { return m.at })
	}
	l.mu.bundles[key.bundle] = m
	l.some.Store(true)
	l.mu.Unlock()
	if report {
		l.log.Error("object of a committed extent is missing: restore it from a backup or an object version, "+
			"or give its records up with freshet bundle cut SESSION/N",
			zap.Stringer("bundle", key.bundle), zap.String("key", e.Key), zapPartition(key.partition), zapOffset(offset))
	}
	return m.confirmed
}

// look notes that a partition's window was invalidated. The lock is held.
func (l *lost) look(key lostKey, now time.Time) {
	if _, ok := l.mu.looks[key]; !ok {
		makeRoom(l.mu.looks, func(k look) time.Time { return k.at })
	}
	l.mu.looks[key] = look{at: now, made: l.clock.Add(1)}
	l.sweep(now)
}

// sweep drops entries that do not count any more, now and then. The lock is held.
func (l *lost) sweep(now time.Time) {
	if now.Sub(l.mu.swept) < lostKept {
		return
	}
	l.mu.swept = now
	maps.DeleteFunc(l.mu.bundles, func(_ id.Bundle, m missing) bool {
		return now.Sub(m.at) >= lostKept && now.Sub(m.reported) >= reportAgain
	})
	maps.DeleteFunc(l.mu.looks, func(_ lostKey, k look) bool { return now.Sub(k.at) >= lostKept })
	l.some.Store(len(l.mu.bundles) > 0)
}

// found notes that a bundle was read. Before it is time to ask for the object again, the bytes may be some that are in
// memory still.
func (l *lost) found(b id.Bundle) {
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

// tell reports whether a reader gets the error of a partition's lost extent now: it had none for the time of every.
func (l *lost) tell(reader uint64, partition id.TopicPartition, every time.Duration) bool {
	key, now := streamKey{reader: reader, partition: partition}, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.mu.told[key]
	if ok && now.Sub(at) < every {
		return false
	}
	if !ok {
		makeRoom(l.mu.told, func(at time.Time) time.Time { return at })
	}
	l.mu.told[key] = now
	return true
}

// extents returns the number of lost entries that somebody reads.
func (l *lost) extents() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, now := 0, time.Now()
	l.sweep(now)
	for key, k := range l.mu.looks {
		if l.mu.bundles[key.bundle].confirmed && now.Sub(k.at) < lostKept {
			n++
		}
	}
	return float64(n)
}

// makeRoom drops the older entries of a map that is full: those of the older half of the time that it covers.
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
