import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Does Kafka client jobs by Apache Kafka's Java client. */
public final class Worker implements Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long WAIT_MS = 60_000;

    @Override
    public ObjectNode run(JsonNode job) throws Exception {
        switch (job.get("op").asText()) {
            case "create":
                return create(job);
            case "produce":
                return produce(job);
            case "consume":
                return consume(job);
            case "offsets":
                return offsets(job);
            default:
                throw new IllegalArgumentException(job.get("op").asText());
        }
    }

    private static Map<String, Object> config(JsonNode job) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", job.get("bootstrap").asText());
        return config;
    }

    private static ObjectNode create(JsonNode job) throws Exception {
        Map<String, String> configs = new HashMap<>();
        job.path("configs").properties().forEach(e -> configs.put(e.getKey(), e.getValue().asText()));
        try (Admin admin = Admin.create(config(job))) {
            NewTopic topic = new NewTopic(job.get("topic").asText(), job.get("partitions").asInt(), (short) 1).configs(configs);
            admin.createTopics(List.of(topic)).all().get();
        }
        return JSON.createObjectNode();
    }

    private static ObjectNode produce(JsonNode job) throws Exception {
        Map<String, Object> config = config(job);
        config.put("compression.type", job.get("codec").asText());
        config.put("acks", job.get("acks").asText());
        config.put("enable.idempotence", job.get("idempotent").asBoolean());
        config.put("linger.ms", 20);
        config.put("request.timeout.ms", (int) WAIT_MS); // without idempotence a batch sent again is there twice
        config.put("max.request.size", 1 << 25);
        config.put("buffer.memory", 1 << 26);
        if (job.hasNonNull("metadataMs")) {
            config.put("metadata.max.age.ms", job.get("metadataMs").asInt());
        }
        if (job.hasNonNull("batchBytes")) {
            config.put("batch.size", job.get("batchBytes").asInt());
        }
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode r : job.get("records")) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode h : r.path("headers")) {
                    headers.add(new RecordHeader(h.get("key").asText(), bytes(h.get("value"))));
                }
                Long timestamp = r.path("timestamp").asLong() == 0 ? null : r.get("timestamp").asLong();
                if (!sent.isEmpty() && job.hasNonNull("pauseMs")) {
                    Thread.sleep(job.get("pauseMs").asInt());
                }
                sent.add(producer.send(new ProducerRecord<>(job.get("topic").asText(), r.get("partition").asInt(), timestamp,
                        bytes(r.get("key")), bytes(r.get("value")), headers)));
            }
        }
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode results = answer.putArray("results");
        for (Future<RecordMetadata> f : sent) {
            ObjectNode result = results.addObject();
            try {
                RecordMetadata m = f.get();
                result.put("offset", m.hasOffset() ? m.offset() : -1).put("timestamp", m.timestamp());
            } catch (ExecutionException e) {
                result.put("offset", -1).put("error", Host.name(e));
            }
        }
        return answer;
    }

    private static byte[] bytes(JsonNode n) throws Exception {
        return n == null || n.isNull() ? null : n.binaryValue();
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode job) {
        Map<String, Object> config = config(job);
        config.put("enable.auto.commit", false);
        config.put("auto.offset.reset", "none");
        config.put("fetch.max.wait.ms", 20); // an end waits for the fetch under way
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static ObjectNode consume(JsonNode job) throws Exception {
        TopicPartition tp = new TopicPartition(job.get("topic").asText(), job.get("partition").asInt());
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode records = answer.putArray("records");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(job)) {
            consumer.assign(List.of(tp));
            seek(consumer, tp, job);
            answer.put("position", consumer.position(tp));
            int count = job.get("count").asInt();
            long deadline = System.currentTimeMillis() + WAIT_MS;
            while (records.size() < count) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("read " + records.size() + " of " + count + " records");
                }
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(500))) {
                    if (records.size() < count) {
                        records.add(json(r));
                    }
                }
            }
        }
        return answer;
    }

    private static void seek(KafkaConsumer<byte[], byte[]> consumer, TopicPartition tp, JsonNode job) {
        switch (job.get("from").asText()) {
            case "earliest":
                consumer.seekToBeginning(List.of(tp));
                break;
            case "latest":
                consumer.seekToEnd(List.of(tp));
                break;
            case "timestamp":
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(tp, job.get("at").asLong())).get(tp);
                consumer.seek(tp, found.offset());
                break;
            default:
                consumer.seek(tp, job.get("at").asLong());
        }
    }

    private static ObjectNode json(ConsumerRecord<byte[], byte[]> r) {
        ObjectNode n = JSON.createObjectNode();
        n.put("partition", r.partition()).put("offset", r.offset()).put("timestamp", r.timestamp());
        n.put("logAppend", r.timestampType() == TimestampType.LOG_APPEND_TIME);
        n.put("key", r.key()).put("value", r.value());
        ArrayNode headers = n.putArray("headers");
        for (Header h : r.headers()) {
            headers.addObject().put("key", h.key()).put("value", h.value());
        }
        return n;
    }

    private static ObjectNode offsets(JsonNode job) throws Exception {
        TopicPartition tp = new TopicPartition(job.get("topic").asText(), job.get("partition").asInt());
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode times = answer.putArray("times");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(job); Admin admin = Admin.create(config(job))) {
            answer.put("earliest", consumer.beginningOffsets(List.of(tp)).get(tp));
            answer.put("latest", consumer.endOffsets(List.of(tp)).get(tp));
            for (JsonNode at : job.get("timestamps")) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(tp, at.asLong())).get(tp);
                ObjectNode n = times.addObject();
                n.put("offset", found == null ? -1 : found.offset()).put("timestamp", found == null ? -1 : found.timestamp());
            }
            ListOffsetsResult.ListOffsetsResultInfo max =
                    admin.listOffsets(Map.of(tp, OffsetSpec.maxTimestamp())).partitionResult(tp).get();
            answer.putObject("max").put("offset", max.offset()).put("timestamp", max.timestamp());
        }
        return answer;
    }
}
