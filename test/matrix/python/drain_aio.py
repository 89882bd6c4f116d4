"""Reads a topic with aiokafka until it is killed, and prints each value. Arguments: bootstrap, topic, group or "" for an assigned consumer, client ID or ""."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, TopicPartition

BOOTSTRAP, TOPIC, GROUP, CLIENT = sys.argv[1:5]


async def main():
    c = AIOKafkaConsumer(
        bootstrap_servers=BOOTSTRAP, group_id=GROUP or None, client_id=CLIENT or "aiokafka", auto_offset_reset="earliest", enable_auto_commit=False
    )
    if GROUP:
        c.subscribe([TOPIC])
    await c.start()
    if not GROUP:
        c.assign([TopicPartition(TOPIC, p) for p in (0, 1)])
    while True:
        for records in (await c.getmany(timeout_ms=200)).values():
            for r in records:
                print("read", r.value.decode(), flush=True)


asyncio.run(main())
