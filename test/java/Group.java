import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Consumers by name, each of which a test lets join and leave, and asks what it has seen. */
abstract class Group implements Client {
    static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, Member> members = new HashMap<>();

    /** A consumer that has not begun. */
    abstract Member member(JsonNode job);

    @Override
    public final ObjectNode run(JsonNode job) throws InterruptedException {
        String name = job.get("name").asText();
        switch (job.get("op").asText()) {
            case "join":
                Member joining = member(job);
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
    public final void end() throws InterruptedException {
        for (Member m : members.values()) {
            m.leave();
        }
    }

    /** One consumer, which reads and commits by itself. Of the methods below it is told by its own thread. */
    abstract static class Member implements ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
        private final Thread thread = new Thread(this::read);

        Member(Map<String, Object> config) {
            consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
            thread.setDaemon(true);
        }

        private void read() {
            try (consumer) {
                subscribe();
                while (true) {
                    polled(consumer.poll(Duration.ofMillis(50)));
                }
            } catch (WakeupException e) {
                left();
            } catch (RuntimeException e) {
                e.printStackTrace();
                failed(e.toString());
            }
        }

        private void leave() throws InterruptedException {
            consumer.wakeup();
            thread.join();
        }

        abstract void subscribe();

        abstract void polled(ConsumerRecords<String, String> records);

        void left() {}

        abstract void failed(String reason);

        /** What it has seen, for whoever asks. */
        abstract ObjectNode view();
    }
}
