"""Checks confluent-kafka, which is librdkafka."""

from checks import BOOTSTRAP, CODECS, PREFIX, RECORDS, REGEX, REGEX_TOPICS, SHARED, TRANSACTIONS, WAIT, run, same, until, values
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

try:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry
except ImportError:  # before 2.3
    AlterConfigOpType = None


def admin():
    return AdminClient({"bootstrap.servers": BOOTSTRAP})


def done(futures):
    return {key: future.result(WAIT) for key, future in futures.items()}


def consumer(group, **more):
    return Consumer({
        "bootstrap.servers": BOOTSTRAP, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "session.timeout.ms": 6000, "heartbeat.interval.ms": 300, "fetch.wait.max.ms": 50, **more,
    })


def produce(topic, records, partition=-1, **more):
    failed = []
    producer = Producer({"bootstrap.servers": BOOTSTRAP, **more})
    for value in records:
        producer.produce(topic, value, partition=partition, on_delivery=lambda e, _: e and failed.append(e))
    same(0, producer.flush(WAIT))
    same([], failed)


def take(c, into):
    m = c.poll(0.1)
    if m is not None:
        if m.error():
            raise KafkaException(m.error())
        into.append((m.topic(), m.value()))


def list_topics():
    topics = admin().list_topics(timeout=WAIT).topics
    same(5, len(topics[RECORDS].partitions))
    same(4, len(topics[SHARED].partitions))


def regex():
    for topic in REGEX_TOPICS:
        produce(topic, [topic.encode()], 0)
    c, got = consumer(PREFIX + "-regex"), []
    c.subscribe([REGEX])
    until(lambda: len(got) >= 2, lambda: take(c, got), "a record of each topic")
    same(sorted((t, t.encode()) for t in REGEX_TOPICS), sorted(got))
    same(4, len(c.assignment()))
    c.close()


def codec(name):
    def check():
        partition, want = CODECS.index(name), values(name)
        produce(RECORDS, want, partition, **{"compression.codec": name, "linger.ms": 50, "enable.idempotence": partition % 2 == 0})
        c, got = consumer(PREFIX), []
        c.assign([TopicPartition(RECORDS, partition, 0)])
        until(lambda: len(got) >= len(want), lambda: take(c, got), "all records")
        same(want, [v for _, v in got])
        c.close()
    return check


def group():
    name, got = PREFIX + "-group", []
    want = values("group")
    a, b = consumer(name), consumer(name)
    a.subscribe([SHARED])
    until(lambda: len(a.assignment()) == 4, lambda: take(a, got), "one member has all partitions")
    b.subscribe([SHARED])
    until(lambda: len(a.assignment()) == len(b.assignment()) == 2, lambda: (take(a, got), take(b, got)), "two members share")
    for partition in range(4):
        produce(SHARED, want[partition::4], partition)
    until(lambda: len(got) >= len(want), lambda: (take(a, got), take(b, got)), "all records")
    same(sorted(want), sorted(v for _, v in got))
    a.commit(asynchronous=False)
    b.commit(asynchronous=False)
    a.close()
    until(lambda: len(b.assignment()) == 4, lambda: take(b, got), "the last member has all partitions")
    committed = b.committed([TopicPartition(SHARED, p) for p in range(4)], timeout=WAIT)
    same([25] * 4, [p.offset for p in committed])
    b.close()


def administer():
    a, topic = admin(), PREFIX + "-made"
    done(a.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "3600000"})]))
    done(a.create_partitions([NewPartitions(topic, 3)]))
    until(lambda: len(a.list_topics(topic, timeout=WAIT).topics[topic].partitions) == 3, lambda: None, "three partitions")
    resource = ConfigResource("topic", topic)
    same("3600000", done(a.describe_configs([resource]))[resource]["retention.ms"].value)
    if AlterConfigOpType and hasattr(a, "incremental_alter_configs"):
        change = ConfigResource("topic", topic, incremental_configs=[
            ConfigEntry("retention.ms", "7200000", incremental_operation=AlterConfigOpType.SET)])
        done(a.incremental_alter_configs([change]))
    else:
        done(a.alter_configs([ConfigResource("topic", topic, set_config={"retention.ms": "7200000"})]))
    same("7200000", done(a.describe_configs([resource]))[resource]["retention.ms"].value)
    name = PREFIX + "-administered"
    c = consumer(name)
    c.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    c.close()
    same(True, name in [g.group_id for g in a.list_consumer_groups().result(WAIT).valid])
    same(name, done(a.describe_consumer_groups([name]))[name].group_id)
    done(a.delete_consumer_groups([name]))
    done(a.delete_topics([topic]))
    until(lambda: topic not in a.list_topics(timeout=WAIT).topics, lambda: None, "the topic is gone")


def transactions():
    p = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": PREFIX, "transaction.timeout.ms": 30000})
    p.init_transactions(WAIT)
    name, kept = PREFIX + "-transactional", values("kept", 10)
    c = consumer(name)
    for records, end in ((kept, p.commit_transaction), (values("aborted", 10), p.abort_transaction), ([b"last"], p.commit_transaction)):
        p.begin_transaction()
        for value in records:
            p.produce(TRANSACTIONS, value, partition=0)
        p.flush(WAIT)
        p.send_offsets_to_transaction([TopicPartition(TRANSACTIONS, 0, len(records))], c.consumer_group_metadata(), WAIT)
        end(WAIT)
    same([1], [o.offset for o in c.committed([TopicPartition(TRANSACTIONS, 0)], timeout=WAIT)])
    got = []
    c.assign([TopicPartition(TRANSACTIONS, 0, 0)])
    until(lambda: (TRANSACTIONS, b"last") in got, lambda: take(c, got), "the last record")
    same(kept + [b"last"], [v for _, v in got])
    c.close()


if __name__ == "__main__":
    run([("list", list_topics), ("regex", regex), *[(name, codec(name)) for name in CODECS], ("group", group), ("admin", administer),
         ("transactions", transactions)])
