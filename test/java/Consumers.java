import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
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

/** Consumers of any configuration that tell which partitions they have: a line of JSON in, a line of JSON out. */
public final class Consumers {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Consumers() {}

    public static void main(String[] args) throws Exception {
        Map<String, Member> members = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode job = JSON.readTree(line);
            String name = job.get("name").asText();
            switch (job.get("op").asText()) {
                case "join":
                    Member joining = new Member(job);
                    members.put(name, joining);
                    joining.thread.start();
                    break;
                case "close":
                    Member leaving = members.get(name);
                    leaving.consumer.wakeup();
                    leaving.thread.join();
                    break;
                default:
            }
            System.out.println(JSON.writeValueAsString(members.get(name).view()));
        }
        System.exit(0);
    }

    /** One consumer, which reads and commits by itself. */
    private static final class Member implements ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
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
