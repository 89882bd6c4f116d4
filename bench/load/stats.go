package load

import (
	"sync"
	"time"
)

// Counters are what was sent and received.
type Counters struct {
	Sent          int64 `json:"sent"`   // messages acknowledged
	Failed        int64 `json:"failed"` // messages that were not
	BytesSent     int64 `json:"bytesSent"`
	Received      int64 `json:"received"` // messages, by all subscriptions together
	BytesReceived int64 `json:"bytesReceived"`
	Joined        int64 `json:"joined"` // consumers that their groups have told what they read
}

// Add adds up the counters of workers.
func (c Counters) Add(o Counters) Counters {
	return Counters{
		Sent: c.Sent + o.Sent, Failed: c.Failed + o.Failed, BytesSent: c.BytesSent + o.BytesSent,
		Received: c.Received + o.Received, BytesReceived: c.BytesReceived + o.BytesReceived, Joined: c.Joined + o.Joined,
	}
}

func (c Counters) minus(o Counters) Counters {
	return Counters{
		Sent: c.Sent - o.Sent, Failed: c.Failed - o.Failed, BytesSent: c.BytesSent - o.BytesSent,
		Received: c.Received - o.Received, BytesReceived: c.BytesReceived - o.BytesReceived, Joined: c.Joined - o.Joined,
	}
}

// Period is what happened between two snapshots.
type Period struct {
	Counters  Counters      // of this period
	Totals    Counters      // since the start, this period included
	Latencies Latencies     // of this period
	Elapsed   time.Duration // its length
	LastError string        // of a message or a fetch that failed in this period, if any did
}

// Merge adds the same period of another worker.
func (p *Period) Merge(o Period) {
	p.Counters, p.Totals = p.Counters.Add(o.Counters), p.Totals.Add(o.Totals)
	p.Latencies.Merge(o.Latencies)
	p.Elapsed = max(p.Elapsed, o.Elapsed)
	if p.LastError == "" {
		p.LastError = o.LastError
	}
}

// Stats collects what producers and consumers measure. Safe for concurrent use.
type Stats struct {
	send, receive half

	snapshots sync.Mutex // guards what follows
	period    Latencies  // of the period being measured: what Publish and Receive fill
	spare     Latencies  // of the one before: what the last snapshot gave out
	total     Latencies  // of all periods before
	before    Counters
	since     time.Time
}

// half is what senders or receivers write, each under its own lock. The histograms are those of Stats.period.
type half struct {
	mu        sync.Mutex
	counters  Counters
	latencies Latencies
	lastError error
}

// NewStats makes empty statistics.
func NewStats() *Stats {
	s := &Stats{period: NewLatencies(), spare: NewLatencies(), total: NewLatencies(), since: time.Now()}
	s.send.latencies, s.receive.latencies = s.period, s.period
	return s
}

// Published counts a message of n bytes that was acknowledged at acked.
func (s *Stats) Published(n int, intended, sent, acked time.Time) {
	publish := min(acked.Sub(sent), longestPublish).Microseconds()
	delay := min(sent.Sub(intended), longestPublish).Microseconds()
	h := &s.send
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counters.Sent++
	h.counters.BytesSent += int64(n)
	_ = h.latencies.Publish.RecordValue(max(0, publish)) // within the range
	_ = h.latencies.PublishDelay.RecordValue(max(0, delay))
}

// PublishFailed counts a message that was given up.
func (s *Stats) PublishFailed(err error) {
	s.send.mu.Lock()
	defer s.send.mu.Unlock()
	s.send.counters.Failed++
	s.send.lastError = err
}

// Probed counts an acknowledged message that is not part of the load: it has no latency.
func (s *Stats) Probed() {
	s.send.mu.Lock()
	defer s.send.mu.Unlock()
	s.send.counters.Sent++
}

// Joined counts a consumer that is in its group.
func (s *Stats) Joined() {
	s.receive.mu.Lock()
	defer s.receive.mu.Unlock()
	s.receive.counters.Joined++
}

// FetchFailed keeps the error of a fetch, for the next snapshot.
func (s *Stats) FetchFailed(err error) {
	s.receive.mu.Lock()
	defer s.receive.mu.Unlock()
	s.receive.lastError = err
}

// Receiver is for recording the messages of one poll under one lock.
type Receiver struct{ half *half }

// Receive begins the recording of a poll's messages. Done must follow soon.
func (s *Stats) Receive() Receiver {
	s.receive.mu.Lock()
	return Receiver{&s.receive}
}

// Message counts a message of n bytes. As in the OpenMessaging Benchmark, a latency of zero or less, which the clock
// cannot tell, is not recorded.
func (r Receiver) Message(n int, latency time.Duration) {
	r.half.counters.Received++
	r.half.counters.BytesReceived += int64(n)
	if latency > 0 {
		_ = r.half.latencies.EndToEnd.RecordValue(min(latency, longestEndToEnd).Microseconds()) // within the range
	}
}

// Done ends the recording.
func (r Receiver) Done() { r.half.mu.Unlock() }

// Counters gives the totals since the start.
func (s *Stats) Counters() Counters {
	s.send.mu.Lock()
	sent := s.send.counters
	s.send.mu.Unlock()
	s.receive.mu.Lock()
	defer s.receive.mu.Unlock()
	return sent.Add(s.receive.counters)
}

// Snapshot gives what happened since the one before. Its histograms are good until the next call.
func (s *Stats) Snapshot() Period {
	s.snapshots.Lock()
	defer s.snapshots.Unlock()
	s.spare.Reset()
	past := s.period
	totals, lastError := s.swap(s.spare)
	s.period, s.spare = s.spare, past
	s.total.Merge(past)
	now := time.Now()
	p := Period{Counters: totals.minus(s.before), Totals: totals, Latencies: past, Elapsed: now.Sub(s.since)}
	if lastError != nil {
		p.LastError = lastError.Error()
	}
	s.before, s.since = totals, now
	return p
}

// swap lets both halves record into other histograms.
func (s *Stats) swap(to Latencies) (totals Counters, lastError error) {
	for _, h := range []*half{&s.receive, &s.send} {
		h.mu.Lock()
		h.latencies = to
		totals = totals.Add(h.counters)
		if h.lastError != nil {
			lastError, h.lastError = h.lastError, nil
		}
		h.mu.Unlock()
	}
	return totals, lastError
}

// Cumulative gives the latencies since the start, or since ResetLatencies.
func (s *Stats) Cumulative() Latencies {
	s.snapshots.Lock()
	defer s.snapshots.Unlock()
	all := NewLatencies()
	all.Merge(s.total)
	s.send.mu.Lock()
	all.Publish.Merge(s.send.latencies.Publish)
	all.PublishDelay.Merge(s.send.latencies.PublishDelay)
	s.send.mu.Unlock()
	s.receive.mu.Lock()
	defer s.receive.mu.Unlock()
	all.EndToEnd.Merge(s.receive.latencies.EndToEnd)
	return all
}

// ResetLatencies forgets all latencies. Counters go on.
func (s *Stats) ResetLatencies() {
	s.snapshots.Lock()
	defer s.snapshots.Unlock()
	s.total.Reset()
	s.spare.Reset()
	_, _ = s.swap(s.spare) // an error of before belongs to what is forgotten
	s.period, s.spare = s.spare, s.period
}
