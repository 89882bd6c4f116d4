"""Runs the checks of one client library against one cluster and prints a line of JSON for each."""

import json
import sys
import time
import traceback

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
WAIT = 150  # seconds, on a busy machine

# BOOTSTRAP is the cluster; PREFIX begins the names of all topics, groups and transactional ids of this run.
BOOTSTRAP, PREFIX = sys.argv[1], sys.argv[2]
RECORDS = PREFIX + "-records"  # five partitions, one for each codec
SHARED = PREFIX + "-shared"  # four partitions
REGEX = "^" + PREFIX + "-regex-.*"  # two topics of two partitions each
REGEX_TOPICS = [PREFIX + "-regex-a", PREFIX + "-regex-b"]
TRANSACTIONS = PREFIX + "-transactions"  # one partition


def run(checks):
    """Runs each check: an exception is the reason why the library differs."""
    for name, check in checks:
        began = time.monotonic()
        result = {"check": name, "ok": True}
        try:
            check()
        except Exception as e:  # the report is the purpose
            traceback.print_exc()
            result = {"check": name, "ok": False, "detail": f"{type(e).__name__}: {e}"}
        result["seconds"] = round(time.monotonic() - began, 2)
        print(json.dumps(result), flush=True)


def until(done, step, what):
    """Calls step until done() or the time is up."""
    limit = time.monotonic() + WAIT
    while not done():
        if time.monotonic() > limit:
            raise TimeoutError(f"not in {WAIT} s: {what}")
        step()


def same(want, got):
    if want != got:
        raise AssertionError(f"want {want!r}, got {got!r}")


def values(word, n=100):
    return [f"{word} {i} ".encode() + b"x" * i for i in range(n)]
