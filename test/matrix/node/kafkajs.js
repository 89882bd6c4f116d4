// Checks kafkajs, with its packages of codecs. It has none for zstd that is not compiled against a library of the system.
'use strict';

const {Kafka, CompressionTypes, CompressionCodecs, logLevel} = require('kafkajs');
const {Reader, bootstrap, run} = require('./checks.js');

const LZ4 = require('kafkajs-lz4');
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy');
CompressionCodecs[CompressionTypes.LZ4] = new LZ4().codec;

const kafka = new Kafka({brokers: [bootstrap], logLevel: logLevel.ERROR});
const types = {none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4};

run({
  kafka,
  configs: true,
  codecs: Object.keys(types),
  producer: ({idempotent, transactional}) => kafka.producer({idempotent, transactionalId: transactional, maxInFlightRequests: transactional ? 1 : 5}),
  send: (producer, topic, messages, codec = 'none') => producer.send({topic, messages, compression: types[codec]}),
  reader: (groupId) => {
    const consumer = kafka.consumer({groupId, sessionTimeout: 6000, heartbeatInterval: 300, maxWaitTimeInMs: 50});
    let partitions = 0;
    consumer.on(consumer.events.GROUP_JOIN, ({payload}) => {
      partitions = Object.values(payload.memberAssignment).flat().length;
    });
    return new Reader(consumer, () => partitions);
  },
  subscription: (topics) => ({topics, fromBeginning: true}),
  partitions: async (admin, topic) => (await admin.fetchTopicMetadata({topics: [topic]})).topics[0].partitions.length,
});
