"""Checks kafka-python."""

import threading
import time

from checks import BOOTSTRAP, CODECS, PREFIX, RECORDS, REGEX, REGEX_TOPICS, SHARED, TRANSACTIONS, WAIT, run, same, until, values
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic


def consumer(group, **more):
    return KafkaConsumer(
        bootstrap_servers=BOOTSTRAP, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        session_timeout_ms=6000, heartbeat_interval_ms=300, fetch_max_wait_ms=50, **more,
    )


def produce(topic, records, partition=None, **more):
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, **more)
    sent = [producer.send(topic, value, partition=partition) for value in records]
    for future in sent:
        future.get(WAIT)
    producer.close()


def take(c, into):
    for records in c.poll(timeout_ms=100).values():
        into.extend((r.topic, r.value) for r in records)


class Member(threading.Thread):
    """Polls a consumer. Two members polled in turn by one thread can make each other rejoin for a minute."""

    def __init__(self, c, into):
        super().__init__(daemon=True)
        self.consumer, self.into, self.ended = c, into, threading.Event()
        self.assigned = 0
        self.start()

    def run(self):
        while not self.ended.is_set():
            take(self.consumer, self.into)
            self.assigned = len(self.consumer.assignment())

    def end(self):
        self.ended.set()
        self.join()


def list_topics():
    c = consumer(None)
    same(True, {RECORDS, SHARED} <= c.topics())
    same(5, len(c.partitions_for_topic(RECORDS)))
    c.close()


def regex():
    for topic in REGEX_TOPICS:
        produce(topic, [topic.encode()], 0)
    c, got = consumer(PREFIX + "-regex"), []
    c.subscribe(pattern=REGEX)
    until(lambda: len(got) >= 2, lambda: take(c, got), "a record of each topic")
    same(sorted((t, t.encode()) for t in REGEX_TOPICS), sorted(got))
    same(4, len(c.assignment()))
    c.close()


def codec(name):
    def check():
        partition, want = CODECS.index(name), values(name)
        produce(RECORDS, want, partition, compression_type=None if name == "none" else name, linger_ms=50, enable_idempotence=partition % 2 == 0)
        c, got = consumer(None), []
        c.assign([TopicPartition(RECORDS, partition)])
        c.seek(TopicPartition(RECORDS, partition), 0)
        until(lambda: len(got) >= len(want), lambda: take(c, got), "all records")
        same(want, [v for _, v in got])
        c.close()
    return check


def group():
    name, got = PREFIX + "-group", []
    want = values("group")
    a, b = consumer(name), consumer(name)
    a.subscribe([SHARED])
    b.subscribe([SHARED])
    pause = lambda: time.sleep(0.05)
    one = Member(a, got)
    until(lambda: one.assigned == 4, pause, "one member has all partitions")
    two = Member(b, got)
    until(lambda: one.assigned == two.assigned == 2, pause, "two members share")
    for partition in range(4):
        produce(SHARED, want[partition::4], partition)
    until(lambda: len(got) >= len(want), pause, "all records")
    one.end()
    two.end()
    same(sorted(want), sorted(v for _, v in got))
    a.commit()
    b.commit()
    a.close()
    until(lambda: len(b.assignment()) == 4, lambda: take(b, got), "the last member has all partitions")
    same([25] * 4, [b.committed(TopicPartition(SHARED, p)) for p in range(4)])
    b.close()


def retention(admin, topic):
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
    config = described["topic"][topic]["retention.ms"]
    return config["value"] if isinstance(config, dict) else getattr(config, "value", config)


def administer():
    a, topic = KafkaAdminClient(bootstrap_servers=BOOTSTRAP), PREFIX + "-made"
    a.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "3600000"})])
    a.create_partitions({topic: NewPartitions(3)})
    until(lambda: len(a.describe_topics([topic])[0]["partitions"]) == 3, lambda: None, "three partitions")
    same("3600000", retention(a, topic))
    a.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "7200000"})])
    same("7200000", retention(a, topic))
    name = PREFIX + "-administered"
    c = consumer(name)
    c.assign([TopicPartition(topic, 0)])
    c.commit({TopicPartition(topic, 0): OffsetAndMetadata(0, "", -1)})
    c.close()
    same(True, name in str(a.list_groups()))
    same(True, name in str(a.describe_groups([name])))
    a.delete_groups([name])
    a.delete_topics([topic])
    until(lambda: topic not in str(a.list_topics()), lambda: None, "the topic is gone")
    a.close()


def transactions():
    p = KafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=PREFIX, transaction_timeout_ms=30000)
    p.init_transactions()
    name, kept = PREFIX + "-transactional", values("kept", 10)
    at = TopicPartition(TRANSACTIONS, 0)
    c = consumer(name, isolation_level="read_committed")
    c.assign([at])
    for records, end in ((kept, p.commit_transaction), (values("aborted", 10), p.abort_transaction), ([b"last"], p.commit_transaction)):
        p.begin_transaction()
        for value in records:
            p.send(TRANSACTIONS, value, partition=0)
        p.flush()
        p.send_offsets_to_transaction({at: OffsetAndMetadata(len(records), "", -1)}, c.group_metadata())
        end()
    until(lambda: c.committed(at) == 1, lambda: None, "the last offset is committed")  # Kafka ends transactions afterwards
    got = []
    c.seek(at, 0)
    until(lambda: (TRANSACTIONS, b"last") in got, lambda: take(c, got), "the last record")
    same(kept + [b"last"], [v for _, v in got])
    c.close()
    p.close()


if __name__ == "__main__":
    run([("list", list_topics), ("regex", regex), *[(name, codec(name)) for name in CODECS], ("group", group), ("admin", administer),
         ("transactions", transactions)])
