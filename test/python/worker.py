"""Does Kafka client jobs by librdkafka (confluent-kafka): a line of JSON in, a line of JSON out."""

import base64
import json
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

WAIT = 60  # seconds


def to_bytes(text):
    return None if text is None else base64.b64decode(text)


def to_text(data):
    return None if data is None else base64.b64encode(data).decode()


def create(job):
    admin = AdminClient({"bootstrap.servers": job["bootstrap"]})
    topic = NewTopic(job["topic"], num_partitions=job["partitions"], replication_factor=1, config=job.get("configs") or {})
    for done in admin.create_topics([topic]).values():
        done.result()
    return {}


def produce(job):
    config = {
        "bootstrap.servers": job["bootstrap"],
        "compression.codec": job["codec"],
        "acks": job["acks"],
        "enable.idempotence": job["idempotent"],
        "linger.ms": 20,
        "message.max.bytes": 1 << 25,
        "request.timeout.ms": WAIT * 1000,  # without idempotence a batch sent again is there twice
    }
    if job.get("batchBytes"):
        config["batch.size"] = job["batchBytes"]
    if job.get("metadataMs"):
        config["topic.metadata.refresh.interval.ms"] = job["metadataMs"]
    producer = Producer(config)
    results = [None] * len(job["records"])

    def delivered(i):
        def note(error, message):
            if error is not None:
                results[i] = {"offset": -1, "error": f"{error.name()}: {error.str()}"}
                return
            offset = message.offset()
            results[i] = {"offset": -1 if offset is None or offset < 0 else offset, "timestamp": message.timestamp()[1]}

        return note

    for i, r in enumerate(job["records"]):
        options = {"timestamp": r["timestamp"]} if r.get("timestamp") else {}
        headers = [(h["key"], to_bytes(h["value"])) for h in r.get("headers") or []]
        producer.produce(
            job["topic"], value=to_bytes(r["value"]), key=to_bytes(r["key"]), partition=r["partition"],
            headers=headers, on_delivery=delivered(i), **options,
        )
        producer.poll(job.get("pauseMs", 0) / 1000)
    producer.flush(WAIT)
    for i, result in enumerate(results):
        if result is None:
            results[i] = {"offset": -1, "error": "not delivered in time"}
    return {"results": results}


def consumer_of(job):
    return Consumer({
        "bootstrap.servers": job["bootstrap"], "group.id": "unused", "enable.auto.commit": False,
        "auto.offset.reset": "error", "enable.partition.eof": False, "fetch.wait.max.ms": 20, "fetch.message.max.bytes": 1 << 24,
    })


def start(consumer, job):
    at = job["from"]
    if at == "earliest":
        return OFFSET_BEGINNING
    if at == "latest":
        return OFFSET_END
    if at == "timestamp":
        found = consumer.offsets_for_times([TopicPartition(job["topic"], job["partition"], job["at"])], timeout=WAIT)
        return found[0].offset
    return job["at"]


def consume(job):
    consumer = consumer_of(job)
    try:
        consumer.assign([TopicPartition(job["topic"], job["partition"], start(consumer, job))])
        records = []
        deadline = time.monotonic() + WAIT
        while len(records) < job["count"]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"read {len(records)} of {job['count']} records")
            for m in consumer.consume(job["count"] - len(records), timeout=0.05):
                if m.error():
                    raise KafkaException(m.error())
                kind, timestamp = m.timestamp()
                records.append({
                    "partition": m.partition(), "offset": m.offset(), "timestamp": timestamp,
                    "logAppend": kind == TIMESTAMP_LOG_APPEND_TIME, "key": to_text(m.key()), "value": to_text(m.value()),
                    "headers": [{"key": k, "value": to_text(v)} for k, v in m.headers() or []],
                })
        return {"records": records}
    finally:
        consumer.close()


def offsets(job):
    consumer = consumer_of(job)
    partition = TopicPartition(job["topic"], job["partition"])
    try:
        low, high = consumer.get_watermark_offsets(partition, timeout=WAIT)
        times = []
        for at in job["timestamps"]:
            found = consumer.offsets_for_times([TopicPartition(job["topic"], job["partition"], at)], timeout=WAIT)[0].offset
            times.append({"offset": -1 if found == OFFSET_END else found, "timestamp": 0})
    finally:
        consumer.close()
    admin = AdminClient({"bootstrap.servers": job["bootstrap"]})
    latest = list(admin.list_offsets({partition: OffsetSpec.max_timestamp()}).values())[0].result()
    return {"earliest": low, "latest": high, "times": times, "max": {"offset": latest.offset, "timestamp": latest.timestamp}}


JOBS = {"create": create, "produce": produce, "consume": consume, "offsets": offsets}


def main():
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = JOBS[job["op"]](job)
        except Exception as error:  # whatever it is, the test wants to see it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


main()
