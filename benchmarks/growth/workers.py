"""More and more processes that receive from one queue.

Invariant: all of them rest before the messages are there; the clock stops when the queue is empty.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing.synchronize import Event, Semaphore

import psycopg

import rowbus
from benchmarks.growth.curves import Figures, Line, Share, curves, ladder, sample
from benchmarks.growth.showing import show
from benchmarks.reporting import Bench, Result
from benchmarks.workload import TABLE, PlaceOrder, add, empty
from rowbus.database.postgresql.connection import Session

COUNTS, USUAL = (1, 2, 4, 8, 16, 32, 64), 64
PATIENCE = 120.0  # seconds until a process receives
PAUSE = 0.01  # seconds between two looks whether the queue is empty
LINES = {
    "single": Line("receive, one a transaction", "msg/s", Share(0.85, "best"), more_is_better=True),
    "batches": Line("receive, batches of 100", "msg/s", Share(0.85, "best"), more_is_better=True),
}
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


def workers(bench: Bench) -> list[Result]:
    """(3) Processes on one queue."""

    def measure(count: int) -> Figures:
        return {
            "single": _rate(bench.dsn, count, bench.messages(20_000), 1),
            "batches": _rate(bench.dsn, count, bench.messages(100_000), 100),
        }

    found = sample(ladder(COUNTS, USUAL * bench.scale), measure, bench.rounds)
    return show(bench, curves("processes on one queue", "processes", LINES, found))


def _rate(dsn: str, count: int, messages: int, batch_size: int) -> float:
    empty(dsn)
    with _receiving(dsn, count, batch_size), psycopg.connect(dsn, autocommit=True) as connection:
        with connection.transaction():
            add(connection, messages)
            Session(connection).run_all(TABLE.notify())
        began = time.perf_counter()
        while connection.execute("select exists (select from bench)").fetchone() == (True,):
            time.sleep(PAUSE)
        return messages / (time.perf_counter() - began)


@contextmanager
def _receiving(dsn: str, count: int, batch_size: int) -> Generator[None]:
    """Have so many processes receive meanwhile."""
    ready, over = PROCESSES.Semaphore(0), PROCESSES.Event()
    started = [PROCESSES.Process(target=_receive, args=(dsn, batch_size, ready, over)) for _ in range(count)]
    try:
        for process in started:
            process.start()
        for _ in started:
            assert ready.acquire(timeout=PATIENCE), "a process does not receive"
        yield
    finally:
        over.set()
        for process in started:
            process.join()


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
