"""Reads a topic with kafka-python until it is killed, and prints each value up to its first space.

Arguments: bootstrap, topic, group or "" for an assigned consumer, client ID or "", and optionally a metadata age in milliseconds. With an age, positions
are committed each second.
"""

import sys

from kafka import KafkaConsumer, TopicPartition

BOOTSTRAP, TOPIC, GROUP, CLIENT = sys.argv[1:5]
MORE = {"enable_auto_commit": False}
if len(sys.argv) > 5:
    MORE = {"enable_auto_commit": True, "auto_commit_interval_ms": 1000, "metadata_max_age_ms": int(sys.argv[5])}

c = KafkaConsumer(
    bootstrap_servers=BOOTSTRAP.split(","), group_id=GROUP or None, client_id=CLIENT or "kafka-python", auto_offset_reset="earliest", **MORE
)
if GROUP:
    c.subscribe([TOPIC])
else:
    c.assign([TopicPartition(TOPIC, p) for p in c.partitions_for_topic(TOPIC)])
while True:
    for records in c.poll(200).values():
        for r in records:
            print("read", r.value.decode().partition(" ")[0], flush=True)
