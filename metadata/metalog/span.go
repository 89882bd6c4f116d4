package metalog

import "fmt"

// split cuts a payload into consecutive parts of at most size bytes; an empty payload is one empty part.
func split(payload []byte, size int) [][]byte {
	parts := make([][]byte, 0, len(payload)/size+1)
	for len(payload) > size {
		parts = append(parts, payload[:size:size])
		payload = payload[size:]
	}
	return append(parts, payload)
}

// Assembler puts payloads together that span several entries. An entry that begins a payload voids an incomplete one
// before it: its owner was gone before the last part, nobody was answered, and every replica drops it at the same
// index. The zero value expects any first entry.
type Assembler struct {
	next    uint64 // index expected; 0: any
	open    bool   // parts holds the beginning of a payload
	tenure  int64
	pending []byte
}

// NewAssembler expects the entry after index next.
func NewAssembler(after uint64) *Assembler { return &Assembler{next: after + 1} }

// Next is the index of the entry expected next.
func (a *Assembler) Next() uint64 { return a.next }

// Add takes the next entry. done is true when it completes a payload, which then belongs at the entry's index; the
// payload may alias the entry's. Errors: ErrCorrupt.
func (a *Assembler) Add(e Entry) (payload []byte, done bool, err error) {
	if a.next != 0 && e.Index != a.next {
		return nil, false, fmt.Errorf("%w: entry %d where %d was expected", ErrCorrupt, e.Index, a.next)
	}
	switch {
	case e.First:
		a.open, a.tenure, a.pending = true, e.Tenure, nil
	case !a.open:
		return nil, false, fmt.Errorf("%w: entry %d continues nothing", ErrCorrupt, e.Index)
	case e.Tenure != a.tenure:
		return nil, false, fmt.Errorf("%w: entry %d of tenure %d continues tenure %d", ErrCorrupt, e.Index, e.Tenure, a.tenure)
	}
	if len(a.pending)+len(e.Payload) > MaxPayloadBytes {
		return nil, false, fmt.Errorf("%w: command at entry %d is larger than %d bytes", ErrCorrupt, e.Index, MaxPayloadBytes)
	}
	a.next = e.Index + 1
	if e.First && e.Last {
		a.open = false
		return e.Payload, true, nil
	}
	a.pending = append(a.pending, e.Payload...)
	if !e.Last {
		return nil, false, nil
	}
	payload, a.pending, a.open = a.pending, nil, false
	return payload, true, nil
}
