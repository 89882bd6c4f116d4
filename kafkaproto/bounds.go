package kafkaproto

import (
	"fmt"
	"math"
	"strconv"
)

// MaxElements is the largest number of array elements and tagged fields in one request, over all its arrays. An element
// of three bytes on the wire takes some hundred bytes decoded, so the frame's size alone does not bound memory. Apache
// Kafka has no such bound. A fetch of every partition of the largest clusters stays below it.
const MaxElements = 1 << 18

// MaxString is the longest string in bytes. Flexible versions can claim longer ones, which Apache Kafka refuses too
// (MessageDataGenerator, "had invalid length").
const MaxString = math.MaxInt16

// CheckBody walks a request body by the schema of its API and version and returns the size of what the schema
// describes. It allocates nothing. A body that passes has every count and length inside the body, at most MaxElements
// elements, and no string above MaxString outside tagged fields, so decoding its first size bytes allocates no more than they justify.
//
// Bytes after the last field are allowed and not part of size. Apache Kafka ignores them (AbstractRequest.parseRequest
// reads fields and never looks at the rest), and librdkafka 2.3 to 2.16 sends such Metadata requests. Errors are
// ErrMalformed.
func CheckBody(key, version int16, body []byte) (size int, err error) {
	w, err := walk(key, version, body)
	if err != nil {
		return 0, err
	}
	return len(body) - len(w.src), nil
}

// CountElements returns the array elements and tagged fields of a request body, 0 if CheckBody refuses the body. It allocates nothing.
func CountElements(key, version int16, body []byte) int {
	w, err := walk(key, version, body)
	if err != nil {
		return 0
	}
	return w.elements
}

func walk(key, version int16, body []byte) (w walker, err error) {
	schema, ok := parsedSchemas()[key]
	if !ok {
		return w, fmt.Errorf("%w: api key %d is not served", ErrMalformed, key)
	}
	e, _ := Lookup(key)
	w = walker{reader: reader{src: body}, version: version, flexible: e.IsFlexible(version)}
	w.fields(schema)
	if w.err != nil {
		return w, fmt.Errorf("%s version %d: %w", e.Name, version, w.err)
	}
	return w, nil
}

// walker goes through one body.
type walker struct {
	reader
	version  int16
	flexible bool
	elements int
}

// fields walks a struct, or the whole body.
func (w *walker) fields(fs []schemaField) {
	for i := range fs {
		if f := &fs[i]; f.min <= w.version && w.version <= f.max {
			w.field(f)
		}
		if w.err != nil {
			return
		}
	}
	if w.flexible {
		w.tagged(fs)
	}
}

// tagged walks the tagged fields at the end of a struct. The decoder reads the structs in them, whose own tagged fields
// may claim any count.
func (w *walker) tagged(fs []schemaField) {
	n := w.uvarint()
	if int64(n)*2 > int64(len(w.src)) { // tag number and size take a byte each at least
		w.fail("tag count exceeds the message")
		return
	}
	w.elements += int(n)
	w.checkElements()
	for range n {
		tag := w.uvarint()
		content := w.take(int(w.uvarint()))
		for i := range fs {
			if f := &fs[i]; f.kind == '<' && f.size == int(tag) && f.min <= w.version && w.version <= f.max {
				w.within(content, f.sub)
			}
		}
		if w.err != nil {
			return
		}
	}
}

// within walks a struct that takes all of a tagged field's content.
func (w *walker) within(content []byte, fs []schemaField) {
	inner := walker{reader: reader{src: content, err: w.err}, version: w.version, flexible: true, elements: w.elements}
	inner.fields(fs)
	if len(inner.src) > 0 {
		inner.fail("tagged field is larger than its struct")
	}
	w.elements = inner.elements
	if inner.err != nil {
		w.err, w.src = inner.err, nil
	}
}

func (w *walker) field(f *schemaField) {
	switch f.kind {
	case 's':
		n := w.length(2)
		if n > MaxString {
			w.fail("string exceeds " + strconv.Itoa(MaxString) + " bytes")
			return
		}
		w.take(max(0, n))
	case 'r':
		w.take(max(0, w.length(4)))
	case '[', '(':
		w.array(f)
	case '<': // after the other fields
	case '{':
		w.nullable(f.sub)
	default:
		w.take(f.size)
	}
}

// nullable walks a struct that may be null: -1, and nothing follows.
func (w *walker) nullable(fs []schemaField) {
	presence := w.take(1)
	switch {
	case presence == nil:
	case int8(presence[0]) >= 0:
		w.fields(fs)
	case int8(presence[0]) != -1: // null to Apache Kafka, a struct to kmsg
		w.fail("presence of a struct is neither -1 nor positive")
	}
}

// length reads a length or count: a varint of one more in flexible versions, else an integer of so many bytes.
// Null is -1.
func (w *walker) length(size int) int {
	switch {
	case w.flexible:
		n := w.uvarint()
		if n > math.MaxInt32 {
			w.fail("length exceeds the message")
			return 0
		}
		return int(n) - 1
	case size == 2:
		return int(w.int16())
	default:
		return int(w.int32())
	}
}

func (w *walker) array(f *schemaField) {
	n := w.length(4)
	if n > len(w.src) { // an element takes a byte at least
		w.fail("count exceeds the message")
		return
	}
	w.elements += max(0, n)
	w.checkElements()
	for range max(0, n) {
		if w.err != nil {
			return
		}
		if f.kind == '(' {
			w.field(&f.sub[0])
		} else {
			w.fields(f.sub)
		}
	}
}

func (w *walker) checkElements() {
	if w.elements > MaxElements {
		w.fail("more than " + strconv.Itoa(MaxElements) + " elements")
	}
}
