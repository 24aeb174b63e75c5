"""More and more processes that receive from one queue: endpoints, and loops by hand that run their statement.

Invariant: all of them rest before the messages are there; the clock stops when the queue is empty. What it measures is
the second wave of messages: sessions begin, and have the server's memory mapped, in the first.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing.synchronize import Event, Semaphore

import psycopg

import rowbus
from benchmarks.growth.curves import Figures, Line, Share, curves, ladder, sample
from benchmarks.growth.showing import show
from benchmarks.reporting import Bench, Result
from benchmarks.workload import TABLE, PlaceOrder, add, empty
from rowbus.database.postgresql.connection import Session
from rowbus.transport.receiving.decisions import FROM_THE_START, LowerBound

COUNTS, USUAL = (1, 2, 4, 8, 16, 32, 64), 64
PATIENCE = 120.0  # seconds until a process receives
PAUSE = 0.01  # seconds between two looks whether the queue is empty, or whether anything is there
BEST = Share(0.85, "best")
LINES = {
    "single": Line("receive, one a transaction", "msg/s", BEST, more_is_better=True),
    "batches": Line("receive, batches of 100", "msg/s", BEST, more_is_better=True),
    "single_by_hand": Line("psycopg by hand, one a transaction", "msg/s", more_is_better=True),
    "batches_by_hand": Line("psycopg by hand, batches of 100", "msg/s", more_is_better=True),
}
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])
Receive = Callable[[str, int, Semaphore, Event], None]
"""The work of a process: receive from a database so many at once, release the semaphore, end by the event."""


def workers(bench: Bench) -> list[Result]:
    """(3) Processes on one queue."""

    def measure(count: int) -> Figures:
        return {
            f"{key}{suffix}": _rate(bench.dsn, receive, count, bench.messages(messages), batch_size)
            for suffix, receive in (("", _receive), ("_by_hand", _receive_by_hand))
            for key, messages, batch_size in (("single", 20_000, 1), ("batches", 200_000, 100))
        }

    found = sample(ladder(COUNTS, USUAL * bench.scale), measure, bench.rounds)
    return show(bench, curves("processes on one queue", "processes", LINES, found))


def _rate(dsn: str, receive: Receive, count: int, messages: int, batch_size: int) -> float:
    empty(dsn)
    with (
        receiving(dsn, receive, count, batch_size),
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        _wave(connection, messages // 2)
        return messages / _wave(connection, messages)


def _wave(connection: psycopg.Connection, messages: int) -> float:
    """Send so many messages, and return the seconds until none is left."""
    with connection.transaction():
        add(connection, messages)
        Session(connection).run_all(TABLE.notify())
    began = time.perf_counter()
    while connection.execute("select exists (select from bench)").fetchone() == (True,):
        time.sleep(PAUSE)
    return time.perf_counter() - began


@contextmanager
def receiving(dsn: str, receive: Receive, count: int, batch_size: int) -> Generator[list[int]]:
    """Have so many processes receive meanwhile, and give their numbers."""
    ready, over = PROCESSES.Semaphore(0), PROCESSES.Event()
    started = [PROCESSES.Process(target=receive, args=(dsn, batch_size, ready, over)) for _ in range(count)]
    try:
        for process in started:
            process.start()
        for _ in started:
            assert ready.acquire(timeout=PATIENCE), "a process does not receive"
        yield [process.pid for process in started if process.pid is not None]
    finally:
        over.set()
        for process in started:
            process.join()


def _receive_by_hand(dsn: str, batch_size: int, ready: Semaphore, over: Event) -> None:
    """Receive as an endpoint does, with its statement and its lower bound, and do nothing else."""
    bound = LowerBound(time.monotonic)
    statement = TABLE.receive(batch_size, FROM_THE_START)
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.cursor(binary=True)
        ready.release()
        while not over.is_set():
            lower, began = bound.claim(), time.monotonic()
            with connection.transaction():
                parameters = {**statement.parameters, "lower_bound": lower}
                cursor.execute(statement.query.text, parameters, prepare=True)
                rows = cursor.fetchall()
            bound.looked(lower, began, max((row[-1] for row in rows), default=None))
            if not rows:
                over.wait(PAUSE)


def _receive(dsn: str, batch_size: int, ready: Semaphore, over: Event) -> None:
    asyncio.run(_serve(dsn, batch_size, ready, over))


async def _serve(dsn: str, batch_size: int, ready: Semaphore, over: Event) -> None:
    settings = rowbus.EndpointSettings(concurrency=1, batch_size=batch_size)
    endpoint = rowbus.Endpoint("bench", database=dsn, settings=settings, delayed_delivery=None)
    endpoint.handler(_ignore)
    async with endpoint:
        ready.release()
        await asyncio.to_thread(over.wait)


async def _ignore(_message: PlaceOrder) -> None:
    """Do nothing."""
