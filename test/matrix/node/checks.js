// Runs the checks of one client library against one cluster and prints a line of JSON for each. Both libraries have
// the interface of kafkajs; what differs between them is in library.
'use strict';

const assert = require('node:assert');

const [, , bootstrap, prefix] = process.argv;
const wait = 60_000;
const codecs = ['none', 'gzip', 'snappy', 'lz4', 'zstd'];
const topics = {
  records: `${prefix}-records`, shared: `${prefix}-shared`, transactions: `${prefix}-transactions`,
  regex: [`${prefix}-regex-a`, `${prefix}-regex-b`],
};
const pattern = new RegExp(`^${prefix}-regex-.*`);

const values = (word, n = 100) => Array.from({length: n}, (_, i) => `${word} ${i} ${'x'.repeat(i)}`);

async function until(done, what) {
  const limit = Date.now() + wait;
  while (!await done()) {
    if (Date.now() > limit) throw new Error(`not in ${wait / 1000} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// Reader consumes into an array and knows how many partitions it has.
class Reader {
  constructor(consumer, partitions) {
    Object.assign(this, {consumer, partitions, got: []});
  }

  async run(subscription) {
    await this.consumer.connect();
    await this.consumer.subscribe(subscription);
    await this.consumer.run({
      eachMessage: async ({topic, partition, message}) => {
        this.got.push({topic, partition, offset: message.offset, value: message.value.toString()});
      },
    });
    return this;
  }

  values() { return this.got.map((r) => r.value); }
}

// run does all checks with a library: {kafka, consumer(group, options), subscription(topics), codec(name), ...}.
exports.run = async function run(library) {
  const {kafka} = library;

  async function produce(topic, partition, messages, options = {}) {
    const producer = library.producer(options);
    await producer.connect();
    await library.send(producer, topic, messages.map((value) => ({partition, value})), options.codec);
    await producer.disconnect();
  }

  async function withAdmin(f) {
    const admin = kafka.admin();
    await admin.connect();
    await f(admin);
    await admin.disconnect();
  }

  const checks = {
    list: () => withAdmin(async (admin) => {
      const names = await admin.listTopics();
      assert(names.includes(topics.records) && names.includes(topics.shared));
      assert.strictEqual(await library.partitions(admin, topics.records), 5);
    }),

    regex: async () => {
      for (const topic of topics.regex) await produce(topic, 0, [topic]);
      const reader = await library.reader(`${prefix}-regex`).run(library.subscription([pattern]));
      await until(() => reader.got.length >= 2, 'a record of each topic');
      assert.deepStrictEqual(reader.values().sort(), topics.regex);
      await until(() => reader.partitions() === 4, 'all partitions');
      await reader.consumer.disconnect();
    },

    ...Object.fromEntries(codecs.map((codec, partition) => [codec, async () => {
      if (!library.codecs.includes(codec)) return 'none';
      const want = values(codec);
      await produce(topics.records, partition, want, {codec, idempotent: partition % 2 === 0});
      const reader = await library.reader(`${prefix}-${codec}`).run(library.subscription([topics.records]));
      const got = () => reader.got.filter((r) => r.partition === partition).map((r) => r.value);
      await until(() => got().length >= want.length, 'all records');
      assert.deepStrictEqual(got(), want);
      await reader.consumer.disconnect();
      return 'ok';
    }])),

    group: async () => {
      const [group, want] = [`${prefix}-group`, values('group')];
      const a = await library.reader(group).run(library.subscription([topics.shared]));
      await until(() => a.partitions() === 4, 'one member has all partitions');
      const b = await library.reader(group).run(library.subscription([topics.shared]));
      await until(() => a.partitions() === 2 && b.partitions() === 2, 'two members share');
      for (let p = 0; p < 4; p++) await produce(topics.shared, p, want.filter((_, i) => i % 4 === p));
      await until(() => a.got.length + b.got.length >= want.length, 'all records');
      assert.deepStrictEqual([...a.values(), ...b.values()].sort(), [...want].sort());
      await a.consumer.commitOffsets(a.got.map((r) => ({topic: r.topic, partition: r.partition, offset: `${Number(r.offset) + 1}`})));
      await b.consumer.commitOffsets(b.got.map((r) => ({topic: r.topic, partition: r.partition, offset: `${Number(r.offset) + 1}`})));
      await a.consumer.disconnect();
      await until(() => b.partitions() === 4, 'the last member has all partitions');
      await withAdmin(async (admin) => {
        const [{partitions}] = await admin.fetchOffsets({groupId: group, topics: [topics.shared]});
        assert.deepStrictEqual(partitions.map((p) => p.offset), ['25', '25', '25', '25']);
      });
      await b.consumer.disconnect();
    },

    admin: () => withAdmin(async (admin) => {
      const [topic, group] = [`${prefix}-made`, `${prefix}-administered`];
      await admin.createTopics({topics: [{topic, numPartitions: 2, configEntries: [{name: 'retention.ms', value: '3600000'}]}]});
      if (library.configs) {
        await admin.createPartitions({topicPartitions: [{topic, count: 3}]});
        await until(async () => await library.partitions(admin, topic) === 3, 'three partitions');
        const retention = async () => {
          const described = await admin.describeConfigs({resources: [{type: 2, name: topic}], includeSynonyms: false});
          return described.resources[0].configEntries.find((e) => e.configName === 'retention.ms').configValue;
        };
        assert.strictEqual(await retention(), '3600000');
        const configEntries = [{name: 'retention.ms', value: '7200000'}];
        await admin.alterConfigs({validateOnly: false, resources: [{type: 2, name: topic, configEntries}]});
        assert.strictEqual(await retention(), '7200000');
      }
      const reader = await library.reader(group).run(library.subscription([topic]));
      await until(() => reader.partitions() > 0, 'a member');
      assert((await admin.listGroups()).groups.some((g) => g.groupId === group));
      assert.strictEqual((await admin.describeGroups([group])).groups[0].groupId, group);
      await reader.consumer.disconnect();
      await admin.deleteGroups([group]);
      await admin.deleteTopics({topics: [topic]});
      await until(async () => !(await admin.listTopics()).includes(topic), 'the topic is gone');
    }),

    transactions: async () => {
      const [group, kept, topic] = [`${prefix}-transactional`, values('kept', 10), topics.transactions];
      const producer = library.producer({idempotent: true, transactional: prefix});
      await producer.connect();
      for (const [messages, end] of [[kept, 'commit'], [values('aborted', 10), 'abort'], [['last'], 'commit']]) {
        const transaction = await producer.transaction();
        await transaction.send({topic, messages: messages.map((value) => ({partition: 0, value}))});
        if (library.configs) { // the other one takes the offsets from a consumer
          const partitions = [{partition: 0, offset: `${messages.length}`}];
          await transaction.sendOffsets({consumerGroupId: group, topics: [{topic, partitions}]});
        }
        await transaction[end]();
      }
      await producer.disconnect();
      const reader = await library.reader(`${group}-reader`).run(library.subscription([topic]));
      await until(() => reader.values().includes('last'), 'the last record');
      assert.deepStrictEqual(reader.values(), [...kept, 'last']);
      await reader.consumer.disconnect();
      if (library.configs) {
        await withAdmin(async (admin) => {
          await until(async () => { // Kafka ends transactions afterwards
            const [{partitions}] = await admin.fetchOffsets({groupId: group, topics: [topic]});
            return partitions[0].offset === '1';
          }, 'the last offset is committed');
        });
      }
    },
  };

  for (const [check, f] of Object.entries(checks)) {
    const began = Date.now();
    const result = {check, ok: true};
    try {
      result.none = await f() === 'none';
    } catch (e) {
      console.error(e);
      Object.assign(result, {ok: false, detail: `${e.name}: ${e.message}`});
    }
    result.seconds = (Date.now() - began) / 1000;
    console.log(JSON.stringify(result));
  }
  process.exit(0);
};

exports.Reader = Reader;
exports.bootstrap = bootstrap;
