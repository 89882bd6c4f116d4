"""Reads a topic as a group to the end of every partition by librdkafka, and commits that: a line of JSON in, one out."""

import json
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

WAIT = 60  # seconds


def passes(job):
    consumer = Consumer({
        "bootstrap.servers": job["bootstrap"], "group.id": job["group"], "isolation.level": job["isolation"],
        "auto.offset.reset": "earliest", "enable.auto.commit": False, "enable.partition.eof": True,
    })
    try:
        consumer.subscribe([job["topic"]])
        keys, ends = [], {}
        deadline = time.monotonic() + WAIT
        while not ends or len(ends) < len(consumer.assignment()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"read {keys}, at the end of {ends}")
            m = consumer.poll(0.2)
            if m is None:
                continue
            if m.error() is None:
                keys.append(m.key().decode())
            elif m.error().code() == KafkaError._PARTITION_EOF:
                ends[m.partition()] = m.offset()
            else:
                raise KafkaException(m.error())
        consumer.commit(offsets=[TopicPartition(job["topic"], p, offset) for p, offset in ends.items()], asynchronous=False)
        return {"keys": keys}
    finally:
        consumer.close()


def main():
    for line in sys.stdin:
        try:
            answer = passes(json.loads(line))
        except Exception as error:  # whatever it is, the test wants to see it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


main()
