"""Sends a record with kafka-python set to a broker of version 0.10, and prints how that ends."""

import sys

from kafka import KafkaProducer

try:
    producer = KafkaProducer(
        bootstrap_servers=sys.argv[1], api_version=(0, 10), enable_idempotence=False, retries=1,
        request_timeout_ms=5000, delivery_timeout_ms=8000,
    )
    producer.send(sys.argv[2], b"old").get(30)
    print("sent")
except Exception as e:
    print(type(e).__name__)
