"""Reads a topic with confluent-kafka until it is killed, and prints each value. Arguments: bootstrap, topic, group, client ID or ""."""

import sys

from confluent_kafka import Consumer

BOOTSTRAP, TOPIC, GROUP, CLIENT = sys.argv[1:5]

c = Consumer({
    "bootstrap.servers": BOOTSTRAP, "group.id": GROUP, "client.id": CLIENT or "rdkafka", "auto.offset.reset": "earliest", "enable.auto.commit": False,
})
c.subscribe([TOPIC])
while True:
    r = c.poll(0.2)
    if r is not None and not r.error():
        print("read", r.value().decode(), flush=True)
