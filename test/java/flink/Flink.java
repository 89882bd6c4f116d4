import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A Flink job in one process that copies a topic to another one, each record once: the sink's transactions are committed
 * by checkpoints. The job fails once, at the record "fail", and restarts from its last checkpoint. The arguments are
 * bootstrap.servers and a directory for checkpoints.
 */
public class Flink {
  static volatile boolean failed;

  public static void main(String[] args) throws Exception {
    Configuration config = Configuration.fromMap(Map.of(
        "execution.checkpointing.interval", "300 ms", "execution.checkpointing.dir", "file://" + args[1],
        "restart-strategy.type", "fixed-delay", "restart-strategy.fixed-delay.attempts", "3", "restart-strategy.fixed-delay.delay", "100 ms",
        "taskmanager.memory.network.min", "8m", "taskmanager.memory.network.max", "8m", "taskmanager.memory.managed.size", "8m"));
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2, config);
    KafkaSource<String> source = KafkaSource.<String>builder()
        .setBootstrapServers(args[0]).setTopics("in").setGroupId("flink").setStartingOffsets(OffsetsInitializer.earliest())
        .setValueOnlyDeserializer(new SimpleStringSchema()).setProperty("isolation.level", "read_committed").build();
    KafkaSink<String> sink = KafkaSink.<String>builder()
        .setBootstrapServers(args[0]).setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE).setTransactionalIdPrefix("flink-")
        .setProperty("transaction.timeout.ms", "60000")
        .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder().setTopic("out").setValueSerializationSchema(new SimpleStringSchema()).build())
        .build();
    env.fromSource(source, WatermarkStrategy.noWatermarks(), "in").map(value -> {
      if (value.equals("fail") && !failed) {
        failed = true;
        System.out.println("the job fails");
        throw new IllegalStateException("the only failure");
      }
      return value;
    }).returns(Types.STRING).sinkTo(sink);
    env.execute();
  }
}
