package freshet

import (
	"context"
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func image(t *testing.T) string {
	t.Helper()
	name := os.Getenv("FRESHET_IMAGE")
	require.NotEmpty(t, name, "set FRESHET_IMAGE, as make contrib does")
	return name
}

// TestRun is the example of the README.
func TestRun(t *testing.T) {
	began := time.Now()
	c, err := Run(t.Context(), image(t), testcontainers.WithEnv(map[string]string{"FRESHET_DEFAULT_PARTITIONS": "3"}))
	require.NoError(t, err)
	testcontainers.CleanupContainer(t, c)
	t.Logf("ready after %s", time.Since(began).Round(time.Millisecond))
	exchange(t, c.BootstrapServers(), 3)
}

func TestRun_ReplacesATakenPort(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer l.Close()
	ports := []int{l.Addr().(*net.TCPAddr).Port}
	c, err := run(t.Context(), image(t), func(ctx context.Context) (int, error) {
		if len(ports) > 1 {
			return freePort(ctx)
		}
		ports = append(ports, 0)
		return ports[0], nil
	}, nil)
	require.NoError(t, err)
	testcontainers.CleanupContainer(t, c)
	require.NotContains(t, c.BootstrapServers(), strconv.Itoa(ports[0]))
	exchange(t, c.BootstrapServers(), 1)
}

func TestContainer_ReadsOverItsNetwork(t *testing.T) {
	shared, err := network.New(t.Context())
	require.NoError(t, err)
	testcontainers.CleanupNetwork(t, shared)
	broker, err := Run(t.Context(), image(t), network.WithNetwork(nil, shared))
	require.NoError(t, err)
	testcontainers.CleanupContainer(t, broker)
	exchange(t, broker.BootstrapServers(), 1)

	address, err := broker.NetworkBootstrapServers(t.Context())
	require.NoError(t, err)
	client, err := testcontainers.Run(t.Context(), image(t), network.WithNetwork(nil, shared),
		testcontainers.WithCmd("consume", "numbers", "--from", "earliest", "--exit-at-end", "-b", address),
		testcontainers.WithWaitStrategyAndDeadline(startTimeout, wait.ForExit()))
	testcontainers.CleanupContainer(t, client)
	require.NoError(t, err)
	logs, err := client.Logs(t.Context())
	require.NoError(t, err)
	printed, err := io.ReadAll(logs)
	require.NoError(t, err)
	require.Equal(t, "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", string(printed))
}

// exchange produces ten records with one key and consumes them from all partitions.
func exchange(t *testing.T, bootstrap string, partitions int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("numbers"), kgo.ConsumerGroup("readers"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	require.NoError(t, err)
	defer client.Close()
	for i := range 10 {
		record := kgo.Record{Topic: "numbers", Key: []byte("key"), Value: []byte(strconv.Itoa(i))}
		require.NoError(t, client.ProduceSync(ctx, &record).FirstErr())
	}
	got := ""
	for len(got) < 10 {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { got += string(r.Value) })
	}
	require.Equal(t, "0123456789", got)
	request, topic := kmsg.NewPtrMetadataRequest(), kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr("numbers")
	request.Topics = append(request.Topics, topic)
	metadata, err := request.RequestWith(ctx, client)
	require.NoError(t, err)
	require.Len(t, metadata.Topics[0].Partitions, partitions)
}
