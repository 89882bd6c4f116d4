package compare

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/freshet-io/freshet/bench/process"
)

// kafka is Apache Kafka as one node.
type kafka struct {
	java string
	jars jars
	heap int64 // bytes
}

func (k *kafka) name() string { return nameKafka }

// clusterID is any base64 of 16 bytes: data never outlives a run.
const clusterID = "AAAAAAAAAAAAAAAAAAAAAA"

func (k *kafka) start(ctx context.Context, dir string) (*instance, error) {
	addresses, err := process.FreeAddresses(2)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(config, []byte(kafkaProperties(addresses[0], addresses[1], filepath.Join(dir, "data"))), 0o600); err != nil {
		return nil, fmt.Errorf("write server.properties: %w", err)
	}
	format := exec.CommandContext(ctx, k.java, append(k.jars.options(), "kafka.tools.StorageTool", "format", "--cluster-id", clusterID, "--config", config)...)
	if out, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("format Kafka's storage: %w: %s", err, out)
	}
	log := filepath.Join(dir, "kafka.log")
	args := append(append(k.jvm(dir), k.jars.options()...), "kafka.Kafka", config)
	p, err := process.StartLogged(ctx, exec.Command(k.java, args...), log)
	if err != nil {
		return nil, err
	}
	i := &instance{bootstrap: addresses[0]}
	i.watch(p, "Kafka", "", false)
	if err := await(ctx, p, log, pings(i.bootstrap)); err != nil {
		i.stop()
		return nil, fmt.Errorf("start Apache Kafka: %w", err)
	}
	return i, nil
}

// kafkaProperties are what a node needs that is alone; all else is Kafka's default.
func kafkaProperties(listen, controller, data string) string {
	return strings.Join([]string{
		"process.roles=broker,controller", "node.id=1",
		"controller.quorum.voters=1@" + controller, "controller.listener.names=CONTROLLER",
		"listeners=PLAINTEXT://" + listen + ",CONTROLLER://" + controller,
		"log.dirs=" + data, "auto.create.topics.enable=false",
		"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
	}, "\n") + "\n"
}

// jvm gives the options of Kafka's own start script (bin/kafka-run-class.sh, KAFKA_JVM_PERFORMANCE_OPTS), with a fixed
// heap as its documentation advises for brokers.
func (k *kafka) jvm(dir string) []string {
	heap := fmt.Sprintf("%dm", k.heap>>20)
	return []string{
		"-Xms" + heap, "-Xmx" + heap, "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
		"-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true", "-Dkafka.logs.dir=" + dir,
	}
}
