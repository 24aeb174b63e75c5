"""Larger and larger bodies, and more and more headers.

Invariant: what a message holds cannot be compressed.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Mapping

import psycopg

import rowbus
from benchmarks.growth.backlog import receive
from benchmarks.growth.curves import Figures, Line, curves, ladder, sample
from benchmarks.growth.showing import show
from benchmarks.reporting import Bench, Result
from benchmarks.workload import PlaceOrder, empty

BODIES = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 30_000_000)  # bytes
HEADERS = (1, 10, 50, 200)
BYTES = 50_000_000  # of all messages of a measurement
MOST, LEAST = 1_000, 3  # messages
LINES = {"send": Line("send", "ms a message"), "receive": Line("receive", "ms a message")}


def bodies(bench: Bench) -> list[Result]:
    """(6) Bodies."""

    def measure(size: int) -> Figures:
        message = PlaceOrder(random.Random(size).randbytes(size // 2).hex(), 9.5)
        count = max(LEAST, min(bench.messages(MOST), int(BYTES * bench.scale) // size))
        return _measure(bench.dsn, message, {}, count)

    found = sample(ladder(BODIES, BODIES[-1] * bench.scale), measure, bench.rounds)
    return show(bench, curves("bodies", "bytes", LINES, found))


def headers(bench: Bench) -> list[Result]:
    """(6) Headers."""

    def measure(count: int) -> Figures:
        own = {f"Bench.Header{number}": random.Random(number).randbytes(16).hex() for number in range(count)}
        return _measure(bench.dsn, PlaceOrder("42", 9.5), own, bench.messages(MOST))

    found = sample(HEADERS, measure, bench.rounds)
    return show(bench, curves("headers", "headers of one's own", LINES, found))


def _measure(dsn: str, message: PlaceOrder, own: Mapping[str, str], count: int) -> Figures:
    empty(dsn)
    took = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        client = rowbus.Client(connection)
        for _ in range(count):
            began = time.perf_counter()
            client.send("bench", message, headers=own)
            took.append((time.perf_counter() - began) * 1_000)
    return {"send": statistics.median(took), "receive": 1_000 / asyncio.run(receive(dsn, count, 1))}
