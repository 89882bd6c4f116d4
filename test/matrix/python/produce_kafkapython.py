"""Writes a topic with an idempotent producer of kafka-python, a record after each pause, until its standard input ends.

A value is NAME-NUMBER, a space and padding. It prints "acked NAME-NUMBER" or "failed NAME-NUMBER ERROR" for each record. Arguments: bootstrap, topic, name,
bytes of padding, pause and metadata age in milliseconds.
"""

import sys
import threading
import time

from kafka import KafkaProducer

BOOTSTRAP, TOPIC, NAME = sys.argv[1:4]
BYTES, PAUSE, AGE = map(int, sys.argv[4:7])

ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
p = KafkaProducer(bootstrap_servers=BOOTSTRAP.split(","), enable_idempotence=True, acks="all", metadata_max_age_ms=AGE)


def say(word):
    return lambda _: print("acked", word, flush=True), lambda e: print("failed", word, repr(e), flush=True)


number = 0
while not ended.is_set():
    word = f"{NAME}-{number}"
    acked, failed = say(word)
    p.send(TOPIC, f"{word} {'x' * BYTES}".encode()).add_callback(acked).add_errback(failed)
    number += 1
    time.sleep(PAUSE / 1000)
p.flush()
p.close()
