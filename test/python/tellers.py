"""The life of a transactional producer by librdkafka (confluent-kafka): a line of JSON in, a line of JSON out."""

import json
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer

WAIT = 60  # seconds


def producer_of(job):
    producer = Producer({"bootstrap.servers": job["bootstrap"], "transactional.id": job["name"]})
    producer.init_transactions(WAIT)
    return producer


def tell(job):
    topic = job["topic"]
    first = producer_of(job)
    first.begin_transaction()
    first.produce(topic, value="committed 0", partition=0)
    first.produce(topic, value="committed 1", partition=1)
    first.commit_transaction(WAIT)
    first.begin_transaction()
    first.produce(topic, value="aborted", partition=0)
    first.flush(WAIT)
    first.abort_transaction(WAIT)
    second = producer_of(job)
    fenced = False
    try:
        first.begin_transaction()
        first.produce(topic, value="fenced", partition=0)
        first.commit_transaction(WAIT)
    except KafkaException:
        fenced = True
    move(job, second)
    return {"fenced": fenced}


def move(job, producer):
    """Moves the source to the sink, with its offsets."""
    consumer = Consumer({
        "bootstrap.servers": job["bootstrap"], "group.id": job["group"], "isolation.level": "read_committed",
        "enable.auto.commit": False, "auto.offset.reset": "earliest",
    })
    consumer.subscribe([job["source"]])
    moved = 0
    deadline = time.monotonic() + WAIT
    try:
        while moved < job["count"]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"moved {moved}")
            messages = consumer.consume(3, timeout=0.5)
            if not messages:
                continue
            producer.begin_transaction()
            for m in messages:
                if m.error():
                    raise KafkaException(m.error())
                producer.produce(job["sink"], value=m.value())
                moved += 1
            producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), WAIT)
            producer.commit_transaction(WAIT)
    finally:
        consumer.close()


def main():
    for line in sys.stdin:
        try:
            answer = tell(json.loads(line))
        except Exception as error:  # whatever it is, the test wants to see it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


main()
