package javaconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

const bootstrap = "bootstrap.servers=a:1,b:2\n"

// made gives a client with the options; none of them connects.
func made(t *testing.T, opts []kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func parsed(t *testing.T, text string) Properties {
	t.Helper()
	p, err := Parse(bootstrap + text)
	require.NoError(t, err)
	return p
}

func TestParse_AsJavaDoes(t *testing.T) {
	p, err := Parse("# comment\n! and this\nlinger.ms = 5\nacks:all\n client.id  a\\\n   b \nname=${user.home}\nempty=\n")
	require.NoError(t, err)
	require.Equal(t, Properties{
		"linger.ms": "5", "acks": "all", "client.id": "ab ", "name": "${user.home}", "empty": "",
	}, p)
}

func TestParseList(t *testing.T) {
	p, err := ParseList([]string{"acks=all", "sasl.jaas.config=a=b"})
	require.NoError(t, err)
	require.Equal(t, Properties{"acks": "all", "sasl.jaas.config": "a=b"}, p)
	_, err = ParseList([]string{"acks"})
	require.ErrorIs(t, err, ErrProperty)
	require.ErrorContains(t, err, `"acks" is not of the form name=value`)
}

func TestProducer_DefaultsAreJavas(t *testing.T) {
	c, err := Producer(parsed(t, ""), 1024)
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	client := made(t, c.Options)
	for name, want := range map[string]struct{ option, value any }{
		"bootstrap":        {kgo.SeedBrokers, []string{"a:1", "b:2"}},
		"linger.ms":        {kgo.ProducerLinger, time.Duration(0)},
		"buffer.memory":    {kgo.MaxBufferedBytes, int64(32 << 20)},
		"max.request.size": {kgo.BrokerMaxWriteBytes, int32(1 << 20)},
		"acks":             {kgo.RequiredAcks, kgo.AllISRAcks()},
		"idempotence":      {kgo.DisableIdempotentWrite, false},
		"delivery.timeout": {kgo.RecordDeliveryTimeout, 2 * time.Minute},
		"metadata.max.age": {kgo.MetadataMaxAge, 5 * time.Minute},
	} {
		require.Equal(t, want.value, client.OptValue(want.option), name)
	}
	require.Equal(t, int32(16384), batchBytes(client))
}

func batchBytes(client *kgo.Client) int32 {
	return client.OptValue(kgo.ProducerBatchMaxBytes).(int32)
}

// The driver of WarpStream's public benchmark, and a batch size of zero as AutoMQ's uses it.
func TestProducer_PublishedDrivers(t *testing.T) {
	c, err := Producer(parsed(t, "linger.ms=25\nbatch.size=100000\nbuffer.memory=128000000\nmax.request.size=64000000\ncompression.type=lz4\n"+
		"key.serializer=org.apache.kafka.common.serialization.StringSerializer\n"), 1024)
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	client := made(t, c.Options)
	require.Equal(t, 25*time.Millisecond, client.OptValue(kgo.ProducerLinger))
	require.Equal(t, int32(100000), batchBytes(client))
	require.Equal(t, int64(128000000), client.OptValue(kgo.MaxBufferedBytes))
	require.Equal(t, int32(64000000), client.OptValue(kgo.BrokerMaxWriteBytes))
	require.Equal(t, []kgo.CompressionCodec{kgo.Lz4Compression()}, client.OptValue(kgo.ProducerBatchCompression))

	c, err = Producer(parsed(t, "batch.size=0\n"), 65536)
	require.NoError(t, err)
	client = made(t, c.Options)
	require.Equal(t, int32(65536+batchOverhead), batchBytes(client), "one record fits, two do not")
}

func TestProducer_Reliability(t *testing.T) {
	c, err := Producer(parsed(t, "acks=1\nmax.in.flight.requests.per.connection=7\nretries=3\nrequest.timeout.ms=1500\ndelivery.timeout.ms=4000"), 10)
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	client := made(t, c.Options)
	require.Equal(t, kgo.LeaderAck(), client.OptValue(kgo.RequiredAcks))
	require.Equal(t, true, client.OptValue(kgo.DisableIdempotentWrite))
	require.Equal(t, 7, client.OptValue(kgo.MaxProduceRequestsInflightPerBroker))
	require.Equal(t, int64(3), client.OptValue(kgo.RecordRetries))
	require.Equal(t, 1500*time.Millisecond, client.OptValue(kgo.ProduceRequestTimeout))
	require.Equal(t, 4*time.Second, client.OptValue(kgo.RecordDeliveryTimeout))

	c, err = Producer(parsed(t, "enable.idempotence=true\nmax.in.flight.requests.per.connection=1"), 10)
	require.NoError(t, err)
	require.Len(t, c.Warnings, 1)
	require.Contains(t, c.Warnings[0], "max.in.flight.requests.per.connection=1: with idempotence")
	made(t, c.Options)
}

func TestConsumer_DefaultsAreJavas(t *testing.T) {
	c, err := Consumer(parsed(t, ""))
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	require.True(t, c.AutoCommit)
	require.Zero(t, c.MaxPollRecords)
	client := made(t, append(c.Options, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t")))
	for name, want := range map[string]struct{ option, value any }{
		"fetch.max.wait":            {kgo.FetchMaxWait, 500 * time.Millisecond},
		"fetch.max.bytes":           {kgo.FetchMaxBytes, int32(50 << 20)},
		"max.partition.fetch.bytes": {kgo.FetchMaxPartitionBytes, int32(1 << 20)},
		"auto.offset.reset":         {kgo.ConsumeStartOffset, kgo.NewOffset().AtEnd()},
		"session.timeout":           {kgo.SessionTimeout, 45 * time.Second},
		"max.poll.interval":         {kgo.RebalanceTimeout, 5 * time.Minute},
		"auto.commit.interval":      {kgo.AutoCommitInterval, 5 * time.Second},
	} {
		require.Equal(t, want.value, client.OptValue(want.option), name)
	}
}

func TestConsumer_WhatIsGiven(t *testing.T) {
	c, err := Consumer(parsed(t, `auto.offset.reset=earliest
enable.auto.commit=false
max.partition.fetch.bytes=100485760
fetch.max.bytes=100485760
fetch.max.wait.ms=1000
fetch.min.bytes=7
isolation.level=read_committed
client.rack=zone-a
client.id=me
group.instance.id=one
max.poll.records=9
partition.assignment.strategy=org.apache.kafka.clients.consumer.StickyAssignor
metadata.max.age.ms=1000
group.protocol=consumer
`))
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	require.False(t, c.AutoCommit)
	require.Equal(t, 9, c.MaxPollRecords)
	client := made(t, append(c.Options, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t")))
	for name, want := range map[string]struct{ option, value any }{
		"fetch.max.wait":  {kgo.FetchMaxWait, time.Second},
		"fetch.max.bytes": {kgo.FetchMaxBytes, int32(100485760)},
		"per partition":   {kgo.FetchMaxPartitionBytes, int32(100485760)},
		"fetch.min.bytes": {kgo.FetchMinBytes, int32(7)},
		"reset":           {kgo.ConsumeResetOffset, kgo.NewOffset().AtStart()},
		"isolation":       {kgo.FetchIsolationLevel, int8(1)},
		"rack":            {kgo.Rack, "zone-a"},
		"client.id":       {kgo.ClientID, "me"},
		"instance":        {kgo.InstanceID, "one"},
		"metadata":        {kgo.MetadataMaxAge, time.Second},
		"protocol":        {kgo.ServerSideBalancer, true},
		"auto commit":     {kgo.DisableAutoCommit, true},
	} {
		require.Equal(t, want.value, client.OptValue(want.option), name)
	}
}

func TestUnmappedPropertiesAreNamed(t *testing.T) {
	p := parsed(t, "max.block.ms=1\nlinger.ms=1\nfetch.min.bytes=1\nno.such=1\nvalue.serializer=x\n")
	for name, warnings := range map[string]func() ([]string, error){
		"producer": func() ([]string, error) { c, err := Producer(p, 1); return c.Warnings, err },
		"consumer": func() ([]string, error) { c, err := Consumer(p); return c.Warnings, err },
		"admin":    func() ([]string, error) { c, err := Admin(p); return c.Warnings, err },
	} {
		t.Run(name, func(t *testing.T) {
			got, err := warnings()
			require.NoError(t, err)
			require.Equal(t, []string{
				"max.block.ms has no counterpart in this client and is ignored",
				"no.such has no counterpart in this client and is ignored",
			}, got)
		})
	}
}

func TestValuesThatOnlyJavaAllowsAreTakenToTheNearest(t *testing.T) {
	c, err := Consumer(parsed(t, "fetch.max.wait.ms=1\nfetch.max.bytes=2147483647"))
	require.NoError(t, err)
	require.Equal(t, []string{
		"fetch.max.bytes=2147483647 is taken as 1072693248, the nearest this client allows",
		"fetch.max.wait.ms=1 is taken as 10, the nearest this client allows",
	}, c.Warnings)
	made(t, append(c.Options, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t")))
}

func TestWarningsAreSaidOnce(t *testing.T) {
	c, err := Producer(parsed(t, "request.timeout.ms=1200000"), 1)
	require.NoError(t, err)
	require.Equal(t, []string{"request.timeout.ms=1200000 is taken as 900000, the nearest this client allows"}, c.Warnings)
}

func TestBadValuesAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		"linger.ms=x":                     "linger.ms=x: allowed is a whole number of 0 to",
		"batch.size=-1":                   "batch.size=-1: allowed is a whole number of 0 to",
		"acks=2":                          "acks=2: allowed are all, -1, 1, 0",
		"enable.idempotence=yes":          "enable.idempotence=yes: allowed are true and false",
		"enable.idempotence=true\nacks=1": "enable.idempotence=true: needs acks=all",
		"compression.type=brotli":         "compression.type=brotli: allowed are none, gzip, snappy, lz4, zstd",
		"compression.gzip.level=10":       "compression.gzip.level=10: allowed is a whole number of -1 to 9",
		"partitioner.class=my.Own":        "partitioner.class=my.Own: allowed are",
		"security.protocol=TLS":           "security.protocol=TLS: allowed are plaintext, ssl",
		"security.protocol=SSL\nssl.truststore.location=/x.jks": "ssl.truststore.type=: only stores of type PEM",
		"security.protocol=SASL_SSL":                            "sasl.jaas.config: username",
		"security.protocol=SASL_SSL\nsasl.jaas.config=a username=\"u\" password=\"p\";\nsasl.mechanism=GSSAPI": "sasl.mechanism=GSSAPI: allowed are PLAIN",
	} {
		_, err := Producer(parsed(t, text), 1)
		require.ErrorIs(t, err, ErrProperty, text)
		require.ErrorContains(t, err, want, text)
	}
	for text, want := range map[string]string{
		"auto.offset.reset=first":            "allowed are latest, earliest, none",
		"heartbeat.interval.ms=50000":        "must be below session.timeout.ms, 45000",
		"partition.assignment.strategy=Mine": "allowed are RangeAssignor",
		"group.protocol=share":               "allowed are classic, consumer",
	} {
		_, err := Consumer(parsed(t, text))
		require.ErrorContains(t, err, want, text)
	}
	_, err := Admin(Properties{})
	require.ErrorContains(t, err, "bootstrap.servers=: at least one host:port is needed")
}

func TestSecurity(t *testing.T) {
	c, err := Admin(parsed(t, "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"+
		`sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="al" password="p=;";`+"\n"))
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	made(t, c.Options)
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, []byte("nothing"), 0o600))
	_, err = Admin(parsed(t, "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location="+file))
	require.ErrorContains(t, err, "no certificate in PEM is there")
	_, err = Admin(parsed(t, "security.protocol=SSL\nssl.key.password=hidden"))
	require.Error(t, err)
	require.False(t, strings.Contains(err.Error(), "hidden"), "secrets are not shown")
}
