package kafka

import (
	"math"
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/edge"
)

// A producer is limited by its window if it has sent all that its settings allow in flight, is silent until an answer, and sends at once
// after the answer.
const (
	// windowQuiet is the minimum time without requests before the answer.
	windowQuiet = 10 * time.Millisecond
	// windowBurst is the maximum time from the answer to the requests that waited for it.
	windowBurst = 20 * time.Millisecond
	// windowWarnAfter is the number of seconds with such requests before a client is logged.
	windowWarnAfter = 10
	// windowPeriod is the time between two log lines of a client. A client without such requests for as long is forgotten.
	windowPeriod = time.Hour
	// maxWindowClients bounds the clients that are remembered and shown. Requests of others count for the client "other".
	maxWindowClients = 100
	// maxWindowName bounds the bytes of a client ID that are shown.
	maxWindowName = 64
	// adviceFactor is the least growth of a batch that the log advises, and maxAdvised the largest batch.size that it advises.
	adviceFactor, maxAdvised = 8, 512 << 10

	otherClients = "other"
)

// windows counts and logs producers that are limited by their window, by client ID.
type windows struct {
	log   *zap.Logger
	bytes *prometheus.CounterVec

	mu struct {
		sync.Mutex
		clients map[string]*windowed // at most maxWindowClients
		swept   time.Time
	}
}

// windowed has the requests of a client that waited for the window, since the last log line.
type windowed struct {
	bytes, batches int64
	seconds        int64 // with such requests
	second         int64 // newest one, Unix
	last           time.Time
	logged         time.Time
}

func newWindows(log *zap.Logger, r prometheus.Registerer) *windows {
	w := &windows{log: log, bytes: promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "freshet_kafka_window_limited_bytes_total",
		Help: "Bytes of batches that producers held back until an answer, because as many requests as they allow were in flight. A larger batch.size lets them send more. Up to 100 client IDs, then \"other\".",
	}, []string{"client_id"})}
	w.mu.clients = make(map[string]*windowed)
	return w
}

// held reports whether a request waited for the client's window. It must be called for every produce request of a connection in order,
// on the connection's reader. multiple reports whether the request has a batch with several records: a client that sends one
// record after the other waits by choice.
func held(p *edge.Pace, now time.Time, multiple bool) bool {
	at, answered := now.UnixNano(), p.Answered.Load()
	before := p.Arrived
	p.Arrived = at
	inFlight := p.InFlight.Load()
	p.Most = max(p.Most, inFlight)
	switch {
	case at-p.Burst <= int64(windowBurst):
		return true
	case answered-before < int64(windowQuiet) || at-answered > int64(windowBurst):
		return false
	case p.Most < 2 && !multiple:
		return false
	}
	p.Burst, p.Most = at, inFlight
	return true
}

// add counts a request that waited for the window, and logs its client if that is due.
func (w *windows) add(clientID string, bytes, batches int, now time.Time) {
	name := windowName(clientID)
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.mu.clients[name]
	if c == nil {
		w.sweep(now)
		if len(w.mu.clients) >= maxWindowClients {
			w.bytes.WithLabelValues(otherClients).Add(float64(bytes))
			return
		}
		c = &windowed{}
		w.mu.clients[name] = c
	}
	w.bytes.WithLabelValues(name).Add(float64(bytes))
	c.bytes, c.batches, c.last = c.bytes+int64(bytes), c.batches+int64(batches), now
	if second := now.Unix(); second != c.second {
		c.second = second
		c.seconds++
	}
	if c.seconds > windowWarnAfter && now.Sub(c.logged) >= windowPeriod {
		w.warn(name, c)
		*c = windowed{last: now, logged: now}
	}
}

// warn logs the rate of a client and the rate with a larger batch.size. Called with mu held.
func (w *windows) warn(name string, c *windowed) {
	batch := c.bytes / c.batches
	advised := min(int64(1)<<bits.Len64(uint64(batch*adviceFactor-1)), maxAdvised)
	if advised < 2*batch {
		return // the batches are large already
	}
	const mib = 1 << 20
	rate := float64(c.bytes) / float64(c.seconds) / mib
	w.log.Info("a producer is limited by its window: it sends nothing while its requests wait for answers, so a larger batch.size lets it send more",
		zap.String("client_id", name), zap.Float64("mib_per_second", rounded(rate)), zap.Int64("batch_bytes", batch),
		zap.Int64("advised_batch_size", advised), zap.Float64("mib_per_second_then", rounded(rate*float64(advised)/float64(batch))))
}

// rounded returns a rate with two decimals.
func rounded(rate float64) float64 { return math.Round(rate*100) / 100 }

// sweep forgets clients that were not limited for windowPeriod, at most once a second. Called with mu held.
func (w *windows) sweep(now time.Time) {
	if now.Sub(w.mu.swept) < time.Second {
		return
	}
	w.mu.swept = now
	for name, c := range w.mu.clients {
		if now.Sub(c.last) >= windowPeriod {
			delete(w.mu.clients, name)
			w.bytes.DeleteLabelValues(name)
		}
	}
}

// windowName returns a client ID as it is shown.
func windowName(clientID string) string {
	return strings.ToValidUTF8(clientID[:min(len(clientID), maxWindowName)], "?")
}
