package metadata

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// AppendBatch appends the batch's bytes, as they stand in the log. Equal batches give equal bytes.
//
// The table is in the form of internal/bytetable, and testdata/batch.golden has an example.
//
// Batch:
//
//	field       form    meaning
//	generation  1 byte  = generation.Number
//	now         zigzag  command time, ms since the epoch
//	count       varint
//	per command, count times:
//	  kind      1 byte  commandKind
//	  body      bytes   fields in the order of the type's declaration
//
// In bodies, strings and byte slices have their length in front, maps are sorted by key, ids are their 16 bytes,
// unsigned and signed integers are varints, signed ones zigzag.
func AppendBatch(dst []byte, b *Batch) []byte {
	dst = append(dst, generation.Number)
	dst = binary.AppendVarint(dst, b.Now)
	dst = binary.AppendUvarint(dst, uint64(len(b.Commands)))
	var body []byte
	for _, c := range b.Commands {
		dst = append(dst, byte(c.kind()))
		if commit, ok := c.(*CommitBundle); ok { // without copying it twice
			dst = wire.AppendBytes(dst, commit.Encoded)
			continue
		}
		body = c.appendBody(body[:0])
		dst = wire.AppendBytes(dst, body)
	}
	return dst
}

func appendStringMap(dst []byte, m map[string]string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		dst = wire.AppendString(dst, k)
		dst = wire.AppendString(dst, m[k])
	}
	return dst
}

func appendEndpoints(dst []byte, endpoints []Endpoint) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(endpoints)))
	for _, e := range endpoints {
		dst = wire.AppendString(dst, e.Listener)
		dst = wire.AppendString(dst, e.Host)
		dst = binary.AppendVarint(dst, int64(e.Port))
	}
	return dst
}

// ParseBatch parses the output of AppendBatch. CommitBundle.Encoded and CompleteJob.Outcome alias p and are not parsed; everything else
// is copied. ParseBatch allocates at most a small multiple of len(p). It returns ErrMalformedCommand, or ErrUnsupported for an unknown
// generation, kind or version. A replica must stop at ErrUnsupported.
func ParseBatch(p []byte) (*Batch, error) {
	w := wire.NewReader(p)
	stored := w.Byte()
	if w.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformedCommand, w.Err())
	}
	if err := generation.Check(stored); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	b := &Batch{Now: w.Varint()}
	n := w.Count(2)
	if n > 0 {
		b.Commands = make([]Command, 0, n)
	}
	for range n {
		kind := commandKind(w.Byte())
		body := w.Bytes()
		if w.Err() != nil {
			break
		}
		c, err := parseCommand(kind, body)
		if err != nil {
			return nil, err
		}
		b.Commands = append(b.Commands, c)
	}
	if err := w.Done(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformedCommand, err)
	}
	return b, nil
}

func parseCommand(kind commandKind, body []byte) (Command, error) {
	if int(kind) >= len(commands) || commands[kind].create == nil {
		return nil, fmt.Errorf("%w: command kind %d", ErrUnsupported, kind)
	}
	c := commands[kind].create()
	w := wire.NewReader(body)
	c.readBody(&w)
	if err := w.Done(); err != nil {
		return nil, fmt.Errorf("%w: %T: %w", ErrMalformedCommand, c, err)
	}
	if v, ok := c.(*RaiseVersion); ok && v.Version > MaxVersion {
		return nil, unsupportedVersion(v.Version)
	}
	return c, nil
}

func readTopicID(w *wire.Reader) (t id.Topic) {
	copy(t[:], w.Take(len(t)))
	return t
}

func readUint64(w *wire.Reader) uint64 {
	b := w.Take(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// readStringMap reads a map; its keys must ascend, so that equal maps have one form. nil if it is empty.
func readStringMap(w *wire.Reader) map[string]string {
	n := w.Count(2)
	if n == 0 {
		return nil
	}
	m := make(map[string]string, n)
	before := ""
	for i := range n {
		k, v := w.String(), w.String()
		if i > 0 && k <= before {
			w.Fail("map keys do not ascend")
			return nil
		}
		m[k], before = v, k
	}
	return m
}

// readEndpoints reads endpoints, nil if there are none.
func readEndpoints(w *wire.Reader) []Endpoint {
	n := w.Count(3)
	if n == 0 {
		return nil
	}
	list := make([]Endpoint, 0, n)
	for range n {
		list = append(list, Endpoint{Listener: w.String(), Host: w.String(), Port: w.Int32()})
	}
	return list
}
