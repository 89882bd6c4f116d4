import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.net.Socket;
import java.util.Map;
import kafka.Kafka;

/**
 * Runs a broker and has it used as tests do, all in one JVM, which notes the classes that this takes. Arguments: its
 * server.properties, and the address that it listens at.
 */
public final class Train {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};

    private Train() {}

    public static void main(String[] args) {
        try {
            use(args);
            System.exit(0);
        } catch (Exception e) {
            e.printStackTrace();
            Runtime.getRuntime().halt(1); // the broker still runs
        }
    }

    private static void use(String[] args) throws Exception {
        Thread broker = new Thread(() -> Kafka.main(new String[] {args[0]}));
        broker.setDaemon(true);
        broker.start();
        while (!listens(args[1])) {
            Thread.sleep(100);
        }
        Worker worker = new Worker();
        worker.run(job("create", args[1]).put("partitions", CODECS.length));
        for (int p = 0; p < CODECS.length; p++) {
            ObjectNode job = job("produce", args[1]).put("codec", CODECS[p]).put("acks", "all").put("idempotent", p % 2 == 0);
            job.putArray("records").addObject().put("partition", p).put("key", "a2V5").put("value", "dmFsdWU=");
            worker.run(job);
            worker.run(job("consume", args[1]).put("partition", p).put("from", "earliest").put("count", 1));
        }
        ObjectNode offsets = job("offsets", args[1]).put("partition", 0);
        offsets.putArray("timestamps").add(0);
        worker.run(offsets);
        Consumers consumers = new Consumers();
        for (String protocol : new String[] {"classic", "consumer"}) {
            ObjectNode job = job("join", args[1]).put("name", protocol);
            job.set("config", JSON.valueToTree(
                    Map.of("bootstrap.servers", args[1], "group.id", protocol, "group.protocol", protocol)));
            consumers.run(job);
            while (consumers.run(job("look", args[1]).put("name", protocol)).get("records").asInt() < CODECS.length) {
                Thread.sleep(100);
            }
        }
        consumers.end();
    }

    private static boolean listens(String address) {
        int colon = address.lastIndexOf(':');
        try (Socket s = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)))) {
            return s.isConnected();
        } catch (IOException e) {
            return false;
        }
    }

    private static ObjectNode job(String op, String bootstrap) {
        return JSON.createObjectNode().put("op", op).put("bootstrap", bootstrap).put("topic", "t");
    }
}
