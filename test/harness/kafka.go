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

// Kafka is Apache Kafka from its official jars, one node that is broker and controller. Tests compare Freshet with it.
type Kafka struct {
	*testservers.Process
	Bootstrap string // host:port
	LogDir    string
}

// StartKafka starts Apache Kafka in KafkaVersion with empty data and waits until it takes connections. Metadata requests
// do not create topics. Further lines of server.properties may follow.
func StartKafka(t testing.TB, properties ...string) *Kafka {
	t.Helper()
	return startKafka(t, newJava(t), properties...)
}

// StartPreviousKafka is StartKafka in PreviousKafka.
func StartPreviousKafka(t testing.TB, properties ...string) *Kafka {
	t.Helper()
	j := plainJava(t, "", PreviousKafka)
	j.storage = filepath.Join(t.TempDir(), storageName)
	config, err := kafkaConfig(t.TempDir(), j.storage, address(t), address(t))
	if err == nil {
		err = j.format(config)
	}
	if err != nil {
		t.Fatal(err)
	}
	return startKafka(t, j, properties...)
}

func startKafka(t testing.TB, j java, properties ...string) *Kafka {
	t.Helper()
	dir := t.TempDir()
	k := &Kafka{Bootstrap: address(t), LogDir: filepath.Join(dir, "data")}
	if err := os.CopyFS(k.LogDir, os.DirFS(j.storage)); err != nil {
		t.Fatal(err)
	}
	config, err := kafkaConfig(dir, k.LogDir, k.Bootstrap, address(t), properties...)
	if err != nil {
		t.Fatal(err)
	}
	k.Process = testservers.NewProcess(t, "kafka", j.program, j.args("kafka.Kafka", config), k.ready)
	k.Launch()
	k.AwaitReady()
	return k
}

// kafkaConfig writes a server.properties into a directory and gives its path.
func kafkaConfig(dir, logs, bootstrap, controller string, properties ...string) (string, error) {
	path := filepath.Join(dir, "server.properties")
	lines := append([]string{
		"process.roles=broker,controller", "node.id=1",
		"controller.quorum.voters=1@" + controller, "controller.listener.names=CONTROLLER",
		"listeners=PLAINTEXT://" + bootstrap + ",CONTROLLER://" + controller,
		"log.dirs=" + logs, "auto.create.topics.enable=false",
		"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
		// By default there are 50 of each, which take as long to make as all topics of a test.
		"offsets.topic.num.partitions=2", "transaction.state.log.num.partitions=2",
		"broker.session.timeout.ms=60000", // by default 9 s, which a busy machine may take between two heartbeats
		// After 30 s by default records would go whose timestamps are older than a week, as those of tests are.
		"log.initial.task.delay.ms=3600000",
	}, properties...)
	return path, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// ready: the broker opens its listener when it has caught up with the controller.
func (k *Kafka) ready() error {
	conn, err := net.DialTimeout("tcp", k.Bootstrap, time.Second)
	if err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	return conn.Close()
}
