import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;

/** Consumers of any configuration that tell which partitions they have. */
public final class Consumers extends Group {
    @Override
    Member member(JsonNode job) {
        Map<String, Object> config = new HashMap<>();
        config.put("auto.offset.reset", "earliest");
        config.put("auto.commit.interval.ms", 100);
        job.get("config").properties().forEach(e -> config.put(e.getKey(), e.getValue().asText()));
        return new Holder(config, job);
    }

    private static final class Holder extends Member {
        private final JsonNode job;
        private final TreeSet<Integer> has = new TreeSet<>();
        private int revoked;
        private int records;
        private String failure = "";

        Holder(Map<String, Object> config, JsonNode job) {
            super(config);
            this.job = job;
        }

        @Override
        void subscribe() {
            if (job.hasNonNull("regex")) {
                consumer.subscribe(new SubscriptionPattern(job.get("regex").asText()), this);
            } else {
                consumer.subscribe(List.of(job.get("topic").asText()), this);
            }
        }

        @Override
        synchronized void polled(ConsumerRecords<String, String> polled) {
            records += polled.count();
        }

        @Override
        synchronized void failed(String reason) {
            failure = reason;
        }

        @Override
        synchronized ObjectNode view() {
            ObjectNode out = JSON.createObjectNode();
            ArrayNode assigned = out.putArray("assigned");
            has.forEach(assigned::add);
            return out.put("revoked", revoked).put("records", records).put("failure", failure);
        }

        @Override
        public synchronized void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            partitions.forEach(p -> has.add(p.partition()));
        }

        @Override
        public synchronized void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            revoked += partitions.size();
            partitions.forEach(p -> has.remove(p.partition()));
        }
    }
}
