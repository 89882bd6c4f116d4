import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Consumers of any configuration that tell which partitions they have. */
public final class Consumers implements Client {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, Member> members = new HashMap<>();

    @Override
    public ObjectNode run(JsonNode job) throws InterruptedException {
        String name = job.get("name").asText();
        switch (job.get("op").asText()) {
            case "join":
                Member joining = new Member(job);
                members.put(name, joining);
                joining.thread.start();
                break;
            case "close":
                members.get(name).leave();
                break;
            default:
        }
        return members.get(name).view();
    }

    @Override
    public void end() throws InterruptedException {
        for (Member m : members.values()) {
            m.leave();
        }
    }

    /** One consumer, which reads and commits by itself. */
    private static final class Member implements ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;
        final Thread thread = new Thread(this::read);
        private final JsonNode job;
        private final TreeSet<Integer> has = new TreeSet<>();
        private int revoked;
        private int records;
        private String failure = "";

        Member(JsonNode job) {
            this.job = job;
            Map<String, Object> config = new HashMap<>();
            config.put("auto.offset.reset", "earliest");
            config.put("auto.commit.interval.ms", 100);
            job.get("config").properties().forEach(e -> config.put(e.getKey(), e.getValue().asText()));
            consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
            thread.setDaemon(true);
        }

        void leave() throws InterruptedException {
            consumer.wakeup();
            thread.join();
        }

        private void read() {
            try (consumer) {
                if (job.hasNonNull("regex")) {
                    consumer.subscribe(new SubscriptionPattern(job.get("regex").asText()), this);
                } else {
                    consumer.subscribe(List.of(job.get("topic").asText()), this);
                }
                while (true) {
                    int n = consumer.poll(Duration.ofMillis(50)).count();
                    synchronized (this) {
                        records += n;
                    }
                }
            } catch (WakeupException e) {
                // asked to close
            } catch (RuntimeException e) {
                synchronized (this) {
                    failure = e.toString();
                }
            }
        }

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
