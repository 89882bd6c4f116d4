package classic

import (
	"encoding/hex"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func someRecord() Record {
	return Record{
		StateMs: 1_700_000_000_123, Generation: 7, ProtocolType: "consumer", Protocol: "range", Leader: "a-1",
		Members: []Member{
			{
				ID: "a-1", ClientID: "a", ClientHost: "/10.0.0.1", RebalanceTimeout: 5 * time.Minute, SessionTimeout: 45 * time.Second,
				Protocols:  []Protocol{{Name: "range", Metadata: []byte{1, 2}}, {Name: "sticky", Metadata: []byte{}}},
				Assignment: []byte{3},
			},
			{
				ID: "i-2", Instance: kmsg.StringPtr("i"), RebalanceTimeout: 0, SessionTimeout: 6 * time.Second,
				Protocols: []Protocol{{Name: "range", Metadata: []byte{4}}}, Assignment: []byte{},
			},
		},
	}
}

// The bytes of version 1, kept for ever.
const goldenRecord = "01f6a1abfef962" + "07" + "08636f6e73756d6572" + "0572616e6765" + "03612d31" + "02" +
	"03612d31" + "00" + "0161" + "092f31302e302e302e31" + "e0a712" + "c8df02" + "02" + "0572616e6765" + "020102" +
	"06737469636b79" + "00" + "0103" +
	"03692d32" + "01" + "0169" + "00" + "00" + "00" + "f02e" + "01" + "0572616e6765" + "0104" + "00"

func TestRecord_Golden(t *testing.T) {
	r := someRecord()
	require.Equal(t, goldenRecord, hex.EncodeToString(AppendRecord(nil, &r)))
	golden, err := hex.DecodeString(goldenRecord)
	require.NoError(t, err)
	got, err := DecodeRecord(golden)
	require.NoError(t, err)
	require.Equal(t, r, got)
}

func TestRecord_RoundTrip(t *testing.T) {
	for name, r := range map[string]Record{"empty": {}, "no members": {StateMs: 5, Generation: 1<<31 - 1, ProtocolType: "connect"}} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeRecord(AppendRecord(nil, &r))
			require.NoError(t, err)
			require.Equal(t, r, got)
		})
	}
}

func TestDecodeRecord_Refuses(t *testing.T) {
	r := someRecord()
	good := AppendRecord(nil, &r)
	for n := range good {
		_, err := DecodeRecord(good[:n])
		require.ErrorIs(t, err, ErrMalformedRecord, "the first %d bytes", n)
	}
	twice, stranger := someRecord(), someRecord()
	twice.Members[1].ID = "a-1"
	stranger.Protocol = "sticky"
	other := append([]byte{2}, good[1:]...)
	flag := AppendRecord(nil, &Record{})
	flag[len(flag)-1] = 1
	flag = append(flag, 1, 'm', 2, 0, 0, 0, 0, 0, 0)
	for name, bad := range map[string][]byte{
		"more bytes":        append(append([]byte{}, good...), 0),
		"another version":   other,
		"a member twice":    AppendRecord(nil, &twice),
		"a stranger":        AppendRecord(nil, &stranger),
		"an unknown flag":   flag,
		"a long generation": {1, 0, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"a claim of many":   {1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f},
	} {
		_, err := DecodeRecord(bad)
		require.ErrorIs(t, err, ErrMalformedRecord, name)
	}
}

// FuzzDecodeRecord: whatever the bytes, decoding allocates no more than a multiple of them, and what decodes encodes to
// something that decodes to the same and can be restored.
func FuzzDecodeRecord(f *testing.F) {
	r := someRecord()
	f.Add(AppendRecord(nil, &r))
	f.Add(AppendRecord(nil, &Record{}))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 200, 1, strings.Repeat("x", 40)[0]})
	f.Fuzz(func(t *testing.T, p []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := DecodeRecord(p)
		runtime.ReadMemStats(&after)
		require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10+100*len(p)))
		if err != nil {
			require.ErrorIs(t, err, ErrMalformedRecord)
			return
		}
		again, err := DecodeRecord(AppendRecord(nil, &r))
		require.NoError(t, err)
		require.Equal(t, r, again)
		g := Restore("g", Config{NewMemberID: func(p string) string { return p }}, epoch, r)
		g.Describe()
		g.Expire(epoch.Add(24 * time.Hour))
	})
}
