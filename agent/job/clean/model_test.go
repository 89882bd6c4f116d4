package clean_test

import (
	"slices"

	"github.com/freshet-io/freshet/agent/job/clean/cleantest"
	"github.com/freshet-io/freshet/metadata/extent"
)

// model is what Kafka's cleaner does, on whole records in memory: what it leaves must be left by Run too.
type model struct {
	records []modelRecord
	markers []modelMarker
	// batches are the last offset and the delete horizon of each batch that was written; 0: none yet.
	last, horizon map[int]int64
}

type modelRecord struct {
	cleantest.Record
	batch    int
	producer int64 // of a transaction; 0: none
	aborted  bool
}

type modelMarker struct {
	offset, producer int64
	commit           bool
	first            int64 // offset of the first record that it aborts, -1 if none
	horizon          int64
}

func newModel() *model { return &model{last: make(map[int]int64), horizon: make(map[int]int64)} }

// end adds a marker and gives the offset of the first record of its transaction, -1 if there is none.
func (m *model) end(offset, producer int64, commit bool) (first int64) {
	first = -1
	since := int64(-1)
	for _, k := range m.markers {
		if k.producer == producer {
			since = k.offset
		}
	}
	for i := range m.records {
		r := &m.records[i]
		if r.producer == producer && r.Offset > since {
			if first < 0 {
				first = r.Offset
			}
			r.aborted = !commit
		}
	}
	m.markers = append(m.markers, modelMarker{offset: offset, producer: producer, commit: commit, first: first})
	return first
}

// trim forgets what left with the extents.
func (m *model) trim(from int64) {
	m.records = slices.DeleteFunc(m.records, func(r modelRecord) bool { return r.Offset < from })
	m.markers = slices.DeleteFunc(m.markers, func(k modelMarker) bool { return k.offset < from })
}

// clean is one cleaning: of the records up to the offset to, of which keys were noted in [firstDirty, cleanedTo).
func (m *model) clean(firstDirty, cleanedTo, to, now, retention int64) {
	latest := make(map[string]int64)
	for _, r := range m.records {
		if r.Offset >= firstDirty && r.Offset < cleanedTo && !r.aborted && r.Key != nil {
			latest[string(r.Key)] = r.Offset
		}
	}
	m.cleanMarkers(cleanedTo, now, retention)
	m.records = slices.DeleteFunc(m.records, func(r modelRecord) bool {
		h := m.horizon[r.batch]
		switch last, noted := latest[string(r.Key)]; {
		case r.Offset > to:
			return false
		case r.aborted:
			return true
		case r.Offset >= cleanedTo:
			return false
		default:
			return r.Key == nil || noted && last > r.Offset || r.Value == nil && h > 0 && now >= h
		}
	})
	for _, r := range m.records {
		if r.Value == nil && m.last[r.batch] < cleanedTo && m.horizon[r.batch] == 0 {
			m.horizon[r.batch] = now + retention
		}
	}
}

func (m *model) cleanMarkers(cleanedTo, now, retention int64) {
	since := make(map[int64]int64) // the marker before, by producer
	before := slices.Clone(m.markers)
	m.markers = m.markers[:0]
	for _, k := range before {
		empty := !slices.ContainsFunc(m.records, func(r modelRecord) bool {
			after, some := since[k.producer]
			return r.producer == k.producer && r.Offset < k.offset && (!some || r.Offset > after)
		})
		since[k.producer] = k.offset
		switch {
		case !empty || k.offset >= cleanedTo:
		case k.horizon == 0:
			k.horizon = now + retention
		case now >= k.horizon:
			continue
		}
		m.markers = append(m.markers, k)
	}
}

// aborted gives the aborted transactions of which the marker is left.
func (m *model) aborted(logStart int64) []extent.Aborted {
	var list []extent.Aborted
	for _, k := range m.markers {
		if !k.commit && k.first >= 0 && k.offset >= logStart {
			list = append(list, extent.Aborted{ProducerID: k.producer, First: k.first, Last: k.offset})
		}
	}
	return list
}
