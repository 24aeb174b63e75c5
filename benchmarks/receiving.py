"""Receiving: one message a transaction, and a hundred.

Invariant: the bare side runs the very statements of `QueueTable` with plain psycopg, at the same concurrency, and
does nothing with the rows.
"""

from __future__ import annotations

import asyncio
import threading

import psycopg

import rowbus
from benchmarks.measuring import Side
from benchmarks.workload import TABLE, PlaceOrder, fill, run
from rowbus.platform.servicecontrol import Platform
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START

REPORTS = [QueueTable(rowbus.QueueAddress("public", name)) for name in ("control", "monitoring")]
PLATFORM = {
    "Heartbeats": {
        "Enabled": True,
        "HeartbeatsQueue": "control",
        "Frequency": "00:00:10",
        "TimeToLive": "00:00:40",
    },
    "Metrics": {"Enabled": True, "MetricsQueue": "monitoring", "Interval": "00:00:01"},
}
"""ServiceControl's answer to `GET /api/connection`, with the shortest interval that ServicePulse offers."""


def rowbus_side(dsn: str, messages: int, *, concurrency: int, batch_size: int) -> Side:
    """An endpoint with a no-op handler."""
    return Side(
        "Rowbus endpoint",
        lambda: fill(dsn, messages),
        lambda: asyncio.run(_serve(dsn, messages, concurrency, batch_size)),
    )


def reporting_side(dsn: str, messages: int, *, concurrency: int, batch_size: int) -> Side:
    """The same endpoint, which reports to ServicePulse: heartbeats, and metrics each second."""
    return Side(
        "with service_platform",
        lambda: fill_and_install(dsn, messages),
        lambda: asyncio.run(_serve(dsn, messages, concurrency, batch_size, service_platform=PLATFORM)),
    )


def fill_and_install(dsn: str, messages: int) -> None:
    """Fill the queue, and make ServiceControl's queues."""
    fill(dsn, messages)
    run(dsn, *(statement for queue in REPORTS for statement in queue.create()))


async def _serve(
    dsn: str,
    messages: int,
    concurrency: int,
    batch_size: int,
    service_platform: Platform | None = None,
) -> int:
    settings = rowbus.EndpointSettings(
        concurrency=concurrency, batch_size=batch_size, service_platform=service_platform
    )
    return await serve(rowbus.Endpoint("bench", database=dsn, settings=settings), messages)


async def serve(endpoint: rowbus.Endpoint, messages: int, limit: rowbus.Concurrency | None = None) -> int:
    """Have an endpoint handle so many messages with a handler that does nothing."""
    done, handled = asyncio.Event(), 0

    @endpoint.handler(limit=limit)
    async def no_op(_message: PlaceOrder) -> None:
        nonlocal handled
        handled += 1
        if handled == messages:
            done.set()

    async with endpoint:
        await done.wait()
    return handled


def tasks_side(dsn: str, messages: int, *, concurrency: int, batch_size: int) -> Side:
    """psycopg's asynchronous connections, one task each."""

    async def loop() -> int:
        statement = TABLE.receive(batch_size, FROM_THE_START)
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            cursor = connection.cursor(binary=True)
            received = 0
            while True:
                async with connection.transaction():
                    await cursor.execute(statement.query.text, statement.parameters, prepare=True)
                    rows = await cursor.fetchall()
                if not rows:
                    return received
                received += len(rows)

    async def loops() -> int:
        return sum(await asyncio.gather(*(loop() for _ in range(concurrency))))

    return Side("psycopg, async", lambda: fill(dsn, messages), lambda: asyncio.run(loops()))


def threads_side(dsn: str, messages: int, *, concurrency: int, batch_size: int) -> Side:
    """psycopg's synchronous connections, one thread each."""

    def loop(counts: list[int]) -> None:
        statement = TABLE.receive(batch_size, FROM_THE_START)
        with psycopg.connect(dsn, autocommit=True) as connection:
            cursor = connection.cursor(binary=True)
            while True:
                with connection.transaction():
                    cursor.execute(statement.query.text, statement.parameters, prepare=True)
                    rows = cursor.fetchall()
                if not rows:
                    return
                counts.append(len(rows))

    def loops() -> int:
        counts: list[int] = []
        threads = [threading.Thread(target=loop, args=(counts,)) for _ in range(concurrency)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts)

    return Side("psycopg, threads", lambda: fill(dsn, messages), loops)
