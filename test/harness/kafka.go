package harness

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freshet-io/freshet/internal/testservers"
)

// Kafka is Apache Kafka itself, one node that is broker and controller, from its official jars: what Freshet is
// compared with.
type Kafka struct {
	*testservers.Process
	Bootstrap string // host:port
}

// StartKafka starts Apache Kafka with empty data and waits until it takes connections. Topics are not created by
// asking for them. Further lines of server.properties may follow.
func StartKafka(t testing.TB, properties ...string) *Kafka {
	t.Helper()
	jars, dir := Jars(t), t.TempDir()
	k := &Kafka{Bootstrap: address(t)}
	controller := address(t)
	config := filepath.Join(dir, "server.properties")
	lines := append([]string{
		"process.roles=broker,controller", "node.id=1",
		"controller.quorum.voters=1@" + controller, "controller.listener.names=CONTROLLER",
		"listeners=PLAINTEXT://" + k.Bootstrap + ",CONTROLLER://" + controller,
		"log.dirs=" + filepath.Join(dir, "data"), "auto.create.topics.enable=false",
		"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
	}, properties...)
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	Java(t, nil, nil, "kafka.tools.StorageTool", "format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAA", "--config", config)
	k.Process = testservers.NewProcess(t, "kafka", need(t, "java"), append(javaArgs(jars, "kafka.Kafka"), config), k.ready)
	k.Launch()
	k.AwaitReady()
	return k
}

// ready: the broker opens its listener when it has caught up with the controller.
func (k *Kafka) ready() error {
	conn, err := net.DialTimeout("tcp", k.Bootstrap, time.Second)
	if err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	return conn.Close()
}
