import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.TopicPartition;

/** Members of consumer groups that tell what happens to them. */
public final class Members extends Group {
    @Override
    Member member(JsonNode job) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", job.get("bootstrap").asText());
        config.put("group.id", job.get("group").asText());
        config.put("group.protocol", job.get("protocol").asText());
        config.put("auto.offset.reset", "earliest");
        config.put("auto.commit.interval.ms", 200);
        return new Witness(config, job.get("topic").asText());
    }

    private static final class Witness extends Member {
        private final String topic;
        private final Map<TopicPartition, Long> next = new HashMap<>();
        private final ObjectNode view = JSON.createObjectNode();

        Witness(Map<String, Object> config, String topic) {
            super(config);
            this.topic = topic;
        }

        @Override
        void subscribe() {
            consumer.subscribe(List.of(topic), this);
        }

        @Override
        void polled(ConsumerRecords<String, String> polled) {
            polled.forEach(this::note);
            set("generation", consumer.groupMetadata().generationId());
            set("member", consumer.groupMetadata().memberId());
        }

        @Override
        void left() {
            set("left", "yes");
        }

        @Override
        void failed(String reason) {
            set("failure", reason);
        }

        private synchronized void note(ConsumerRecord<String, String> r) {
            Long expected = next.put(new TopicPartition(r.topic(), r.partition()), r.offset() + 1);
            count("records", 1);
            if (expected != null && expected != r.offset()) {
                count("breaks", 1);
            }
        }

        private synchronized void count(String name, int by) {
            view.put(name, view.path(name).asInt() + by);
        }

        private synchronized void set(String name, String value) {
            view.put(name, value);
        }

        private synchronized void set(String name, int value) {
            view.put(name, value);
        }

        @Override
        synchronized ObjectNode view() {
            return view.deepCopy();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            count("assignments", 1);
            count("assigned", partitions.size());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            count("revocations", 1);
            count("assigned", -partitions.size());
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            count("losses", 1);
            count("assigned", -partitions.size());
        }
    }
}
