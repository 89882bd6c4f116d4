package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestParsePosition(t *testing.T) {
	for in, want := range map[string]position{
		"earliest": {kind: atEarliest}, "latest": {kind: atLatest}, "0": {kind: atOffset}, "17": {atOffset, 17},
		"@1700000000123": {atTime, 1700000000123}, "2026-01-31T12:00:00.5+01:00": {atTime, 1769857200500},
		"90m": {atTime, 1700000000000 - 90*60*1000},
	} {
		got, err := parsePosition(in, "--from", time.UnixMilli(1700000000000))
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "newest", "-1", "@", "@x", "2026-01-31", "-2h"} {
		_, err := parsePosition(in, "--to", time.Now())
		var usage *UsageError
		require.ErrorAs(t, err, &usage, in)
		require.ErrorContains(t, err, "--to")
	}
}

func TestEachLine(t *testing.T) {
	long := strings.Repeat("x", 600<<10) // longer than the reader's buffer
	var got []string
	err := eachLine(strings.NewReader("a\n\n"+long+"\r\nlast"), 1<<20, func(b []byte) error {
		got = append(got, string(b))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "", long + "\r", "last"}, got)

	err = eachLine(strings.NewReader("ok\n"+long), 1<<10, func([]byte) error { return nil })
	require.ErrorContains(t, err, "line 2: longer than 1024 bytes")

	stop := errors.New("stop")
	require.ErrorIs(t, eachLine(strings.NewReader("a\nb"), 10, func([]byte) error { return stop }), stop)
}

func TestProduceConfig_LineParser(t *testing.T) {
	c := ProduceConfig{Topic: "t", KeySeparator: "::", NullMarker: "NULL", Headers: []string{"h=1=2", "e="}, Partition: -1}
	parse, err := c.lineParser()
	require.NoError(t, err)

	r := parse([]byte("k::v::w"))
	require.Equal(t, "k", string(r.Key))
	require.Equal(t, "v::w", string(r.Value))
	require.Equal(t, []kgo.RecordHeader{{Key: "h", Value: []byte("1=2")}, {Key: "e", Value: []byte{}}}, r.Headers)

	r = parse([]byte("NULL::NULL"))
	require.Nil(t, r.Key)
	require.Nil(t, r.Value)

	r = parse([]byte("no separator"))
	require.Nil(t, r.Key)
	require.Equal(t, "no separator", string(r.Value))

	c.Headers = []string{"=x"}
	_, err = c.lineParser()
	require.ErrorContains(t, err, "name=value")
}

func TestProduceConfig_OptionsRefuseContradictions(t *testing.T) {
	for fault, c := range map[string]ProduceConfig{
		"--compression": {Compression: "brotli", Acks: "all"},
		"--acks":        {Compression: "none", Acks: "2"},
		"--idempotent":  {Compression: "none", Acks: "1", Idempotent: true},
	} {
		_, err := c.options()
		require.ErrorContains(t, err, fault)
	}
}

func TestConsumeConfig_FormatKeepsSeparatorLiteral(t *testing.T) {
	c := ConsumeConfig{PrintKey: true, KeySeparator: `%k\n`}
	c.ApplyDefaults()
	f, err := kgo.NewRecordFormatter(c.Format)
	require.NoError(t, err)
	require.Equal(t, `a%k\nb`+"\n", string(f.AppendRecord(nil, &kgo.Record{Key: []byte("a"), Value: []byte("b")})))
}

func TestExplain(t *testing.T) {
	require.ErrorContains(t, explain("t", kerr.UnknownTopicOrPartition), "freshet topic create t")
	require.ErrorIs(t, explain("t", kerr.MessageTooLarge), kerr.MessageTooLarge)
	require.NoError(t, explain("t", nil))
}

// What the cluster says of a refusal is told alone: the client's text for its code can be untrue of the case.
func TestAnswered(t *testing.T) {
	require.EqualError(t, answered("t", kerr.InvalidPartitions, "The topic t currently has 5 partition(s); 2 would not be an increase."),
		`topic "t": The topic t currently has 5 partition(s); 2 would not be an increase. (INVALID_PARTITIONS)`)
	require.EqualError(t, answered("t", kerr.TopicAlreadyExists, "Topic 't' already exists."), `topic "t" exists already`)
	require.ErrorIs(t, answered("t", kerr.InvalidConfig, ""), kerr.InvalidConfig)
	require.NoError(t, answered("t", nil, ""))
}

func TestDial_SaysWhatToDoWhenNothingListens(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := ClientConfig{Bootstrap: []string{"127.0.0.1:1"}, Timeout: time.Second, patience: 100 * time.Millisecond}
	for _, run := range []func(Streams) error{
		func(s Streams) error { return Consume(ctx, ConsumeConfig{ClientConfig: c, Topic: "t"}, s) },
		func(s Streams) error { return Produce(ctx, ProduceConfig{ClientConfig: c, Topic: "t"}, s) },
	} {
		var errs bytes.Buffer
		require.ErrorContains(t, run(Streams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, Err: &errs}), "nothing answers at 127.0.0.1:1: ")
		require.Contains(t, errs.String(), "freshet: no answer from 127.0.0.1:1 for 0.1 s; still trying: ")
		require.Contains(t, errs.String(), "connection refused\n")
	}
	c.patience = time.Minute // a connection that is refused late on a busy machine is no reason to say that the command waits
	errs := &bytes.Buffer{}
	require.ErrorContains(t, ListTopics(ctx, TopicConfig{ClientConfig: c}, Streams{Out: &bytes.Buffer{}, Err: errs}), "nothing answers at 127.0.0.1:1: ")
	require.Empty(t, errs.String(), "other commands end at once")
	c.Bootstrap = []string{defaultBootstrap}
	require.ErrorContains(t, c.unreachable(&net.OpError{Op: "dial", Err: errors.New("refused")}), "nothing answers at localhost:9092; start `freshet dev`")
}
