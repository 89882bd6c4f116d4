package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// read closes its channel when its reader is at the end.
type read struct {
	io.Reader
	end chan struct{}
}

func (r read) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil {
		close(r.end)
	}
	return n, err
}

// TestProduce_CountsAfterErrors: records that still wait when the first error comes count as not acknowledged.
func TestProduce_CountsAfterErrors(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(2, "t"))
	require.NoError(t, err)
	defer cluster.Close()
	in := read{strings.NewReader(strings.Repeat(strings.Repeat("x", 100<<10)+"\n", 60)), make(chan struct{})}
	requests := 0
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if requests++; requests > 1 {
			return nil, nil, true // of the other broker: in flight when the first error comes
		}
		<-in.end
		return refused(req.(*kmsg.ProduceRequest), kerr.InvalidRecord), nil, true
	})
	var out, errs bytes.Buffer
	err = Produce(t.Context(), ProduceConfig{
		ClientConfig: ClientConfig{Bootstrap: cluster.ListenAddrs()}, Topic: "t", Idempotent: true, Partition: -1, Verbose: true,
	}, Streams{In: in, Out: &out, Err: &errs, Format: FormatJSON})
	require.ErrorIs(t, err, kerr.InvalidRecord)
	require.ErrorContains(t, err, "60 of 60 records not acknowledged")
	require.Equal(t, "0 records acknowledged, 60 failed\n", errs.String())
	require.JSONEq(t, `{"topic": "t", "acknowledged": 0, "failed": 60}`, out.String())
}

func TestProduce_CountsAfterUnreadableInput(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	require.NoError(t, err)
	defer cluster.Close()
	err = Produce(t.Context(), ProduceConfig{
		ClientConfig: ClientConfig{Bootstrap: cluster.ListenAddrs()}, Topic: "t", Idempotent: true, Partition: -1, MaxLine: 10,
	}, Streams{In: strings.NewReader("a\nb\n" + strings.Repeat("x", 20)), Out: io.Discard, Err: io.Discard})
	require.EqualError(t, err, "read line 3: longer than 10 bytes (--max-line); 2 records acknowledged")
}

// full is an output without space.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestConsume_CountsAfterErrors: records that the output did not take do not count.
func TestConsume_CountsAfterErrors(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	require.NoError(t, err)
	defer cluster.Close()
	client := ClientConfig{Bootstrap: cluster.ListenAddrs()}
	require.NoError(t, Produce(t.Context(), ProduceConfig{ClientConfig: client, Topic: "t", Idempotent: true, Partition: -1},
		Streams{In: strings.NewReader("a\nb\nc\n"), Out: io.Discard, Err: io.Discard}))
	var errs bytes.Buffer
	consume := ConsumeConfig{ClientConfig: client, Topic: "t", From: "earliest", Count: 3, Verbose: true}
	require.ErrorIs(t, Consume(t.Context(), consume, Streams{Out: full{}, Err: &errs}), errFull)
	require.Equal(t, "0 records\n", errs.String())
	errs.Reset()
	require.NoError(t, Consume(t.Context(), consume, Streams{Out: io.Discard, Err: &errs}))
	require.Equal(t, "3 records\n", errs.String())
}

// until cancels a context when a line with a text is written to it.
type until struct {
	bytes.Buffer
	text   string
	cancel context.CancelFunc
}

func (u *until) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(u.text)) {
		defer u.cancel()
	}
	return u.Buffer.Write(p)
}

func TestConsume_TellsWhatItWaitsFor(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "t"))
	require.NoError(t, err)
	defer cluster.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	errs := until{text: "no record", cancel: cancel} // on a slow machine, lines about silent agents come before
	consume := ConsumeConfig{ClientConfig: ClientConfig{Bootstrap: cluster.ListenAddrs(), patience: 20 * time.Millisecond}, Topic: "t"}
	require.NoError(t, Consume(ctx, consume, Streams{Out: io.Discard, Err: &errs}))
	require.Contains(t, errs.String(), "freshet: no record for 0.02 s: waiting for new records in 3 partitions of topic t; --from earliest reads stored records too\n")
}

// TestConsumer_TellWait: the line comes once, when the time is over, if no record came, with the event that is missing.
func TestConsumer_TellWait(t *testing.T) {
	begin := time.Unix(100, 0)
	tell := func(k consumer, after ...time.Duration) string {
		var out strings.Builder
		k.config.Topic, k.config.patience, k.began, k.errs, k.contact = "t", defaultPatience, begin, &out, &contact{}
		for _, d := range after {
			k.tellWait(begin.Add(d))
		}
		return strings.TrimPrefix(out.String(), "freshet: no record for 5 s: ")
	}
	require.Empty(t, tell(consumer{}, 4*time.Second))
	require.Empty(t, tell(consumer{written: 1}, 6*time.Second, 12*time.Second))
	group := ConsumeConfig{Group: "g"}
	for want, k := range map[string]consumer{
		"waiting for new records in 1 partition of topic t; --from earliest reads stored records too\n":                    {from: position{kind: atLatest}, reading: 1},
		"waiting for new records in 2 partitions of topic t\n":                                                             {from: position{kind: atOffset}, reading: 2},
		"waiting for group g to assign partitions of topic t\n":                                                            {config: group},
		"group g assigned this member no partition of topic t; other members have them\n":                                  {config: group, assigned: true},
		"waiting for new records in 2 partitions of topic t, after the offsets of group g\n":                               {config: group, assigned: true, reading: 2},
		"waiting for the end of 1 partition of topic t\n":                                                                  {config: ConsumeConfig{ExitAtEnd: true}, ends: ends{open: map[int32]*end{0: nil}}},
		"partition 0: broken, it is tried again\n":                                                                         {stall: stall{newest: errors.New("partition 0: broken")}},
		"waiting for new records in 2 partitions of topic t; records of open transactions come when these are committed\n": {config: ConsumeConfig{ReadCommitted: true}, reading: 2},
	} {
		require.Equal(t, want, tell(k, 5*time.Second, time.Minute))
	}
}

// TestConsume_NamesAServerThatEnded: a consumer that read records goes on when its server ends, and names the address and the cause.
func TestConsume_NamesAServerThatEnded(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	require.NoError(t, err)
	config := ClientConfig{Bootstrap: cluster.ListenAddrs(), patience: 200 * time.Millisecond}
	require.NoError(t, Produce(t.Context(), ProduceConfig{ClientConfig: config, Topic: "t", Partition: -1},
		Streams{In: strings.NewReader("a\n"), Out: io.Discard, Err: io.Discard}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, told := onWrite(cluster.Close), &bytes.Buffer{}
	errs := onWrite(cancel)
	require.NoError(t, Consume(ctx, ConsumeConfig{ClientConfig: config, Topic: "t", From: "earliest"}, Streams{Out: out, Err: io.MultiWriter(told, errs)}))
	require.Regexp(t, `^freshet: no answer from `+regexp.QuoteMeta(config.Bootstrap[0])+` for 0\.2 s; still trying: .*connection refused\n$`, told.String())
}

// onWrite calls a function with each write.
type onWrite func()

func (fn onWrite) Write(p []byte) (int, error) {
	fn()
	return len(p), nil
}
