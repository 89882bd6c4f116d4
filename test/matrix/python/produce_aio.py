"""Writes a topic with an idempotent producer of aiokafka, a record after each pause, until its standard input ends.

A value is NAME-NUMBER, a space and padding. It prints "acked NAME-NUMBER" or "failed NAME-NUMBER ERROR" for each record. Arguments: bootstrap, topic, name,
bytes of padding, pause and metadata age in milliseconds.
"""

import asyncio
import sys
import threading

from aiokafka import AIOKafkaProducer

BOOTSTRAP, TOPIC, NAME = sys.argv[1:4]
BYTES, PAUSE, AGE = map(int, sys.argv[4:7])

ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()


def say(word):
    def done(future):
        if future.exception() is None:
            print("acked", word, flush=True)
        else:
            print("failed", word, repr(future.exception()), flush=True)
    return done


async def main():
    p = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP.split(","), enable_idempotence=True, metadata_max_age_ms=AGE)
    await p.start()
    number = 0
    while not ended.is_set():
        word = f"{NAME}-{number}"
        (await p.send(TOPIC, f"{word} {'x' * BYTES}".encode())).add_done_callback(say(word))
        number += 1
        await asyncio.sleep(PAUSE / 1000)
    await p.stop()


asyncio.run(main())
