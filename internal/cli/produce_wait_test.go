package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestWaiting_Note(t *testing.T) {
	w := waiting{topic: "t", at: "host:9092", patience: 10 * time.Second}
	begin := time.UnixMilli(0)
	at := func(seconds, acked int, records int64) string {
		return w.note(begin.Add(time.Duration(seconds)*time.Second), acked, records)
	}
	require.Empty(t, at(0, 0, 0), "nothing to send")
	require.Empty(t, at(100, 0, 5), "records begin to wait")
	require.Equal(t, kgo.LogLevelNone, w.Level())
	require.Empty(t, at(109, 0, 5))
	require.Equal(t, kgo.LogLevelDebug, w.Level())
	require.Empty(t, at(119, 0, 5), "no reason yet")
	require.Equal(t, "no record was acknowledged for 20 s (5 records in flight); still trying: no answer came from host:9092", at(120, 0, 5))
	w.Log(kgo.LogLevelDebug, "produced", "broker", "0", "to", "t[0{retrying@0,5(KAFKA_STORAGE_ERROR: Disk error.)}]")
	require.Equal(t, `no record was acknowledged for 21 s (1 record in flight); still trying: `+
		`an agent cannot store records of topic "t" in the object store; its log names the cause`, at(121, 0, 1))
	require.Empty(t, at(150, 0, 1))
	w.Log(kgo.LogLevelWarn, "unable to open connection", "err", errors.New("connection refused"))
	w.Log(kgo.LogLevelDebug, "canceled", "err", context.Canceled)
	require.Contains(t, at(180, 0, 1), "still trying: connection refused")
	require.Equal(t, "records are acknowledged again", at(181, 1, 1))
	require.Equal(t, kgo.LogLevelNone, w.Level())
	require.Empty(t, at(182, 2, 1))
	require.Empty(t, at(300, 2, 0))
	require.Empty(t, at(400, 2, 1))
}

// lines is a writer that can be read meanwhile.
type lines struct {
	mu    sync.Mutex
	all   bytes.Buffer
	again chan struct{} // closed when it is written that records are acknowledged again
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if bytes.Contains(p, []byte("again")) {
		close(l.again)
	}
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// refused is the answer to a produce request whose partitions all have an error.
func refused(r *kmsg.ProduceRequest, err *kerr.Error) *kmsg.ProduceResponse {
	answer := r.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range r.Topics {
		a := kmsg.NewProduceResponseTopic()
		a.Topic, a.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.ErrorCode = partition.Partition, err.Code
			a.Partitions = append(a.Partitions, p)
		}
		answer.Topics = append(answer.Topics, a)
	}
	return answer
}

// TestProduce_SaysWhyItWaits: while the cluster refuses records retriably, the command names the reason, and then that it goes on.
func TestProduce_SaysWhyItWaits(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	require.NoError(t, err)
	defer cluster.Close()
	out := lines{again: make(chan struct{})}
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if strings.Contains(out.String(), "cannot store records") {
			return nil, nil, false
		}
		return refused(req.(*kmsg.ProduceRequest), kerr.KafkaStorageError), nil, true
	})
	in, feed := io.Pipe()
	go func() {
		_, _ = feed.Write([]byte("one\n"))
		select { // the input stays open until the command has said that it goes on
		case <-out.again:
		case <-time.After(time.Minute):
		}
		_ = feed.Close()
	}()
	err = Produce(t.Context(), ProduceConfig{
		ClientConfig: ClientConfig{Bootstrap: cluster.ListenAddrs(), patience: time.Second}, Topic: "t", Idempotent: true,
		Partition: -1,
	}, Streams{In: in, Out: io.Discard, Err: &out})
	require.NoError(t, err)
	require.Contains(t, out.String(), `still trying: an agent cannot store records of topic "t"`)
	require.Contains(t, out.String(), "records are acknowledged again")
}
