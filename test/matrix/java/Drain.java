import java.time.Duration;
import java.util.Collections;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Reads a topic until it is killed, and prints each value up to its first space. Arguments: bootstrap, topic, group or "" for an assigned consumer,
 * client ID or "", and optionally a metadata age in milliseconds, client.rack and group.protocol. With an age, positions are committed each second.
 */
public class Drain {
    public static void main(String[] args) {
        String topic = args[1];
        String group = args[2];
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        if (!group.isEmpty()) p.put("group.id", group);
        if (!args[3].isEmpty()) p.put("client.id", args[3]);
        if (args.length > 4) {
            p.put("metadata.max.age.ms", args[4]);
            p.put("enable.auto.commit", "true");
            p.put("auto.commit.interval.ms", "1000");
        }
        if (args.length > 5) p.put("client.rack", args[5]);
        if (args.length > 6) p.put("group.protocol", args[6]);
        try (KafkaConsumer<String, String> c = new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer())) {
            if (group.isEmpty()) {
                c.assign(c.partitionsFor(topic).stream().map(i -> new TopicPartition(topic, i.partition())).collect(Collectors.toList()));
            } else {
                c.subscribe(Collections.singletonList(topic));
            }
            while (true) {
                for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(200))) System.out.println("read " + r.value().split(" ", 2)[0]);
            }
        }
    }
}
