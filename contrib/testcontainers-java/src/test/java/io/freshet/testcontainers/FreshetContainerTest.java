package io.freshet.testcontainers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Queue;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.Network;
import org.testcontainers.containers.startupcheck.OneShotStartupCheckStrategy;
import org.testcontainers.utility.DockerImageName;

class FreshetContainerTest {
    private static final DockerImageName IMAGE =
            DockerImageName.parse(Objects.requireNonNull(System.getenv("FRESHET_IMAGE"), "set FRESHET_IMAGE, as make contrib does"));

    /** The example of the README. */
    @Test
    void recordsArriveInOrder() throws Exception {
        long began = System.nanoTime();
        try (FreshetContainer freshet = new FreshetContainer(IMAGE).withEnv("FRESHET_DEFAULT_PARTITIONS", "3")) {
            freshet.start();
            System.out.printf("ready after %d ms%n", (System.nanoTime() - began) / 1_000_000);
            exchange(freshet.getBootstrapServers(), 3);
        }
    }

    @Test
    void aTakenPortIsReplaced() throws Exception {
        int free = FreshetContainer.freePort();
        try (ServerSocket taken = new ServerSocket(0)) {
            Queue<Integer> ports = new ArrayDeque<>(List.of(taken.getLocalPort(), free));
            try (FreshetContainer freshet = new FreshetContainer(IMAGE, ports::remove)) {
                freshet.start();
                assertTrue(freshet.getBootstrapServers().endsWith(":" + free), freshet.getBootstrapServers());
                exchange(freshet.getBootstrapServers(), 1);
            }
        }
    }

    @Test
    void aContainerOfTheNetworkReads() throws Exception {
        try (Network network = Network.newNetwork(); FreshetContainer freshet = new FreshetContainer(IMAGE).withNetwork(network)) {
            freshet.start();
            exchange(freshet.getBootstrapServers(), 1);
            try (GenericContainer<?> client = new GenericContainer<>(IMAGE)) {
                client.withNetwork(network).withStartupCheckStrategy(new OneShotStartupCheckStrategy());
                client.withCommand("consume", "numbers", "--from", "earliest", "--exit-at-end", "-b", freshet.getNetworkBootstrapServers());
                client.start();
                assertEquals("0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", client.getLogs());
            }
        }
    }

    @Test
    void anAddressNeedsAStart() {
        try (FreshetContainer freshet = new FreshetContainer(IMAGE)) {
            assertThrows(IllegalStateException.class, freshet::getBootstrapServers);
        }
    }

    /** Produces ten records with one key, and consumes them from all partitions. */
    private static void exchange(String bootstrap, int partitions) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "group.id", "readers", "auto.offset.reset", "earliest");
        try (var producer = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            assertEquals(partitions, producer.partitionsFor("numbers").size());
            for (int i = 0; i < 10; i++) {
                producer.send(new ProducerRecord<>("numbers", "key", Integer.toString(i))).get();
            }
        }
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("numbers"));
            StringBuilder got = new StringBuilder();
            for (long end = System.nanoTime() + 30_000_000_000L; got.length() < 10 && System.nanoTime() < end; ) {
                consumer.poll(Duration.ofSeconds(1)).forEach(record -> got.append(record.value()));
            }
            assertEquals("0123456789", got.toString());
        }
    }
}
