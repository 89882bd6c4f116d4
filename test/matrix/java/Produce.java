import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes a topic with an idempotent producer, a record after each pause, until its standard input ends. A value is NAME-NUMBER, a space and padding. It
 * prints "acked NAME-NUMBER" or "failed NAME-NUMBER ERROR" for each record. Arguments: bootstrap, topic, name, bytes of padding, pause and metadata age in
 * milliseconds, client.rack or "". With a rack, the partitioner is rack-aware (KIP-1123).
 */
public class Produce {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        String name = args[2];
        String padding = new String(new char[Integer.parseInt(args[3])]).replace('\0', 'x');
        long pause = Long.parseLong(args[4]);
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("enable.idempotence", "true");
        p.put("acks", "all");
        p.put("metadata.max.age.ms", args[5]);
        if (!args[6].isEmpty()) {
            p.put("client.rack", args[6]);
            p.put("partitioner.rack.aware", "true");
        }
        AtomicBoolean ended = new AtomicBoolean();
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException e) {
                System.err.println(e);
            }
            ended.set(true);
        });
        input.setDaemon(true);
        input.start();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; !ended.get(); i++) {
                String word = name + "-" + i;
                producer.send(new ProducerRecord<>(topic, word + " " + padding), (to, e) -> System.out.println(e == null ? "acked " + word : "failed " + word + " " + e));
                Thread.sleep(pause);
            }
            producer.flush();
        }
    }
}
