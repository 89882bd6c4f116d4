"""Consumers of librdkafka of any configuration that tell which partitions they have: a line of JSON in, one out."""

import json
import sys
import threading

from confluent_kafka import Consumer, KafkaException


class Member:
    def __init__(self, job):
        self.lock = threading.Lock()
        self.has = set()
        self.revoked = 0
        self.records = 0
        self.failure = ""
        self.closing = threading.Event()
        config = {"auto.offset.reset": "earliest", "auto.commit.interval.ms": 100, **job["config"]}
        self.consumer = Consumer(config)
        self.consumer.subscribe([job["topic"]], on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_revoke)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def on_assign(self, _, partitions):
        with self.lock:
            self.has |= {p.partition for p in partitions}

    def on_revoke(self, _, partitions):
        with self.lock:
            self.revoked += len(partitions)
            self.has -= {p.partition for p in partitions}

    def read(self):
        try:
            while not self.closing.is_set():
                message = self.consumer.poll(0.05)
                if message is None:
                    continue
                if message.error():
                    raise KafkaException(message.error())
                with self.lock:
                    self.records += 1
            self.consumer.close()
        except Exception as error:  # whatever it is, the test wants to see it
            self.failure = f"{type(error).__name__}: {error}"

    def view(self):
        with self.lock:
            return {"assigned": sorted(self.has), "revoked": self.revoked, "records": self.records, "failure": self.failure}


def main():
    members = {}
    for line in sys.stdin:
        job = json.loads(line)
        try:
            if job["op"] == "join":
                members[job["name"]] = Member(job)
            member = members[job["name"]]
            if job["op"] == "leave":
                member.closing.set()
                member.thread.join()
            answer = member.view()
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


main()
