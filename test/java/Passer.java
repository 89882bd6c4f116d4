import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Reads a topic as a group until its position is at the end of every partition, and commits that. */
public final class Passer implements Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long WAIT_MS = 60_000;

    @Override
    public ObjectNode run(JsonNode job) {
        Map<String, Object> config = Map.of(
                "bootstrap.servers", job.get("bootstrap").asText(), "group.id", job.get("group").asText(),
                "isolation.level", job.get("isolation").asText(), "auto.offset.reset", "earliest",
                "enable.auto.commit", false);
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode keys = answer.putArray("keys");
        long deadline = System.currentTimeMillis() + WAIT_MS;
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(job.get("topic").asText()));
            while (!atEnd(consumer)) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("not at the end; " + answer);
                }
                for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(200))) {
                    keys.add(r.key());
                }
            }
            consumer.commitSync();
        }
        return answer;
    }

    private static boolean atEnd(KafkaConsumer<String, String> consumer) {
        Set<TopicPartition> assigned = consumer.assignment();
        if (assigned.isEmpty()) {
            return false;
        }
        Map<TopicPartition, Long> ends = consumer.endOffsets(assigned);
        return ends.entrySet().stream().allMatch(end -> consumer.position(end.getKey()) == end.getValue());
    }
}
