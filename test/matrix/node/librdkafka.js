// Checks @confluentinc/kafka-javascript, which is librdkafka, by its interface like that of kafkajs.
'use strict';

const {Kafka, logLevel} = require('@confluentinc/kafka-javascript').KafkaJS;
const {Reader, bootstrap, run} = require('./checks.js');

const kafka = new Kafka({kafkaJS: {brokers: [bootstrap], logLevel: logLevel.ERROR}});

run({
  kafka,
  configs: false, // it cannot describe or alter configs, or create partitions
  codecs: ['none', 'gzip', 'snappy', 'lz4', 'zstd'],
  producer: ({idempotent = false, transactional, codec}) => kafka.producer({
    kafkaJS: {idempotent, ...(transactional ? {transactionalId: transactional} : {})}, 'compression.codec': codec ?? 'none', 'linger.ms': 20,
  }),
  send: (producer, topic, messages) => producer.send({topic, messages}),
  reader: (groupId) => {
    const consumer = kafka.consumer({
      kafkaJS: {groupId, fromBeginning: true, sessionTimeout: 6000, heartbeatInterval: 300, maxWaitTimeInMs: 50, autoCommit: false},
    });
    return new Reader(consumer, () => consumer.assignment().length);
  },
  subscription: (topics) => ({topics}),
  partitions: async (admin, topic) => (await admin.fetchTopicMetadata({topics: [topic]}))[0]?.partitions.length,
});
