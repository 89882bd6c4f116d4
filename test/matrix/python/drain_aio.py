"""Reads a topic with aiokafka until it is killed, and prints each value up to its first space.

Arguments: bootstrap, topic, group or "" for an assigned consumer, client ID or "", and optionally a metadata age in milliseconds. With an age, positions
are committed each second.
"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, TopicPartition

BOOTSTRAP, TOPIC, GROUP, CLIENT = sys.argv[1:5]
MORE = {"enable_auto_commit": False}
if len(sys.argv) > 5:
    MORE = {"enable_auto_commit": True, "auto_commit_interval_ms": 1000, "metadata_max_age_ms": int(sys.argv[5])}


async def main():
    c = AIOKafkaConsumer(
        bootstrap_servers=BOOTSTRAP.split(","), group_id=GROUP or None, client_id=CLIENT or "aiokafka", auto_offset_reset="earliest", **MORE
    )
    if GROUP:
        c.subscribe([TOPIC])
    await c.start()
    if not GROUP:
        c.assign([TopicPartition(TOPIC, p) for p in (0, 1)])
    while True:
        for records in (await c.getmany(timeout_ms=200)).values():
            for r in records:
                print("read", r.value.decode().partition(" ")[0], flush=True)


asyncio.run(main())
