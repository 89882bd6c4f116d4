package commit

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// AppendResult appends the result's bytes (see the package comment).
func AppendResult(dst []byte, r *Result) []byte {
	dst = append(dst, formatVersion, byte(r.Status))
	dst = binary.AppendUvarint(dst, uint64(len(r.Sections)))
	for i := range r.Sections {
		s := &r.Sections[i]
		dst = binary.AppendUvarint(dst, uint64(s.LogStart))
		dst = binary.AppendUvarint(dst, uint64(len(s.Spans)))
		for _, span := range s.Spans {
			dst = binary.AppendUvarint(dst, uint64(span.Batches)<<4|uint64(span.Outcome))
			if hasBase(span.Outcome) {
				dst = binary.AppendUvarint(dst, uint64(span.Base+1))
			}
		}
	}
	return dst
}

// hasBase tells whether spans of this outcome carry a base offset.
func hasBase(o Outcome) bool { return o == Accepted || o == Duplicate }

// ParseResult reads what AppendResult wrote. Errors wrap ErrMalformed.
func ParseResult(p []byte) (*Result, error) {
	w := wire.NewReader(p)
	if v := w.Byte(); v != formatVersion {
		w.Fail("version %d", v)
	}
	status := Status(w.Byte())
	if status > Forgotten {
		w.Fail("status %d", status)
	}
	r := &Result{Status: status}
	if n := w.Count(2); n > 0 {
		if status != Settled {
			w.Fail("%d sections with status %d", n, status)
		}
		r.Sections = make([]SectionResult, 0, n)
		for range n {
			r.Sections = append(r.Sections, readSection(&w))
		}
	}
	if err := w.Done(); err != nil {
		return nil, fmt.Errorf("%w: result: %w", ErrMalformed, err)
	}
	return r, nil
}

func readSection(w *wire.Reader) SectionResult {
	s := SectionResult{LogStart: w.Offset()}
	n := w.Count(1)
	if n == 0 {
		return s
	}
	s.Spans = make([]Span, 0, n)
	for range n {
		v := w.Uvarint()
		span := Span{Batches: uint32(v >> 4), Outcome: Outcome(v & 15), Base: -1}
		if v>>4 > math.MaxUint32 || span.Batches == 0 || span.Outcome > TooManyProducers {
			w.Fail("span %x", v)
			return s
		}
		if hasBase(span.Outcome) {
			base := w.Uvarint()
			if base > math.MaxInt64 {
				w.Fail("base %d", base)
			}
			span.Base = int64(base) - 1
		}
		s.Spans = append(s.Spans, span)
	}
	return s
}
