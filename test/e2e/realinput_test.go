package e2e

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// realInputBytes is how much text the real-input tests move: some 600,000 lines.
const realInputBytes = 20 << 20

// TestRealInput_Dev moves the lines of the Go source tree through `freshet dev`: produced by kcat and consumed by
// Apache Kafka's console consumer, and the other way round.
func TestRealInput_Dev(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t)
	realInput(t, d.Bootstrap, d.Bootstrap)
}

// TestRealInput_Cluster does it on three agents, two control planes, three etcd members and an S3 server; what one
// agent took in another hands out.
func TestRealInput_Cluster(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{
		Agents: 3, ControlPlanes: 2, EtcdMembers: 3,
		// A producer with few small batches in flight moves one window per PUT; the server here does not charge for PUTs.
		AgentFlags: []string{"--put-budget", "100"},
	})
	realInput(t, c.Agents[0].Bootstrap, c.Agents[1].Bootstrap)
}

func realInput(t *testing.T, in, out string) {
	t.Helper()
	path := realText(t, realInputBytes)
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strconv.Itoa(countLines(want))
	harness.CLI(t, in, nil, "topic", "create", "from-kcat", "from-java", "from-freshet", "--partitions", "1")

	t.Run("kcat to Java", func(t *testing.T) {
		harness.Kcat(t, in, open(t, path), nil, "-P", "-t", "from-kcat", "-z", "lz4")
		equalText(t, want, javaConsume(t, out, "from-kcat", lines))
	})
	t.Run("Java to kcat", func(t *testing.T) {
		javaProduce(t, in, "from-java", path)
		var got bytes.Buffer
		harness.Kcat(t, out, nil, &got, "-C", "-t", "from-java", "-o", "beginning", "-e", "-f", "%s\n")
		equalText(t, want, got.Bytes())
	})
	t.Run("freshet to both", func(t *testing.T) {
		harness.CLI(t, in, open(t, path), "produce", "from-freshet", "-z", "zstd")
		equalText(t, want, []byte(harness.CLI(t, out, nil, "consume", "from-freshet", "--from", "earliest", "-e")))
		equalText(t, want, javaConsume(t, out, "from-freshet", lines))
	})
}

func javaProduce(t *testing.T, bootstrap, topic, path string) {
	t.Helper()
	harness.Java(t, open(t, path), nil, harness.ConsoleProducer, "--bootstrap-server", bootstrap, "--topic", topic)
}

// javaConsume reads partition 0 from its beginning with Apache Kafka's console consumer. Without a group: those come
// later.
func javaConsume(t *testing.T, bootstrap, topic, records string) []byte {
	t.Helper()
	var got bytes.Buffer
	harness.Java(t, nil, &got, harness.ConsoleConsumer, "--bootstrap-server", bootstrap, "--topic", topic,
		"--partition", "0", "--offset", "earliest", "--max-messages", records, "--timeout-ms", "60000")
	return []byte(strings.TrimSuffix(got.String(), "Processed a total of "+records+" messages\n"))
}
