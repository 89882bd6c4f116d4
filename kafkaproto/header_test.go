package kafkaproto

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestHeader_AgreesWithKmsg: request headers of every version are read as kmsg writes them.
func TestHeader_AgreesWithKmsg(t *testing.T) {
	for _, client := range []string{"", "some client"} {
		formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID(client))
		for _, e := range Table() {
			for version := e.Served.Min; version <= e.Served.Max; version++ {
				in := kmsg.RequestForKey(e.Key)
				in.SetVersion(version)
				p := formatter.AppendRequest(nil, in, 42)
				prefix := ParsePrefix([PrefixSize]byte(p))
				require.Equal(t, Prefix{Size: int32(len(p) - 4), Key: e.Key, Version: version}, prefix)
				h, body, err := ParseHeader(e.Key, version, p[PrefixSize:])
				require.NoError(t, err)
				require.EqualValues(t, 42, h.CorrelationID)
				require.Equal(t, client, string(h.ClientID))
				require.Equal(t, in.AppendTo(nil), append([]byte(nil), body...), "%s version %d", e.Name, version)
				require.Equal(t, in.IsFlexible(), e.IsFlexible(version))
			}
		}
	}
}

func TestTable(t *testing.T) {
	for key, e := range Table() {
		require.EqualValues(t, key, e.Key)
		require.Equal(t, e.By == ByNobody, e.Served.Empty(), e.Name)
		if e.By == ByNobody {
			require.NotEmpty(t, e.Note, "%s: say why it is not served", e.Name)
			continue
		}
		in := kmsg.RequestForKey(e.Key)
		require.LessOrEqual(t, e.Served.Max, in.MaxVersion(), "%s: kmsg knows less", e.Name)
		require.LessOrEqual(t, e.Served.Max, e.Kafka.Max, e.Name)
		require.GreaterOrEqual(t, e.Served.Min, e.Kafka.Min, e.Name)
		if e.Served != e.Kafka {
			require.NotEmpty(t, e.Note, "%s: say why it differs", e.Name)
		}
		for version := e.Kafka.Min; version <= e.Kafka.Max; version++ {
			in.SetVersion(version)
			require.Equal(t, in.IsFlexible(), e.IsFlexible(version), "%s version %d", e.Name, version)
		}
	}
	require.False(t, Serves(-1, 0))
	require.False(t, Serves(MaxKey+1, 0))
	require.False(t, Serves(KeyProduce, 2))
	require.True(t, Serves(KeyProduce, 3))
}

// FuzzFrame: no bytes make the header parser panic, and the body is part of the frame.
func FuzzFrame(f *testing.F) {
	f.Add(int16(3), int16(9), []byte{0, 0, 0, 1, 0, 2, 'm', 'e', 0, 1, 2, 3})
	f.Add(int16(0), int16(3), []byte{0, 0, 0, 1, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, key, version int16, p []byte) {
		h, body, err := ParseHeader(key, version, p)
		if err != nil {
			return
		}
		if len(body)+len(h.ClientID) > len(p) {
			t.Fatal("more than the frame")
		}
	})
}
