// Reads a topic with kafkajs until it is killed, and prints each value. Arguments: bootstrap, topic, group, client ID or "".
'use strict';

const {Kafka, logLevel} = require('kafkajs');

const [bootstrap, topic, groupId, clientId] = process.argv.slice(2);
const kafka = new Kafka({brokers: [bootstrap], clientId: clientId || 'kafkajs', logLevel: logLevel.ERROR});

async function main() {
  const consumer = kafka.consumer({groupId});
  await consumer.connect();
  await consumer.subscribe({topics: [topic], fromBeginning: true});
  await consumer.run({eachMessage: async ({message}) => console.log('read ' + message.value)});
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
