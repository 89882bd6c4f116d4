package load

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// message is a record under way. Messages are used again, with their callback, so that sending allocates nothing.
type message struct {
	record         kgo.Record
	intended, sent time.Time
	done           func(*kgo.Record, error)
	headers        [1]kgo.RecordHeader
	sentNanos      [8]byte
}

func newMessage(p *Producers) *message {
	m := &message{}
	m.done = func(_ *kgo.Record, err error) { p.done(m, err) }
	m.headers[0] = kgo.RecordHeader{Key: p.spec.SendTimeHeader, Value: m.sentNanos[:]}
	return m
}

// fill prepares the message for being sent now.
func (m *message) fill(intended time.Time, key, value []byte) {
	m.intended, m.sent = intended, time.Now()
	m.record = kgo.Record{Key: key, Value: value, Timestamp: m.sent}
	if m.headers[0].Key != "" {
		binary.BigEndian.PutUint64(m.sentNanos[:], uint64(m.sent.UnixNano()))
		m.record.Headers = m.headers[:]
	}
}

// sendTime reads the header that fill wrote; without it, the record's timestamp counts.
func sendTime(r *kgo.Record, header string) time.Time {
	for _, h := range r.Headers {
		if h.Key == header && len(h.Value) == 8 {
			return time.Unix(0, int64(binary.BigEndian.Uint64(h.Value)))
		}
	}
	return r.Timestamp
}
