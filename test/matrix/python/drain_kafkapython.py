"""Reads a topic with kafka-python until it is killed, and prints each value. Arguments: bootstrap, topic, group or "" for an assigned consumer, client ID or ""."""

import sys

from kafka import KafkaConsumer, TopicPartition

BOOTSTRAP, TOPIC, GROUP, CLIENT = sys.argv[1:5]

c = KafkaConsumer(
    bootstrap_servers=BOOTSTRAP, group_id=GROUP or None, client_id=CLIENT or "kafka-python", auto_offset_reset="earliest", enable_auto_commit=False
)
if GROUP:
    c.subscribe([TOPIC])
else:
    c.assign([TopicPartition(TOPIC, p) for p in c.partitions_for_topic(TOPIC)])
while True:
    for records in c.poll(200).values():
        for r in records:
            print("read", r.value.decode(), flush=True)
