package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestAppendJSON(t *testing.T) {
	at := time.UnixMilli(1700000000123)
	for want, r := range map[string]kgo.Record{
		`{"topic":"t","partition":2,"offset":7,"timestamp":1700000000123,"key":null,"value":"a\nb"}`: {
			Topic: "t", Partition: 2, Offset: 7, Timestamp: at, Value: []byte("a\nb"),
		},
		`{"topic":"t","partition":0,"offset":0,"timestamp":1700000000123,"key":"","value":null,"value_base64":"/w==","headers":[{"key":"h","value":"x"},{"key":"n","value":null}]}`: {
			Topic: "t", Timestamp: at, Key: []byte{}, Value: []byte{0xff}, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}, {Key: "n"}},
		},
	} {
		line, err := appendJSON([]byte("before "), &r)
		require.NoError(t, err)
		require.Equal(t, "before "+want+"\n", string(line))
	}
}
