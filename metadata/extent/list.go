package extent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// ErrMalformed is the base of every decoding error.
var ErrMalformed = errors.New("malformed extent list")

// minEncoded is the least number of bytes an extent takes in a list.
const minEncoded = 7

// AppendList appends the list encoding of extents that ascend in offset and do not overlap.
// The table is in the form of internal/bytetable, and testdata/list.golden has an example.
//
// Extents:
//
//	field            form    meaning
//	version          1 byte  = 1
//	count            varint
//	per extent, count times:
//	  gap            varint  base minus the offset after the extent before it (minus 0 for the first)
//	  span           varint  last minus base
//	  timestamp      zigzag  max timestamp minus that of the extent before it
//	  bundle         zigzag  bundle minus that of the extent before it that is no marker, modulo 2^64; 0 in a marker
//	  position       varint  <= 2^32-1; 0 in a marker
//	  length         varint  <= 2^32-1; 0 in a marker
//	  batches        varint  batches << 2 | kind
//	  marker, if batches & 3 = 2:
//	    producer     varint
//	    end          varint  epoch << 1 | commit
//	    coordinator  zigzag  coordinator epoch
func AppendList(dst []byte, exts []Extent) []byte {
	var e Encoder
	dst = append(dst, 1)
	dst = binary.AppendUvarint(dst, uint64(len(exts)))
	for i := range exts {
		dst = e.Append(dst, &exts[i])
	}
	return dst
}

// Encoder appends extents one by one, each relative to the one before. The zero value begins a list.
type Encoder struct {
	next      int64
	timestamp int64
	bundle    uint64
}

// Append appends one extent, without version or count.
func (e *Encoder) Append(dst []byte, x *Extent) []byte {
	dst = binary.AppendUvarint(dst, uint64(x.Base-e.next))
	dst = binary.AppendUvarint(dst, uint64(x.Last-x.Base))
	dst = binary.AppendVarint(dst, x.MaxTimestamp-e.timestamp)
	e.next, e.timestamp = x.Last+1, x.MaxTimestamp
	if x.Kind == Marker {
		return appendMarker(dst, x)
	}
	dst = binary.AppendVarint(dst, int64(uint64(x.Bundle)-e.bundle))
	dst = binary.AppendUvarint(dst, uint64(x.Position))
	dst = binary.AppendUvarint(dst, uint64(x.Length))
	dst = binary.AppendUvarint(dst, uint64(x.Batches)<<2|uint64(x.Kind))
	e.bundle = uint64(x.Bundle)
	return dst
}

// appendMarker appends a marker's fields from the bundle on.
func appendMarker(dst []byte, x *Extent) []byte {
	m := x.EndMarker()
	dst = append(dst, 0, 0, 0) // bundle, position, length
	dst = binary.AppendUvarint(dst, uint64(x.Batches)<<2|uint64(Marker))
	dst = binary.AppendUvarint(dst, uint64(m.ProducerID))
	end := uint64(uint16(m.Epoch)) << 1
	if m.Commit {
		end |= 1
	}
	dst = binary.AppendUvarint(dst, end)
	return binary.AppendVarint(dst, int64(m.CoordinatorEpoch))
}

// Decoder reads what an Encoder wrote. The zero value begins a list.
type Decoder struct {
	next      int64
	timestamp int64
	bundle    uint64
}

// Read reads one extent; what is out of bounds fails the reader.
func (d *Decoder) Read(w *wire.Reader) Extent {
	base := d.next + w.Offset()
	last := base + w.Offset()
	timestamp := d.timestamp + w.Varint()
	bundle := d.bundle + uint64(w.Varint())
	x := Extent{Base: base, Last: last, MaxTimestamp: timestamp, Bundle: id.Bundle(bundle)}
	x.Position, x.Length = w.Uint32(), w.Uint32()
	v := w.Uvarint()
	x.Batches, x.Kind = uint32(v>>2), Kind(v&3)
	if base < d.next || last < base || last == math.MaxInt64 || timestamp < -1 || v>>2 > math.MaxUint32 || x.Kind > Marker {
		w.Fail("extent [%d, %d] time %d kind %d", base, last, timestamp, x.Kind)
		return Extent{}
	}
	if x.Kind == Marker {
		if x = d.marker(w, x); w.Err() != nil {
			return Extent{}
		}
		bundle = d.bundle
	}
	d.next, d.timestamp, d.bundle = last+1, timestamp, bundle
	return x
}

// marker reads the rest of a marker, given what the common fields say.
func (d *Decoder) marker(w *wire.Reader, x Extent) Extent {
	producerID, end, coordinator := w.Offset(), w.Uvarint(), w.Int32()
	if x.Base != x.Last || uint64(x.Bundle) != d.bundle || x.Position != 0 || x.Length != 0 || x.Batches != 1 || end > math.MaxUint16 {
		w.Fail("marker [%d, %d] of %d bytes, epoch %d", x.Base, x.Last, x.Length, end>>1)
	}
	return NewMarker(x.Base, x.MaxTimestamp, EndMarker{
		ProducerID: producerID, Epoch: int16(end >> 1), Commit: end&1 != 0, CoordinatorEpoch: coordinator,
	})
}

// ParseList reads what AppendList wrote. What it allocates is bounded by a small multiple of len(p). Errors wrap
// ErrMalformed.
func ParseList(p []byte) ([]Extent, error) {
	w := wire.NewReader(p)
	if v := w.Byte(); v != 1 {
		w.Fail("version %d", v)
	}
	n := w.Count(minEncoded)
	var exts []Extent
	if n > 0 {
		exts = make([]Extent, 0, n)
	}
	var d Decoder
	for range n {
		exts = append(exts, d.Read(&w))
		if w.Err() != nil {
			break
		}
	}
	if err := w.Done(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return exts, nil
}
