package kafka

import (
	"sync"

	"github.com/freshet-io/freshet/agent/view"
)

const (
	// maxPartBytes bounds the encoded parts that are kept: 100,000 partitions take 3 to 5 MB for each view and version
	// that clients ask in. Where another does not fit, all are forgotten.
	maxPartBytes = 32 << 20
	// partOverhead is about what keeping a part takes beside its bytes.
	partOverhead = 128
)

// metadataParts are encoded parts of Metadata answers, of all views of one membership. A part's key is all that it depends
// on: views and topics do not change, a changed one is another. So nothing here is ever out of date, only unused, and
// goes with the membership.
type metadataParts struct {
	m *metrics

	mu struct {
		sync.Mutex
		kept    map[partKey][]byte
		bytes   int
		retired bool // nothing is kept any more
	}
}

func newMetadataParts(m *metrics) *metadataParts {
	p := &metadataParts{m: m}
	p.mu.kept = make(map[partKey][]byte)
	return p
}

// partKey names a part: a topic, or what comes before the topics.
type partKey struct {
	view       *zoneView
	topic      *view.Topic // nil: what comes before the topics
	cluster    string      // the cluster's id, with a nil topic
	version    int16       // of the API
	operations bool        // whether a topic's authorized operations are told
}

// get gives a part, encoding it if it is not kept. It is shared: do not change it.
func (m *metadataParts) get(key partKey, encode func() []byte) []byte {
	m.mu.Lock()
	part, ok := m.mu.kept[key]
	m.mu.Unlock()
	if ok {
		return part
	}
	part = encode()
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.mu.kept[key]; ok || m.mu.retired {
		return part // encoded twice at a time, or of a membership that is past
	}
	size := len(part) + partOverhead
	if size > maxPartBytes {
		return part
	}
	if m.mu.bytes+size > maxPartBytes {
		m.forget()
		m.m.forgotten.Inc()
	}
	m.mu.kept[key] = part
	m.mu.bytes += size
	m.m.kept.Set(float64(m.mu.bytes))
	return part
}

// clear forgets all parts: their views have gone.
func (m *metadataParts) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
}

// retire forgets all parts and keeps none from now on: their membership is past.
func (m *metadataParts) retire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget()
	m.mu.retired = true
}

// forget forgets all parts. The caller holds mu. Where there is none the metric is another membership's.
func (m *metadataParts) forget() {
	if m.mu.bytes > 0 {
		clear(m.mu.kept)
		m.mu.bytes = 0
		m.m.kept.Set(0)
	}
}
