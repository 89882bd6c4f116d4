import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer and members of groups that run while a cluster grows and shrinks. */
public final class Elastic implements Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int MAX_FAULTS = 5;

    private final Map<String, Member> members = new HashMap<>();
    private Writer writer;

    @Override
    public ObjectNode run(JsonNode job) throws InterruptedException {
        String name = job.path("name").asText();
        switch (job.get("op").asText()) {
            case "write":
                writer = new Writer(job);
                writer.thread.start();
                break;
            case "mark":
                return writer.mark();
            case "finish":
                return writer.finish();
            case "join":
                Member joining = new Member(job);
                members.put(name, joining);
                joining.thread.start();
                break;
            case "look":
                return members.get(name).look();
            case "leave":
                return members.get(name).leave();
            default:
                throw new IllegalArgumentException(job.get("op").asText());
        }
        return JSON.createObjectNode();
    }

    @Override
    public void end() throws InterruptedException {
        if (writer != null) {
            writer.finish();
        }
        for (Member m : members.values()) {
            m.leave();
        }
    }

    private static Map<String, Object> config(JsonNode job) {
        Map<String, Object> config = new HashMap<>();
        job.get("config").properties().forEach(e -> config.put(e.getKey(), e.getValue().asText()));
        return config;
    }

    /** Writes a numbered record into each partition in turn, and notes how long each took to be acknowledged, and where. */
    private static final class Writer {
        final Thread thread = new Thread(this::write);
        private final String name;
        private final String topic;
        private final int partitions;
        private final long intervalMs;
        private final KafkaProducer<String, String> producer;
        private final List<List<Long>> offsets = new ArrayList<>();
        private List<Long> micros = new ArrayList<>();
        private final List<String> failures = new ArrayList<>();
        private final Map<String, Long> pending = new LinkedHashMap<>(); // when it was sent, in that order
        private volatile boolean over;

        Writer(JsonNode job) {
            name = job.get("name").asText();
            topic = job.get("topic").asText();
            partitions = job.get("partitions").asInt();
            intervalMs = job.get("intervalMs").asLong();
            producer = new KafkaProducer<>(config(job), new StringSerializer(), new StringSerializer());
            for (int p = 0; p < partitions; p++) {
                offsets.add(new ArrayList<>());
            }
        }

        private void write() {
            long next = System.nanoTime();
            while (!over) {
                for (int p = 0; p < partitions; p++) {
                    send(p);
                }
                next += intervalMs * 1_000_000;
                try {
                    Thread.sleep(Math.max(0, (next - System.nanoTime()) / 1_000_000));
                } catch (InterruptedException e) {
                    return;
                }
            }
        }

        private void send(int p) {
            long began = System.nanoTime();
            int seq;
            String value;
            synchronized (this) {
                seq = offsets.get(p).size();
                offsets.get(p).add(-1L);
                value = name + "/" + p + "/" + seq;
                pending.put(value, began);
            }
            producer.send(new ProducerRecord<>(topic, p, "key-" + seq % 16, value), (m, e) -> {
                synchronized (this) {
                    pending.remove(value);
                    if (e == null) {
                        micros.add((System.nanoTime() - began) / 1000);
                        offsets.get(p).set(seq, m.hasOffset() ? m.offset() : -2);
                    } else if (failures.size() < MAX_FAULTS) {
                        failures.add(value + ": " + e);
                    }
                }
            });
        }

        synchronized ObjectNode mark() {
            ObjectNode answer = JSON.createObjectNode();
            ArrayNode took = answer.putArray("micros");
            micros.forEach(took::add);
            micros = new ArrayList<>();
            failures.forEach(answer.putArray("failures")::add);
            if (!pending.isEmpty()) {
                answer.put("oldest", (System.nanoTime() - pending.values().iterator().next()) / 1000);
            }
            return answer;
        }

        ObjectNode finish() throws InterruptedException {
            over = true;
            thread.join();
            producer.close(Duration.ofSeconds(60));
            ObjectNode answer = mark();
            ArrayNode all = answer.putArray("offsets");
            for (List<Long> list : offsets) {
                ArrayNode of = all.addArray();
                list.forEach(of::add);
            }
            return answer;
        }
    }

    /** A run of one writer's records in one partition, read one after the other without a gap. */
    private static final class Run {
        final String writer;
        final int partition;
        final int first;
        int next;

        Run(String writer, int partition, int first) {
            this.writer = writer;
            this.partition = partition;
            this.first = first;
            this.next = first;
        }
    }

    /** One member of a group, which reads and commits by itself, or a reader of all partitions without one. */
    private static final class Member implements ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;
        final Thread thread = new Thread(this::read);
        private final String topic;
        private final int assigned; // partitions that it reads all of, without a group; 0: a member of a group
        private final List<Run> runs = new ArrayList<>();
        private final Map<String, Run> open = new TreeMap<>(); // by writer/partition
        private final ArrayNode faults = JSON.createArrayNode();
        private final ObjectNode view = JSON.createObjectNode();

        Member(JsonNode job) {
            consumer = new KafkaConsumer<>(config(job), new StringDeserializer(), new StringDeserializer());
            topic = job.get("topic").asText();
            assigned = job.path("partitions").asInt();
            thread.setDaemon(true);
        }

        ObjectNode leave() throws InterruptedException {
            consumer.wakeup();
            thread.join();
            return look();
        }

        private void begin() {
            if (assigned == 0) {
                consumer.subscribe(List.of(topic), this);
                return;
            }
            List<TopicPartition> all = new ArrayList<>();
            for (int p = 0; p < assigned; p++) {
                all.add(new TopicPartition(topic, p));
            }
            consumer.assign(all);
            all.forEach(tp -> consumer.seek(tp, 0));
        }

        private void read() {
            try (consumer) {
                begin();
                while (true) {
                    for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(100))) {
                        note(r);
                    }
                    if (assigned == 0) {
                        set("generation", consumer.groupMetadata().generationId());
                    }
                }
            } catch (WakeupException e) {
                set("left", 1);
            } catch (RuntimeException e) {
                e.printStackTrace();
                fault(e.toString());
            }
        }

        private synchronized void note(ConsumerRecord<String, String> r) {
            int slash = r.value().lastIndexOf('/');
            String writer = r.value().substring(0, slash);
            int seq = Integer.parseInt(r.value().substring(slash + 1));
            Run run = open.get(writer);
            if (run == null) {
                run = new Run(writer.substring(0, writer.lastIndexOf('/')), r.partition(), seq);
                open.put(writer, run);
                runs.add(run);
            }
            if (run.next != seq) {
                fault(r.value() + " at offset " + r.offset() + " where " + run.next + " was to come");
            }
            run.next = seq + 1;
        }

        private synchronized void fault(String what) {
            if (faults.size() < MAX_FAULTS) {
                faults.add(what);
            }
        }

        private synchronized void count(String name, int by) {
            view.put(name, view.path(name).asInt() + by);
        }

        private synchronized void set(String name, int value) {
            view.put(name, value);
        }

        synchronized ObjectNode look() {
            ObjectNode answer = view.deepCopy();
            answer.set("faults", faults.deepCopy());
            ArrayNode all = answer.putArray("runs");
            for (Run r : runs) {
                all.addObject().put("writer", r.writer).put("partition", r.partition).put("first", r.first).put("next", r.next);
            }
            return answer;
        }

        private synchronized void begin(Collection<TopicPartition> partitions) {
            for (TopicPartition tp : partitions) {
                open.keySet().removeIf(w -> w.endsWith("/" + tp.partition()));
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            begin(partitions);
            count("assigned", partitions.size());
            count("changes", 1);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            count("assigned", -partitions.size());
            count("changes", 1);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            count("assigned", -partitions.size());
            count("changes", 1);
            count("losses", 1);
        }
    }
}
