import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.config.TopicBuilder;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.ProducerFactory;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultAfterRollbackProcessor;
import org.springframework.kafka.transaction.KafkaTransactionManager;
import org.springframework.util.backoff.FixedBackOff;

/**
 * A service as Spring Kafka's users write it: topics are beans, and a listener turns each order into an invoice, in one
 * transaction with its offset. Every tenth order fails once and is rolled back. An order "poison" fails always and goes
 * to orders-dlt. The arguments are bootstrap.servers and a group.protocol.
 */
@Configuration
@EnableKafka
public class Spring {
  static String bootstrap;
  static String groupProtocol;

  public static void main(String[] args) {
    bootstrap = args[0];
    groupProtocol = args[1];
    new AnnotationConfigApplicationContext(Spring.class).registerShutdownHook();
  }

  @Bean
  KafkaAdmin admin() {
    KafkaAdmin admin = new KafkaAdmin(Map.of("bootstrap.servers", bootstrap));
    admin.setFatalIfBrokerNotAvailable(true);
    return admin;
  }

  @Bean
  KafkaAdmin.NewTopics topics() {
    return new KafkaAdmin.NewTopics(topic("orders"), topic("invoices"), topic("orders-dlt"));
  }

  static NewTopic topic(String name) {
    return TopicBuilder.name(name).partitions(2).replicas(1).config("retention.ms", "86400000").build();
  }

  @Bean
  ProducerFactory<String, String> producers() {
    var factory = new DefaultKafkaProducerFactory<String, String>(Map.of(
        "bootstrap.servers", bootstrap, "key.serializer", StringSerializer.class, "value.serializer", StringSerializer.class));
    factory.setTransactionIdPrefix("billing-");
    return factory;
  }

  @Bean
  KafkaTemplate<String, String> template() {
    return new KafkaTemplate<>(producers());
  }

  @Bean
  ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory() {
    var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
    factory.setConsumerFactory(new DefaultKafkaConsumerFactory<>(Map.of(
        "bootstrap.servers", bootstrap, "key.deserializer", StringDeserializer.class, "value.deserializer", StringDeserializer.class,
        "group.protocol", groupProtocol, "auto.offset.reset", "earliest", "isolation.level", "read_committed", "fetch.max.wait.ms", 50)));
    factory.getContainerProperties().setKafkaAwareTransactionManager(new KafkaTransactionManager<>(producers()));
    factory.setAfterRollbackProcessor(new DefaultAfterRollbackProcessor<>(
        new DeadLetterPublishingRecoverer(template()), new FixedBackOff(0, 2), template(), true));
    return factory;
  }

  private final Set<String> rolledBack = ConcurrentHashMap.newKeySet();

  @KafkaListener(id = "billing", topics = "orders")
  void invoice(ConsumerRecord<String, String> order) {
    template().send("invoices", order.key(), "invoice " + order.value());
    if (order.value().equals("poison")) {
      throw new IllegalArgumentException("poison");
    }
    if (order.value().endsWith("0") && rolledBack.add(order.value())) {
      System.out.println("rolls back order " + order.value());
      throw new IllegalStateException("the first attempt of order " + order.value());
    }
  }
}
