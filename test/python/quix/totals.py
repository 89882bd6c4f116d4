"""Sums the amounts of each customer with Quix Streams, exactly once: state, changelog, output and offsets are of one transaction.

Arguments: bootstrap.servers, a directory for state.
"""
import sys

from quixstreams import Application

bootstrap, state_dir = sys.argv[1:]
app = Application(
    broker_address=bootstrap,
    consumer_group="totals",
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    commit_interval=0.3,
    state_dir=state_dir,
    loglevel="WARNING",
)
payments = app.topic("payments", key_deserializer="str", value_deserializer="str")
totals = app.topic("totals", key_serializer="str", value_serializer="str")


def add(amount, state):
    total = state.get("total", 0) + int(amount)
    state.set("total", total)
    return str(total)


app.dataframe(payments).apply(add, stateful=True).to_topic(totals)
app.run()
