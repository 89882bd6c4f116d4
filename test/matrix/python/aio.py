"""Checks aiokafka."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from checks import BOOTSTRAP, CODECS, PREFIX, RECORDS, REGEX, REGEX_TOPICS, SHARED, TRANSACTIONS, WAIT, run, same, values


async def until(done, step, what):
    async def loop():
        while not await maybe(done()):
            await step()
    try:
        await asyncio.wait_for(loop(), WAIT)
    except asyncio.TimeoutError:
        raise TimeoutError(f"not in {WAIT} s: {what}") from None


async def maybe(value):
    return await value if asyncio.iscoroutine(value) else value


async def started(client):
    await client.start()
    return client


async def consumer(group, **more):
    return await started(AIOKafkaConsumer(
        bootstrap_servers=BOOTSTRAP, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        session_timeout_ms=6000, heartbeat_interval_ms=300, fetch_max_wait_ms=50, **more,
    ))


async def produce(topic, records, partition=None, **more):
    producer = await started(AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, **more))
    await asyncio.gather(*[await producer.send(topic, value, partition=partition) for value in records])
    await producer.stop()


async def take(c, into):
    for records in (await c.getmany(timeout_ms=100)).values():
        into.extend((r.topic, r.value) for r in records)


async def list_topics():
    c = await consumer(None)
    same(True, {RECORDS, SHARED} <= await c.topics())
    await c.stop()
    a = await started(AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP))
    same(5, len((await a.describe_topics([RECORDS]))[0]["partitions"]))
    await a.close()


async def regex():
    for topic in REGEX_TOPICS:
        await produce(topic, [topic.encode()], 0)
    c, got = await consumer(PREFIX + "-regex"), []
    c.subscribe(pattern=REGEX)
    await until(lambda: len(got) >= 2, lambda: take(c, got), "a record of each topic")
    same(sorted((t, t.encode()) for t in REGEX_TOPICS), sorted(got))
    same(4, len(c.assignment()))
    await c.stop()


def codec(name):
    async def check():
        partition, want = CODECS.index(name), values(name)
        kind = None if name == "none" else name
        await produce(RECORDS, want, partition, compression_type=kind, linger_ms=50, enable_idempotence=partition % 2 == 0)
        c, got = await consumer(None), []
        at = TopicPartition(RECORDS, partition)
        c.assign([at])
        c.seek(at, 0)
        await until(lambda: len(got) >= len(want), lambda: take(c, got), "all records")
        same(want, [v for _, v in got])
        await c.stop()
    return check


async def group():
    name, got = PREFIX + "-group", []
    want = values("group")

    async def both():
        await take(a, got)
        await take(b, got)
    a, b = await consumer(name), await consumer(name)
    a.subscribe([SHARED])
    await until(lambda: len(a.assignment()) == 4, lambda: take(a, got), "one member has all partitions")
    b.subscribe([SHARED])
    await until(lambda: len(a.assignment()) == len(b.assignment()) == 2, both, "two members share")
    for partition in range(4):
        await produce(SHARED, want[partition::4], partition)
    await until(lambda: len(got) >= len(want), both, "all records")
    same(sorted(want), sorted(v for _, v in got))
    await a.commit()
    await b.commit()
    await a.stop()
    await until(lambda: len(b.assignment()) == 4, lambda: take(b, got), "the last member has all partitions")
    same([25] * 4, [await b.committed(TopicPartition(SHARED, p)) for p in range(4)])
    await b.stop()


async def retention(admin, topic):
    described = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    return {entry[0]: entry[1] for entry in described[0].resources[0][4]}["retention.ms"]


async def administer():
    a, topic = await started(AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)), PREFIX + "-made"

    async def partitions():
        return len((await a.describe_topics([topic]))[0]["partitions"]) == 3

    async def gone():
        return topic not in await a.list_topics()
    pause = lambda: asyncio.sleep(0.05)  # noqa: E731
    await a.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "3600000"})])
    await a.create_partitions({topic: NewPartitions(3)})
    await until(partitions, pause, "three partitions")
    same("3600000", await retention(a, topic))
    await a.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "7200000"})])
    same("7200000", await retention(a, topic))
    name = PREFIX + "-administered"
    c = await consumer(name)
    c.assign([TopicPartition(topic, 0)])
    await c.commit({TopicPartition(topic, 0): 0})
    await c.stop()
    same(True, name in str(await a.list_consumer_groups()))
    same(True, name in str(await a.describe_consumer_groups([name])))
    await a.delete_topics([topic])
    await until(gone, pause, "the topic is gone")
    await a.close()


async def transactions():
    p = await started(AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=PREFIX, transaction_timeout_ms=30000))
    name, kept = PREFIX + "-transactional", values("kept", 10)
    at = TopicPartition(TRANSACTIONS, 0)
    c = await consumer(name, isolation_level="read_committed")
    c.assign([at])
    for records, end in ((kept, p.commit_transaction), (values("aborted", 10), p.abort_transaction), ([b"last"], p.commit_transaction)):
        await p.begin_transaction()
        for value in records:
            await p.send_and_wait(TRANSACTIONS, value, partition=0)
        await p.send_offsets_to_transaction({at: len(records)}, name)
        await end()

    async def committed():
        return await c.committed(at) == 1
    await until(committed, lambda: asyncio.sleep(0.05), "the last offset is committed")  # Kafka ends transactions afterwards
    got = []
    c.seek(at, 0)
    await until(lambda: (TRANSACTIONS, b"last") in got, lambda: take(c, got), "the last record")
    same(kept + [b"last"], [v for _, v in got])
    await c.stop()
    await p.stop()


def alone(check):
    return lambda: asyncio.run(check())


if __name__ == "__main__":
    run([(name, alone(check)) for name, check in [
        ("list", list_topics), ("regex", regex), *[(name, codec(name)) for name in CODECS], ("group", group), ("admin", administer),
        ("transactions", transactions)]])
