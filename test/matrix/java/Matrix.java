import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Runs the checks of Apache Kafka's own client, of any version since 2.8, and prints a line of JSON for each. */
public class Matrix {
    private static final int WAIT = 60; // seconds
    private static final List<String> CODECS = Arrays.asList("none", "gzip", "snappy", "lz4", "zstd");

    private final String bootstrap;
    private final String prefix;
    private final String records;
    private final String shared;
    private final String transactional;
    private final List<String> regexTopics;

    private interface Check {
        void run() throws Exception;
    }

    public static void main(String[] args) {
        new Matrix(args[0], args[1]).run();
        System.exit(0);
    }

    private Matrix(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        this.prefix = prefix;
        records = prefix + "-records";
        shared = prefix + "-shared";
        transactional = prefix + "-transactions";
        regexTopics = Arrays.asList(prefix + "-regex-a", prefix + "-regex-b");
    }

    private void run() {
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("list", this::list);
        checks.put("regex", this::regex);
        for (String codec : CODECS) checks.put(codec, () -> codec(codec));
        checks.put("group", this::group);
        checks.put("admin", this::administer);
        checks.put("transactions", this::transactions);
        checks.forEach((name, check) -> {
            long began = System.nanoTime();
            String detail = null;
            try {
                check.run();
            } catch (Exception | AssertionError e) {
                e.printStackTrace();
                detail = e.toString();
            }
            String more = detail == null ? "" : ",\"detail\":\"" + detail.replaceAll("[\\\\\"\\p{Cntrl}]", " ") + "\"";
            double seconds = (System.nanoTime() - began) / 1000000 / 1000.0;
            System.out.println("{\"check\":\"" + name + "\",\"ok\":" + (detail == null) + more + ",\"seconds\":" + seconds + "}");
        });
    }

    private static void same(Object want, Object got) {
        if (!want.equals(got)) throw new AssertionError("want " + want + ", got " + got);
    }

    private static <T> T get(Future<T> future) throws Exception {
        return future.get(WAIT, TimeUnit.SECONDS);
    }

    private static void until(String what, BooleanSupplier done, Runnable step) {
        long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT);
        while (!done.getAsBoolean()) {
            if (System.nanoTime() > limit) throw new AssertionError("not in " + WAIT + " s: " + what);
            step.run();
        }
    }

    private static List<String> values(String word, int n) {
        List<String> values = new ArrayList<>();
        for (int i = 0; i < n; i++) values.add(word + " " + i + " " + String.join("", Collections.nCopies(i, "x")));
        return values;
    }

    private Properties properties(String... pairs) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        for (int i = 0; i < pairs.length; i += 2) p.put(pairs[i], pairs[i + 1]);
        return p;
    }

    private Admin admin() {
        return Admin.create(properties());
    }

    private KafkaConsumer<String, String> consumer(String group) {
        return new KafkaConsumer<>(properties("group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", "false",
            "session.timeout.ms", "6000", "heartbeat.interval.ms", "300", "fetch.max.wait.ms", "50", "isolation.level", "read_committed"),
            new StringDeserializer(), new StringDeserializer());
    }

    private void produce(String topic, List<String> values, int partition, String... pairs) throws Exception {
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties(pairs), new StringSerializer(), new StringSerializer())) {
            List<Future<?>> sent = new ArrayList<>();
            for (String value : values) sent.add(producer.send(new ProducerRecord<>(topic, partition, null, value)));
            for (Future<?> future : sent) get(future);
        }
    }

    private static void take(KafkaConsumer<String, String> consumer, List<String> into) {
        for (ConsumerRecord<String, String> r : consumer.poll(Duration.ofMillis(100))) into.add(r.value());
    }

    /** Returns the number of partitions that describeTopics gives. The method of its result was renamed in 3.1. */
    private static int partitions(Admin admin, String topic) {
        DescribeTopicsResult result = admin.describeTopics(Collections.singleton(topic));
        for (String name : Arrays.asList("topicNameValues", "values")) {
            try {
                Object futures = DescribeTopicsResult.class.getMethod(name).invoke(result);
                Object description = get((Future<?>) ((Map<?, ?>) futures).get(topic));
                return ((TopicDescription) description).partitions().size();
            } catch (NoSuchMethodException e) {
                continue;
            } catch (Exception e) {
                throw new AssertionError(e);
            }
        }
        throw new AssertionError("describeTopics has another result");
    }

    private void list() throws Exception {
        try (Admin admin = admin()) {
            same(true, get(admin.listTopics().names()).containsAll(Arrays.asList(records, shared)));
        }
        try (KafkaConsumer<String, String> c = consumer(prefix)) {
            same(5, c.listTopics().get(records).size());
        }
    }

    private void regex() throws Exception {
        for (String topic : regexTopics) produce(topic, Collections.singletonList(topic), 0);
        List<String> got = new ArrayList<>();
        try (KafkaConsumer<String, String> c = consumer(prefix + "-regex")) {
            c.subscribe(Pattern.compile(prefix + "-regex-.*"));
            until("a record of each topic", () -> got.size() >= 2, () -> take(c, got));
            same(new HashSet<>(regexTopics), new HashSet<>(got));
            same(4, c.assignment().size());
        }
    }

    private void codec(String name) throws Exception {
        int partition = CODECS.indexOf(name);
        List<String> want = values(name, 100);
        produce(records, want, partition, "compression.type", name, "linger.ms", "50", "enable.idempotence", partition % 2 == 0 ? "true" : "false");
        List<String> got = new ArrayList<>();
        try (KafkaConsumer<String, String> c = consumer(prefix)) {
            TopicPartition at = new TopicPartition(records, partition);
            c.assign(Collections.singleton(at));
            c.seek(at, 0);
            until("all records", () -> got.size() >= want.size(), () -> take(c, got));
            same(want, got);
        }
    }

    private void group() throws Exception {
        List<String> want = values("group", 100);
        List<String> got = new ArrayList<>();
        KafkaConsumer<String, String> a = consumer(prefix + "-group");
        KafkaConsumer<String, String> b = consumer(prefix + "-group");
        a.subscribe(Collections.singleton(shared));
        until("one member has all partitions", () -> a.assignment().size() == 4, () -> take(a, got));
        b.subscribe(Collections.singleton(shared));
        Runnable both = () -> {
            take(a, got);
            take(b, got);
        };
        until("two members share", () -> a.assignment().size() == 2 && b.assignment().size() == 2, both);
        for (int p = 0; p < 4; p++) {
            List<String> part = new ArrayList<>();
            for (int i = p; i < want.size(); i += 4) part.add(want.get(i));
            produce(shared, part, p);
        }
        until("all records", () -> got.size() >= want.size(), both);
        Collections.sort(got);
        Collections.sort(want);
        same(want, got);
        a.commitSync();
        b.commitSync();
        a.close();
        until("the last member has all partitions", () -> b.assignment().size() == 4, () -> take(b, got));
        Set<TopicPartition> all = new HashSet<>();
        for (int p = 0; p < 4; p++) all.add(new TopicPartition(shared, p));
        for (OffsetAndMetadata committed : b.committed(all).values()) same(25L, committed.offset());
        b.close();
    }

    private void administer() throws Exception {
        String topic = prefix + "-made";
        String group = prefix + "-administered";
        try (Admin admin = admin()) {
            NewTopic made = new NewTopic(topic, 2, (short) 1).configs(Collections.singletonMap("retention.ms", "3600000"));
            get(admin.createTopics(Collections.singleton(made)).all());
            get(admin.createPartitions(Collections.singletonMap(topic, NewPartitions.increaseTo(3))).all());
            until("three partitions", () -> partitions(admin, topic) == 3, () -> { });
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            same("3600000", retention(admin, resource));
            Collection<AlterConfigOp> change =
                Collections.singleton(new AlterConfigOp(new ConfigEntry("retention.ms", "7200000"), AlterConfigOp.OpType.SET));
            get(admin.incrementalAlterConfigs(Collections.singletonMap(resource, change)).all());
            same("7200000", retention(admin, resource));
            try (KafkaConsumer<String, String> c = consumer(group)) {
                c.commitSync(new HashMap<>(Collections.singletonMap(new TopicPartition(topic, 0), new OffsetAndMetadata(0))));
            }
            same(true, get(admin.listConsumerGroups().all()).stream().anyMatch(g -> g.groupId().equals(group)));
            same(group, get(admin.describeConsumerGroups(Collections.singleton(group)).all()).get(group).groupId());
            get(admin.deleteConsumerGroups(Collections.singleton(group)).all());
            get(admin.deleteTopics(Collections.singleton(topic)).all());
            Set<String> names = new HashSet<>(Collections.singleton(topic));
            until("the topic is gone", () -> !names.contains(topic), () -> {
                names.clear();
                try {
                    names.addAll(get(admin.listTopics().names()));
                } catch (Exception e) {
                    throw new AssertionError(e);
                }
            });
        }
    }

    private static String retention(Admin admin, ConfigResource resource) throws Exception {
        return get(admin.describeConfigs(Collections.singleton(resource)).all()).get(resource).get("retention.ms").value();
    }

    private void transactions() {
        String group = prefix + "-transactional";
        TopicPartition at = new TopicPartition(transactional, 0);
        List<String> kept = values("kept", 10);
        List<String> got = new ArrayList<>();
        try (KafkaProducer<String, String> p =
                new KafkaProducer<>(properties("transactional.id", prefix), new StringSerializer(), new StringSerializer());
                KafkaConsumer<String, String> c = consumer(group)) {
            p.initTransactions();
            for (List<String> part : Arrays.asList(kept, values("aborted", 10), Collections.singletonList("last"))) {
                p.beginTransaction();
                for (String value : part) p.send(new ProducerRecord<>(transactional, 0, null, value));
                p.flush();
                p.sendOffsetsToTransaction(Collections.singletonMap(at, new OffsetAndMetadata(part.size())), c.groupMetadata());
                if (part.get(0).startsWith("aborted")) p.abortTransaction();
                else p.commitTransaction();
            }
            same(1L, c.committed(Collections.singleton(at)).get(at).offset());
            c.assign(Collections.singleton(at));
            c.seek(at, 0);
            until("the last record", () -> got.contains("last"), () -> take(c, got));
        }
        List<String> want = new ArrayList<>(kept);
        want.add("last");
        same(want, got);
    }
}
