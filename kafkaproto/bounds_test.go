package kafkaproto

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fill sets every field of a message to something, so that all of them are on the wire.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() && r.IntN(4) == 0 {
			return // null
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem())
	case reflect.Struct:
		if _, ok := v.Addr().Interface().(*kmsg.Tags); ok {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Name != "Version" {
				fill(r, v.Field(i))
			}
		}
	case reflect.Slice:
		n := r.IntN(4)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			n = r.IntN(300)
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(r, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.String:
		v.SetString(string(make([]byte, r.IntN(200))))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(int8(r.Uint32())))
	case reflect.Uint8:
		v.SetUint(uint64(uint8(r.Uint32())))
	case reflect.Float64:
		v.SetFloat(r.NormFloat64())
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	default:
		panic("messages have no " + v.Kind().String())
	}
}

// TestCheckBody_TakesWhatIsEncoded: the schemas agree with kmsg for every version that is served, byte for byte.
func TestCheckBody_TakesWhatIsEncoded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, e := range Table() {
		if e.By == ByNobody {
			continue
		}
		for version := e.Served.Min; version <= e.Served.Max; version++ {
			for range 15 {
				in := kmsg.RequestForKey(e.Key)
				fill(r, reflect.ValueOf(in).Elem())
				in.SetVersion(version)
				body := in.AppendTo(nil)
				require.NoError(t, CheckBody(e.Key, version, body), "%s version %d", e.Name, version)
				require.NoError(t, DecodeBody(version, body, kmsg.RequestForKey(e.Key)), "%s version %d", e.Name, version)
				require.ErrorIs(t, CheckBody(e.Key, version, append(body, 0)), ErrMalformed)
				if len(body) > 0 {
					require.ErrorIs(t, CheckBody(e.Key, version, body[:len(body)-1]), ErrMalformed)
				}
			}
		}
	}
}

func TestCheckBody_ServedAPIsHaveSchemas(t *testing.T) {
	for _, e := range Table() {
		_, ok := schemas[e.Key]
		require.Equal(t, e.By != ByNobody, ok, e.Name)
	}
	require.ErrorIs(t, CheckBody(11, 0, nil), ErrMalformed)
}

func TestCheckBody_ClaimsAllocateNothing(t *testing.T) {
	huge := binary.BigEndian.AppendUint32(nil, 1<<30)
	bodies := map[string]struct {
		key, version int16
		body         []byte
	}{
		"count beyond the body":  {3, 1, huge},
		"compact count":          {3, 9, []byte{0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0, 0}},
		"too many empty topics":  {0, 9, append([]byte{0, 0, 0, 0, 0, 0, 0, 0x81, 0x80, 0x80, 0x02}, make([]byte, 16<<20)...)},
		"string beyond the body": {18, 3, []byte{0xff, 0xff, 0x03, 'x'}},
		"tag count":              {18, 3, []byte{2, 'a', 2, 'b', 0xff, 0xff, 0x7f}},
		"tag size":               {18, 3, []byte{2, 'a', 2, 'b', 1, 0, 0xff, 0xff, 0x7f}},
		"endless varint":         {18, 3, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
	}
	for name, test := range bodies {
		t.Run(name, func(t *testing.T) {
			in := kmsg.RequestForKey(test.key)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := DecodeBody(test.version, test.body, in)
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, ErrMalformed)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10))
		})
	}
}

// FuzzDecodeBody: no bytes make the decoder panic, and what CheckBody takes decodes.
func FuzzDecodeBody(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, e := range Table() {
		if e.By == ByNobody {
			continue
		}
		for version := e.Served.Min; version <= e.Served.Max; version++ {
			in := kmsg.RequestForKey(e.Key)
			fill(r, reflect.ValueOf(in).Elem())
			in.SetVersion(version)
			f.Add(e.Key, version, in.AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		if !Serves(key, version) {
			return
		}
		in := kmsg.RequestForKey(key)
		checked := CheckBody(key, version, body)
		err := DecodeBody(version, body, in)
		if checked != nil && err == nil {
			t.Fatalf("decoded in spite of %v", checked)
		}
		if err == nil {
			in.AppendTo(nil)
		}
	})
}
