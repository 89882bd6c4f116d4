import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Members of consumer groups that tell what happens to them. */
public final class Members implements Client {
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
            case "leave":
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

    /** One member, which reads and commits by itself. */
    private static final class Member implements ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;
        final Thread thread = new Thread(this::read);
        private final String topic;
        private final Map<TopicPartition, Long> next = new HashMap<>();
        private final ObjectNode view = JSON.createObjectNode();

        Member(JsonNode job) {
            Map<String, Object> config = new HashMap<>();
            config.put("bootstrap.servers", job.get("bootstrap").asText());
            config.put("group.id", job.get("group").asText());
            config.put("group.protocol", job.get("protocol").asText());
            config.put("auto.offset.reset", "earliest");
            config.put("auto.commit.interval.ms", 200);
            consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
            topic = job.get("topic").asText();
            thread.setDaemon(true);
        }

        void leave() throws InterruptedException {
            consumer.wakeup();
            thread.join();
        }

        private void read() {
            try (consumer) {
                consumer.subscribe(List.of(topic), this);
                while (true) {
                    for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(100))) {
                        note(r);
                    }
                    set("generation", consumer.groupMetadata().generationId());
                    set("member", consumer.groupMetadata().memberId());
                }
            } catch (WakeupException e) {
                set("left", "yes");
            } catch (RuntimeException e) {
                e.printStackTrace();
                set("failure", e.toString());
            }
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
