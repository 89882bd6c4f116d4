import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The life of a transactional producer by Apache Kafka's Java client. */
public final class Tellers implements Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long WAIT_MS = 60_000;

    private static KafkaProducer<String, String> producer(JsonNode job) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", job.get("bootstrap").asText());
        config.put("transactional.id", job.get("name").asText());
        KafkaProducer<String, String> p = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        p.initTransactions();
        return p;
    }

    @Override
    public ObjectNode run(JsonNode job) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        String topic = job.get("topic").asText();
        try (KafkaProducer<String, String> first = producer(job)) {
            first.beginTransaction();
            first.send(new ProducerRecord<>(topic, 0, null, "committed 0"));
            first.send(new ProducerRecord<>(topic, 1, null, "committed 1"));
            first.commitTransaction();
            first.beginTransaction();
            first.send(new ProducerRecord<>(topic, 0, null, "aborted")).get();
            first.abortTransaction();
            try (KafkaProducer<String, String> second = producer(job)) {
                boolean fenced = false;
                try {
                    first.beginTransaction();
                    first.send(new ProducerRecord<>(topic, 0, null, "fenced")).get();
                    first.commitTransaction();
                } catch (Exception e) {
                    fenced = true;
                }
                answer.put("fenced", fenced);
                move(job, second);
            }
        } catch (KafkaException e) {
            if (!answer.path("fenced").asBoolean()) {
                throw e;
            }
        }
        return answer;
    }

    /** Moves the source to the sink, with its offsets. */
    private static void move(JsonNode job, KafkaProducer<String, String> producer) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", job.get("bootstrap").asText());
        config.put("group.id", job.get("group").asText());
        config.put("isolation.level", "read_committed");
        config.put("enable.auto.commit", false);
        config.put("auto.offset.reset", "earliest");
        config.put("max.poll.records", 3);
        long deadline = System.currentTimeMillis() + WAIT_MS;
        int moved = 0;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(job.get("source").asText()));
            while (moved < job.get("count").asInt()) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("moved " + moved);
                }
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<String, String> r : records) {
                    producer.send(new ProducerRecord<>(job.get("sink").asText(), r.value()));
                    offsets.put(new TopicPartition(r.topic(), r.partition()), new OffsetAndMetadata(r.offset() + 1));
                    moved++;
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                producer.commitTransaction();
            }
        }
    }
}
