package kafkaproto

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
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
				size, err := CheckBody(e.Key, version, body)
				require.NoError(t, err, "%s version %d", e.Name, version)
				require.Len(t, body, size, "%s version %d", e.Name, version)
				requireDecoded(t, in, body)
				for _, trailing := range [][]byte{{0}, {0xff, 0xff, 0xff, 0xff, 0x0f}, make([]byte, 1000)} {
					requireDecoded(t, in, append(body[:len(body):len(body)], trailing...))
				}
				if len(body) > 0 {
					_, err := CheckBody(e.Key, version, body[:len(body)-1])
					require.ErrorIs(t, err, ErrMalformed)
				}
			}
		}
	}
}

// requireDecoded decodes a body, which may have bytes after its last field, and compares it with what was encoded.
func requireDecoded(t *testing.T, want kmsg.Request, body []byte) {
	t.Helper()
	got := kmsg.RequestForKey(want.Key())
	size, err := DecodeBody(want.GetVersion(), body, got)
	require.NoError(t, err, "%T version %d", want, want.GetVersion())
	require.True(t, bytes.Equal(body[:size], got.AppendTo(nil)), "%T version %d", want, want.GetVersion())
	require.True(t, bytes.Equal(want.AppendTo(nil), got.AppendTo(nil)), "%T version %d", want, want.GetVersion())
}

// TestCheckBody_LibrdkafkaMetadata is the Metadata request for all topics of librdkafka 2.3 to 2.16: one byte follows
// the tagged fields.
func TestCheckBody_LibrdkafkaMetadata(t *testing.T) {
	body := []byte{0, 0, 0, 0, 0}
	size, err := CheckBody(KeyMetadata, 12, body)
	require.NoError(t, err)
	require.Equal(t, 4, size)
	in := kmsg.NewPtrMetadataRequest()
	_, err = DecodeBody(12, body, in)
	require.NoError(t, err)
	require.Nil(t, in.Topics)
}

func TestCheckBody_StringsAtTheBound(t *testing.T) {
	in := kmsg.NewPtrHeartbeatRequest()
	in.SetVersion(4)
	in.Group = strings.Repeat("g", MaxString)
	_, err := CheckBody(12, 4, in.AppendTo(nil))
	require.NoError(t, err)
	in.Group += "g"
	_, err = CheckBody(12, 4, in.AppendTo(nil))
	require.ErrorIs(t, err, ErrMalformed)
}

func TestCheckBody_ElementsAtTheBound(t *testing.T) {
	in := kmsg.NewPtrDeleteGroupsRequest()
	in.SetVersion(2)
	in.Groups = make([]string, MaxElements)
	_, err := CheckBody(42, 2, in.AppendTo(nil))
	require.NoError(t, err)
	in.Groups = append(in.Groups, "")
	_, err = CheckBody(42, 2, in.AppendTo(nil))
	require.ErrorIs(t, err, ErrMalformed)
}

// TestCheckBody_TaggedStructs sends a Fetch of some bytes whose ReplicaState, a struct in a tagged field, claims 2^32-1
// tagged fields of its own. A decoder would count to there.
func TestCheckBody_TaggedStructs(t *testing.T) {
	in := kmsg.NewPtrFetchRequest()
	in.SetVersion(18)
	body := in.AppendTo(nil)
	state := make([]byte, 12)
	for _, test := range []struct {
		name  string
		inner []byte
		fault bool
	}{
		{"no tagged fields", []byte{0}, false},
		{"an unknown tagged field", []byte{1, 7, 1, 0xab}, false},
		{"a count beyond the field", []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, true},
		{"a byte too many", []byte{0, 0}, true},
		{"cut", nil, true},
	} {
		tag := append([]byte{1, 1, byte(len(state) + len(test.inner))}, state...)
		whole := append(append(body[:len(body)-1:len(body)-1], tag...), test.inner...)
		_, err := DecodeBody(18, whole, kmsg.NewPtrFetchRequest())
		require.Equal(t, test.fault, err != nil, "%s: %v", test.name, err)
	}
}

func TestCheckBody_Presence(t *testing.T) {
	for presence, fault := range map[byte]bool{0xff: false, 0xfe: true, 0x80: true} {
		_, err := CheckBody(75, 0, []byte{1, 0, 0, 0, 0, presence, 0})
		require.Equal(t, fault, err != nil, "presence %#x", presence)
	}
}

func TestCheckBody_ServedAPIsHaveSchemas(t *testing.T) {
	for _, e := range Table() {
		_, ok := schemas[e.Key]
		require.Equal(t, e.By != ByNobody, ok, e.Name)
	}
	_, err := CheckBody(11, 0, nil)
	require.ErrorIs(t, err, ErrMalformed)
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
			_, err := DecodeBody(test.version, test.body, in)
			runtime.ReadMemStats(&after)
			require.ErrorIs(t, err, ErrMalformed)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10))
		})
	}
}
