import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts words exactly once with Kafka Streams: a repartition topic, a store with its changelog, and an output topic with
 * every count.
 */
public final class WordCount implements Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration END = Duration.ofSeconds(30);

    private KafkaStreams streams;
    private volatile String failure = "";

    @Override
    public ObjectNode run(JsonNode job) {
        if (job.get("op").asText().equals("start")) {
            start(job);
        }
        return JSON.createObjectNode().put("state", streams.state().toString()).put("failure", failure);
    }

    @Override
    public void end() {
        if (streams != null && !streams.close(END)) {
            throw new IllegalStateException("still " + streams.state());
        }
    }

    private void start(JsonNode job) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, job.get("application").asText());
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, job.get("bootstrap").asText());
        config.put(StreamsConfig.STATE_DIR_CONFIG, job.get("stateDir").asText());
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0); // so that every count goes to the output
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6000); // the least brokers allow
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 1000);
        streams = new KafkaStreams(topology(job.get("input").asText(), job.get("output").asText()), config);
        streams.setUncaughtExceptionHandler(e -> {
            failure = e.toString();
            e.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
    }

    private static Topology topology(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines =
                builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()));
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
                        .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to(output, Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }
}
