"""A producer and members of groups by librdkafka that run while a cluster grows and shrinks: a line of JSON in, a line of
JSON out."""

import json
import sys
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition

MAX_FAULTS = 5


class Writer:
    """Writes a numbered record into each partition in turn, and notes how long each took to be acknowledged, and where."""

    def __init__(self, job):
        self.name, self.topic, self.interval = job["name"], job["topic"], job["intervalMs"] / 1000
        self.lock = threading.Lock()
        self.offsets = [[] for _ in range(job["partitions"])]
        self.micros, self.failures = [], []
        self.pending = {}  # when each was sent, in that order
        self.over = threading.Event()
        self.producer = Producer(job["config"])
        self.thread = threading.Thread(target=self.write, daemon=True)
        self.thread.start()

    def write(self):
        due = time.monotonic()
        while not self.over.is_set():
            for partition in range(len(self.offsets)):
                self.send(partition)
            due += self.interval
            while (left := due - time.monotonic()) > 0:
                self.producer.poll(left)
            self.producer.poll(0)

    def send(self, partition):
        began = time.monotonic()
        with self.lock:
            seq = len(self.offsets[partition])
            self.offsets[partition].append(-1)
            self.pending[(partition, seq)] = began

        def delivered(error, message):
            with self.lock:
                del self.pending[(partition, seq)]
                if error is None:
                    self.micros.append(int((time.monotonic() - began) * 1e6))
                    offset = message.offset()
                    self.offsets[partition][seq] = -2 if offset is None or offset < 0 else offset
                elif len(self.failures) < MAX_FAULTS:
                    self.failures.append(f"{partition}/{seq}: {error}")

        value = f"{self.name}/{partition}/{seq}"
        self.producer.produce(self.topic, value, key=f"key-{seq % 16}", partition=partition, on_delivery=delivered)

    def mark(self):
        with self.lock:
            micros, self.micros = self.micros, []
            answer = {"micros": micros, "failures": list(self.failures)}
            for began in self.pending.values():
                return {**answer, "oldest": int((time.monotonic() - began) * 1e6)}
            return answer

    def finish(self):
        self.over.set()
        self.thread.join()
        self.producer.flush(60)
        return {**self.mark(), "offsets": self.offsets}


class Member:
    """One member of a group, which reads and commits by itself, or a reader of all partitions without one."""

    def __init__(self, job):
        self.lock = threading.Lock()
        self.view = {"assigned": 0, "changes": 0, "losses": 0}
        self.faults, self.runs, self.open = [], [], {}  # open by (partition, writer)
        self.ended = threading.Event()
        self.consumer = Consumer(job["config"])
        if job.get("partitions"):
            self.consumer.assign([TopicPartition(job["topic"], p, 0) for p in range(job["partitions"])])
        else:
            self.consumer.subscribe([job["topic"]], on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_lost)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            while not self.ended.is_set():
                for message in self.consumer.consume(200, timeout=0.1):
                    if message.error() is None:
                        self.note(message)
                    elif not message.error().retriable():
                        raise RuntimeError(str(message.error()))
            self.consumer.close()
        except Exception as error:  # whatever it is, the test wants to see it
            self.fault(f"{type(error).__name__}: {error}")

    def note(self, message):
        writer, _, number = message.value().decode().rsplit("/", 2)
        seq, key = int(number), (message.partition(), writer)
        with self.lock:
            run = self.open.get(key)
            if run is None:
                run = {"writer": writer, "partition": message.partition(), "first": seq, "next": seq}
                self.open[key] = run
                self.runs.append(run)
            expected, run["next"] = run["next"], seq + 1
        if expected != seq:
            self.fault(f"{message.value().decode()} at offset {message.offset()} where {expected} was to come")

    def fault(self, what):
        with self.lock:
            if len(self.faults) < MAX_FAULTS:
                self.faults.append(what)

    def count(self, partitions, sign):
        with self.lock:
            self.view["changes"] += 1
            self.view["assigned"] += sign * len(partitions)

    def on_assign(self, _, partitions):
        with self.lock:
            for p in partitions:
                self.open = {key: run for key, run in self.open.items() if key[0] != p.partition}
        self.count(partitions, 1)

    def on_revoke(self, _, partitions):
        self.count(partitions, -1)

    def on_lost(self, _, partitions):
        self.count(partitions, -1)
        with self.lock:
            self.view["losses"] += 1

    def look(self):
        with self.lock:
            return {**self.view, "faults": list(self.faults), "runs": [dict(r) for r in self.runs]}

    def leave(self):
        self.ended.set()
        self.thread.join()
        return self.look()


def main():
    writer, members = None, {}
    for line in sys.stdin:
        job, answer = json.loads(line), {}
        op = job["op"]
        if op == "write":
            writer = Writer(job)
        elif op == "mark":
            answer = writer.mark()
        elif op == "finish":
            answer = writer.finish()
        elif op == "join":
            members[job["name"]] = Member(job)
        elif op == "look":
            answer = members[job["name"]].look()
        elif op == "leave":
            answer = members[job["name"]].leave()
        else:
            answer = {"error": "no such op"}
        print(json.dumps(answer), flush=True)


main()
