package kafkaproto

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/hostile"
	"github.com/freshet-io/freshet/internal/nightly"
)

// Decoding a body may allocate at most decodeFactor bytes for each of its bytes, and decodeConstant beside. The most
// costly bytes are small elements with a tagged field each: every one of them becomes a struct and a map.
const (
	decodeFactor   = 128
	decodeConstant = 64 << 10
)

// requireBounded fails if decoding a body allocates more than decodeFactor allows. The runtime's metric is quick and
// counts whole spans of small objects, so an excess is measured again with the world stopped.
func requireBounded(t *testing.T, version int16, body []byte, newRequest func() kmsg.Request) {
	t.Helper()
	bound := decodeConstant + decodeFactor*uint64(len(body))
	decode := func() { _, _ = DecodeBody(version, body, newRequest()) }
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	decode()
	metrics.Read(sample)
	if sample[0].Value.Uint64()-before <= bound {
		return
	}
	if n := hostile.Allocated(decode); n > bound {
		t.Fatalf("%T version %d: %d bytes make the decoder allocate %d", newRequest(), version, len(body), n)
	}
}

// seeds calls add with one request of every API and version that is served.
func seeds(add func(key, version int16, body []byte)) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, e := range Table() {
		if e.By == ByNobody {
			continue
		}
		for version := e.Served.Min; version <= e.Served.Max; version++ {
			in := kmsg.RequestForKey(e.Key)
			fill(r, reflect.ValueOf(in).Elem())
			in.SetVersion(version)
			add(e.Key, version, in.AppendTo(nil))
		}
	}
}

// FuzzDecodeBody checks that no bytes make the decoder panic or allocate more than decodeFactor allows, that it accepts
// nothing which CheckBody refuses, and that a decoded request, encoded again, is accepted with any bytes after it.
func FuzzDecodeBody(f *testing.F) {
	seeds(func(key, version int16, body []byte) {
		f.Add(key, version, body, []byte(nil))
		f.Add(key, version, body, []byte{0})
	})
	f.Fuzz(func(t *testing.T, key, version int16, body, trailing []byte) {
		if !Serves(key, version) {
			return
		}
		whole := append(body[:len(body):len(body)], trailing...)
		in := kmsg.RequestForKey(key)
		requireBounded(t, version, whole, func() kmsg.Request { return kmsg.RequestForKey(key) })
		size, err := DecodeBody(version, whole, in)
		checked, fault := CheckBody(key, version, whole)
		if fault != nil && err == nil || err == nil && checked != size { // the decoder refuses some nulls too, as Kafka does
			t.Fatalf("the check returns %d, %v; the decoder returns %d, %v", checked, fault, size, err)
		}
		if err != nil {
			return
		}
		if in.GetVersion() != version {
			t.Fatalf("version %d is decoded as %d", version, in.GetVersion())
		}
		again := in.AppendTo(nil)
		requireSame(t, version, in, again, trailing)
	})
}

// requireSame decodes an encoded request with trailing bytes and compares what it encodes to.
func requireSame(t *testing.T, version int16, in kmsg.Request, encoded, trailing []byte) {
	t.Helper()
	if len(encoded) > math.MaxInt32 {
		return
	}
	out := kmsg.RequestForKey(in.Key())
	size, err := DecodeBody(version, append(encoded[:len(encoded):len(encoded)], trailing...), out)
	if err != nil {
		t.Fatalf("%T version %d is refused with %d bytes after it: %v", in, version, len(trailing), err)
	}
	if size != len(encoded) || !bytes.Equal(encoded, out.AppendTo(nil)) {
		t.Fatalf("%T version %d: %d bytes are read as %d", in, version, len(encoded), size)
	}
}

// TestDecodeBody_AllocationsOfSmallElements decodes the costliest bodies: many small elements in every array, with tagged
// fields and without. In make nightly there are as many as a request may have, else an eighth.
func TestDecodeBody_AllocationsOfSmallElements(t *testing.T) {
	elements := MaxElements / 8
	if nightly.On() {
		elements = MaxElements
	}
	for _, e := range Table() {
		if e.By == ByNobody {
			continue
		}
		version := e.Served.Max
		for name, body := range crowded(e, version, elements) {
			_, err := DecodeBody(version, body, kmsg.RequestForKey(e.Key))
			require.NoError(t, err, "%s, %s", e.Name, name)
			requireBounded(t, version, body, func() kmsg.Request { return kmsg.RequestForKey(e.Key) })
		}
	}
}

// crowded returns bodies of an API with many small elements: one for each array, the same with an unknown tagged field in
// each element, and one of tagged fields alone. An array gets a sixteenth of elements, the tagged fields all.
func crowded(e Entry, version int16, elements int) map[string][]byte {
	bodies := make(map[string][]byte)
	for _, path := range arrays(reflect.TypeOf(kmsg.RequestForKey(e.Key)).Elem(), nil) {
		in := kmsg.RequestForKey(e.Key)
		in.SetVersion(version)
		v := reflect.ValueOf(in).Elem()
		for i, field := range path {
			v = v.FieldByName(field)
			n := 1
			if i == len(path)-1 {
				n = elements / 16 // a zero element may have tagged fields, which count too
			}
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			if i < len(path)-1 {
				v = v.Index(0)
			}
		}
		bodies[strings.Join(path, ".")] = in.AppendTo(nil)
		if v.Type().Elem().Kind() == reflect.Struct && e.IsFlexible(version) {
			for i := range v.Len() {
				v.Index(i).FieldByName("UnknownTags").Addr().Interface().(*kmsg.Tags).Set(100, nil)
			}
			bodies[strings.Join(path, ".")+", a tagged field each"] = in.AppendTo(nil)
		}
	}
	in := kmsg.RequestForKey(e.Key)
	in.SetVersion(version)
	if e.IsFlexible(version) {
		body := in.AppendTo(nil)
		body = binary.AppendUvarint(body[:len(body)-1], uint64(elements)) // the last byte is the number of tagged fields
		for tag := range uint64(elements) {
			body = append(binary.AppendUvarint(body, 1000+tag), 0)
		}
		bodies["tagged fields"] = body
	}
	return bodies
}

// arrays returns the names of the fields that lead to each array of a message, other than bytes.
func arrays(message reflect.Type, before []string) (paths [][]string) {
	for i := range message.NumField() {
		field := message.Field(i)
		if field.Type.Kind() != reflect.Slice || field.Type.Elem().Kind() == reflect.Uint8 {
			continue
		}
		path := append(slices.Clone(before), field.Name)
		paths = append(paths, path)
		if field.Type.Elem().Kind() == reflect.Struct {
			paths = append(paths, arrays(field.Type.Elem(), path)...)
		}
	}
	return paths
}
