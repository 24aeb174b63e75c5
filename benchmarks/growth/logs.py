"""More and more logs in a database, consumers of a log, and events that it keeps.

Commits wait for no disk here: what is looked for is what the statements cost, and a flush would hide it.

Invariant: what is measured is one log and one consumer, the same at every size, which reads what is new.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

import psycopg

import rowbus
from benchmarks.growth.curves import Figures, Line, Share, curves, decades, ladder, sample_growing
from benchmarks.growth.showing import show
from benchmarks.log_databases import CONSUMER, QUEUE, ours
from benchmarks.log_producing import DATA
from benchmarks.reporting import Bench, Result

LOGS, CONSUMERS = (1, 10, 100, 500), (1, 10, 50, 200)
EVENTS = 1_000_000
TICK_EVERY = 10_000  # events
BATCH = 100
TIMES = 50
FLAT = Share(0.9)
LINES = {
    "append": Line("append one event", "ms", FLAT),
    "tick": Line("a tick", "ms", FLAT),
    "batch": Line(f"a batch of {BATCH} events", "ms", FLAT),
    "look": Line("a look for a batch, in vain", "ms", FLAT),
}

Connection = psycopg.Connection[tuple[Any, ...]]


def logs(bench: Bench) -> list[Result]:
    """(4) Logs."""
    found = _grow(bench, ladder(LOGS, LOGS[-1] * bench.scale), _create_logs)
    return show(bench, curves("logs of a database", "logs", LINES, found))


def consumers(bench: Bench) -> list[Result]:
    """(4) Consumers of one log."""
    found = _grow(bench, ladder(CONSUMERS, CONSUMERS[-1] * bench.scale), _register_consumers)
    return show(bench, curves("consumers of a log", "consumers", LINES, found))


def retained(bench: Bench) -> list[Result]:
    """(4) Events that a log keeps."""
    found = _grow(bench, decades(1_000, max(1_000, int(EVENTS * bench.scale))), _append)
    return show(bench, curves("events that a log keeps", "events", LINES, found))


def _grow(bench: Bench, sizes: list[int], grow: Callable[[Connection, int, int], None]) -> dict[int, Figures]:
    database = ours(bench.dsn, "growth")
    reached = 0
    with database.connect() as connection:
        connection.execute("set synchronous_commit to off")

        def to(size: int) -> None:
            nonlocal reached
            grow(connection, reached, size)
            connection.execute("vacuum analyze")
            reached = size

        return sample_growing(sizes, to, lambda: _measure(connection), bench.rounds)


def _create_logs(connection: Connection, reached: int, size: int) -> None:
    for number in range(max(1, reached), size):  # one is there
        connection.execute("select pgq.create_queue(%s)", (f"other{number}",))


def _register_consumers(connection: Connection, reached: int, size: int) -> None:
    for number in range(max(1, reached), size):  # one is the consumer that reads
        connection.execute("select pgq.register_consumer(%s, %s)", (QUEUE, f"other{number}"))


def _append(connection: Connection, reached: int, size: int) -> None:
    log = rowbus.Log(connection, QUEUE)
    for begun in range(reached, size, TICK_EVERY):
        log.append_many(repeat(("order_placed", DATA), min(TICK_EVERY, size - begun)))
        connection.execute("select pgq.ticker(%s)", (QUEUE,))


def _measure(connection: Connection) -> Figures:
    connection.execute("select pgq.unregister_consumer(%s, %s)", (QUEUE, CONSUMER))
    connection.execute("select pgq.register_consumer(%s, %s)", (QUEUE, CONSUMER))
    runs = [_loop(connection) for _ in range(TIMES)]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def _loop(connection: Connection) -> Figures:
    """Append, tick, read a batch, and look for another."""
    events = "select count(pgq.insert_event(%s, 'order_placed', %s)) from generate_series(1, %s)"
    connection.execute(events, (QUEUE, DATA, BATCH - 1))
    return {
        "append": _took(
            lambda: connection.execute("select pgq.insert_event(%s, 'order_placed', %s)", (QUEUE, DATA))
        ),
        "tick": _took(lambda: connection.execute("select pgq.ticker(%s)", (QUEUE,))),
        "batch": _took(lambda: _read(connection)),
        "look": _took(lambda: connection.execute("select pgq.next_batch(%s, %s)", (QUEUE, CONSUMER))),
    }


def _read(connection: Connection) -> None:
    with connection.transaction():
        batch = connection.execute("select pgq.next_batch(%s, %s)", (QUEUE, CONSUMER)).fetchone()
        events = connection.execute("select * from pgq.get_batch_events(%s)", batch).fetchall()
        connection.execute("select pgq.finish_batch(%s)", batch)
    assert len(events) == BATCH, len(events)


def _took(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1_000
