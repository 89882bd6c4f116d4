"""Produces records of 1 KiB with librdkafka's defaults until it is killed. Prints a line every 5 s in the form of kafka-producer-perf-test.
Arguments: bootstrap, topic, enable.idempotence."""

import sys
import time

from confluent_kafka import Producer

BOOTSTRAP, TOPIC, IDEMPOTENT = sys.argv[1:4]
VALUE = b"x" * 1024
INTERVAL = 5

p = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": IDEMPOTENT})
acked = latency = 0


def delivered(err, record):
    global acked, latency
    if err is not None:
        print("error", err, flush=True)
        return
    acked += 1
    latency += record.latency()


began = time.monotonic()
while True:
    try:
        p.produce(TOPIC, VALUE, on_delivery=delivered)
        p.poll(0)
    except BufferError:
        p.poll(0.01)
    now = time.monotonic()
    if now - began >= INTERVAL:
        rate = acked / (now - began)
        print(f"{acked} records sent, {rate:.1f} records/sec ({rate / 1024:.2f} MB/sec), {1000 * latency / max(acked, 1):.1f} ms avg latency", flush=True)
        began, acked, latency = now, 0, 0
