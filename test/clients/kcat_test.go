package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// TestKcat: what kcat can say is read by all families, and what they write is read by kcat. kcat takes text, keys by a
// delimiter, empty for null, and the same headers for every record; it cannot set timestamps.
func TestKcat(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t)
	all := families(t)
	mustCreate(t, all["franz-go"], job{Bootstrap: dev.Bootstrap, Topic: "kcat", Partitions: int32(len(codecs))})
	for p, codec := range codecs {
		in := "key=value\n=no key\nno value=\n=\nlong=" + strings.Repeat("x", 100_000) + "\n"
		harness.Kcat(t, dev.Bootstrap, strings.NewReader(in), nil, "-P", "-t", "kcat", "-p", fmt.Sprint(p), "-z", codec,
			"-K", "=", "-Z", "-H", "a=1", "-H", "b=", "-H", "null", "-X", "enable.idempotence="+fmt.Sprint(p%2 == 0))
	}
	headers := []header{{"a", []byte("1")}, {"b", []byte{}}, {"null", nil}}
	want := []record{
		{Key: []byte("key"), Value: []byte("value")},
		{Value: []byte("no key")},
		{Key: []byte("no value")},
		{},
		{Key: []byte("long"), Value: bytes.Repeat([]byte("x"), 100_000)},
	}
	for name, f := range all {
		t.Run("read by "+name, func(t *testing.T) {
			for p := range codecs {
				got := mustConsume(t, f, job{Bootstrap: dev.Bootstrap, Topic: "kcat", Partition: int32(p), From: "earliest", Count: len(want)})
				for i := range got {
					require.NotZero(t, got[i].Timestamp)
					w := want[i]
					w.Partition, w.Offset, w.Timestamp, w.Headers = int32(p), int64(i), got[i].Timestamp, headers
					require.Equal(t, w, got[i], "%s, record %d", codecs[p], i)
				}
			}
		})
	}
	t.Run("reads what they write", func(t *testing.T) {
		for name, f := range all {
			var records []record
			for _, r := range sample(0, baseTime()) {
				if !bytes.Contains(r.Value, []byte{0xff}) && len(r.Headers) == 0 { // what JSON can hold
					records = append(records, r)
				}
			}
			j := job{Bootstrap: dev.Bootstrap, Topic: "for-kcat-" + name, Partitions: 1, Codec: "zstd", Acks: "all", Records: records}
			mustCreate(t, f, j)
			mustProduce(t, f, j)
			same(t, records, kcatRead(t, j), "%s, read by kcat", name)
			j.At = records[20].Timestamp
			first := after(numbered(records), j.At)
			got := kcatRead(t, j, "-o", fmt.Sprint("s@", j.At), "-c", "1")
			require.Equal(t, first, offset{got[0].Offset, got[0].Timestamp}, "from a timestamp")
			require.Equal(t, int64(len(records)-3), kcatRead(t, j, "-o", "-3")[0].Offset, "the last three")
			require.Equal(t, int64(7), kcatRead(t, j, "-o", "7")[0].Offset)
		}
	})
	t.Run("lists", func(t *testing.T) {
		var out bytes.Buffer
		harness.Kcat(t, dev.Bootstrap, nil, &out, "-L", "-J")
		var listed struct{ Topics []struct{ Topic string } }
		require.NoError(t, json.Unmarshal(out.Bytes(), &listed))
		require.Len(t, listed.Topics, 1+len(all), "and no internal topic, since there is no group")
		out.Reset()
		harness.Kcat(t, dev.Bootstrap, nil, &out, "-Q", "-t", "kcat:1:-1", "-t", "kcat:2:-2")
		require.Equal(t, []string{"kcat [1] offset 5", "kcat [2] offset 0"}, sortedLines(out.String()))
	})
}

func numbered(records []record) []record {
	for i := range records {
		records[i].Offset = int64(i)
	}
	return records
}

// kcatRead reads partition 0 by kcat's JSON, from the beginning unless told otherwise. Headers are left out.
func kcatRead(t *testing.T, j job, from ...string) []record {
	t.Helper()
	if len(from) == 0 {
		from = []string{"-o", "beginning"}
		numbered(j.Records)
	}
	var out bytes.Buffer
	harness.Kcat(t, j.Bootstrap, nil, &out, append([]string{"-C", "-t", j.Topic, "-p", "0", "-e", "-J"}, from...)...)
	var records []record
	decoder := json.NewDecoder(&out)
	for decoder.More() {
		var m struct {
			Partition int32
			Offset    int64
			TsType    string
			Ts        int64
			Key       *string
			Payload   *string
		}
		require.NoError(t, decoder.Decode(&m))
		records = append(records, record{
			Partition: m.Partition, Offset: m.Offset, Timestamp: m.Ts, LogAppend: m.TsType != "create", Key: text(m.Key), Value: text(m.Payload),
		})
	}
	return records
}

func text(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte(*s)
}
