"""Members of consumer groups by librdkafka that tell what happens to them: a line of JSON in, a line of JSON out."""

import json
import sys
import threading

from confluent_kafka import Consumer


class Member:
    """One member, which reads and commits by itself."""

    def __init__(self, job):
        self.lock = threading.Lock()
        self.view = {"assigned": 0, "assignments": 0, "revocations": 0, "losses": 0, "records": 0, "breaks": 0}
        self.next = {}
        self.ended = threading.Event()
        config = {
            "bootstrap.servers": job["bootstrap"], "group.id": job["group"], "group.protocol": job["protocol"],
            "auto.offset.reset": "earliest", "auto.commit.interval.ms": 200,
        }
        self.consumer = Consumer(config)
        self.consumer.subscribe([job["topic"]], on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_lost)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            while not self.ended.is_set():
                message = self.consumer.poll(0.1)
                with self.lock:
                    self.view["member"] = self.consumer.memberid() or ""
                if message is None:
                    continue
                if message.error():
                    if message.error().fatal():
                        raise RuntimeError(str(message.error()))
                    continue  # a broker that is away, which the library gets over
                self.note(message)
            self.consumer.close()
        except Exception as error:  # whatever it is, the test wants to see it
            with self.lock:
                self.view["failure"] = f"{type(error).__name__}: {error}"

    def note(self, message):
        with self.lock:
            expected = self.next.get(message.partition())
            self.next[message.partition()] = message.offset() + 1
            self.view["records"] += 1
            if expected is not None and expected != message.offset():
                self.view["breaks"] += 1

    def count(self, name, partitions, sign):
        with self.lock:
            self.view[name] += 1
            self.view["assigned"] += sign * len(partitions)

    def on_assign(self, _, partitions):
        self.count("assignments", partitions, 1)

    def on_revoke(self, _, partitions):
        self.count("revocations", partitions, -1)

    def on_lost(self, _, partitions):
        self.count("losses", partitions, -1)

    def leave(self):
        self.ended.set()
        self.thread.join()


def main():
    members = {}
    for line in sys.stdin:
        job = json.loads(line)
        if job["op"] == "join":
            members[job["name"]] = Member(job)
        member = members[job["name"]]
        if job["op"] == "leave":
            member.leave()
        with member.lock:
            print(json.dumps(member.view), flush=True)


main()
