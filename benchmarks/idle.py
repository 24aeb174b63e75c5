"""Idle endpoints of one process: the connections they hold, their statements, the processor they take.

Invariant: what is counted begins when all endpoints are started and their first looks are over; messages come after
that, one at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

import psycopg

import rowbus
from benchmarks.reporting import Bench, Result, console
from benchmarks.workload import MESSAGE, PlaceOrder, run
from rowbus.database.statements import control
from rowbus.transport.queues import lookout

SETTLING, COUNTED = 5.0, 10.0  # seconds
PATIENCE = 60.0  # seconds for one message
MOST_ASKED = 50  # endpoints that get a message
HELD = "select count(*) from pg_stat_activity where application_name like 'rowbus idle%'"
DONE = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"


class Idle(NamedTuple):
    """So many idle endpoints, as figures: what they hold and do."""

    connections: int
    listening: int
    """Connections that listen."""
    transactions: float
    """A second."""
    cpu: float
    """Of the client, in per cent of one processor."""
    slowest: float
    """The ms from the sending of a message to its handler: the slowest of messages to many endpoints, one at a time."""


def idle(bench: Bench) -> list[Result]:
    """(i) So many idle endpoints in one process."""
    count = max(2, int(200 * bench.scale))
    found = measure(bench.dsn, count, SETTLING, COUNTED)
    console.print(
        f"(i) {count} idle endpoints: {found.connections} connections, {found.transactions:.1f} transactions/s, "
        f"CPU {found.cpu:.2f} %"
    )
    title = f"(i) {count} idle endpoints: "
    return [
        Result(title + "connections", found.connections, 4, at_most=True),
        Result(title + "transactions a second", found.transactions, 5, at_most=True),
        Result(title + "client CPU", found.cpu, 1, " %", at_most=True),
    ]


def measure(dsn: str, count: int, settling: float, counted: float, lanes: rowbus.Lanes | None = None) -> Idle:
    """Start so many endpoints, with lanes or without, let them settle, count for so many seconds, and send to them."""
    run(dsn, control(b"create schema if not exists idle", "Failed to create a schema"))
    return asyncio.run(_measure(dsn, count, settling, counted, lanes))


async def _measure(dsn: str, count: int, settling: float, counted: float, lanes: rowbus.Lanes | None) -> Idle:
    arrived = asyncio.Event()
    endpoints = [_endpoint(dsn, number, arrived, lanes) for number in range(count)]
    try:
        for endpoint in endpoints:
            await endpoint.start()
        await asyncio.sleep(settling)
        with psycopg.connect(dsn, autocommit=True) as connection:
            held, before = _ask(connection, HELD), _ask(connection, DONE)
            cpu, started = time.process_time(), time.monotonic()
            await asyncio.sleep(counted)
            cpu, seconds = time.process_time() - cpu, time.monotonic() - started
            connection.execute("select pg_stat_clear_snapshot()")
            transactions = (_ask(connection, DONE) - before) / seconds
        took = await _send_to_each(dsn, endpoints[:: max(1, count // MOST_ASKED)], arrived)
        return Idle(held, _listening(), transactions, 100 * cpu / seconds, max(took))
    finally:
        for endpoint in endpoints:
            await endpoint.stop(0)


async def _send_to_each(
    dsn: str, endpoints: Sequence[rowbus.Endpoint], arrived: asyncio.Event
) -> list[float]:
    took = []
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        client = rowbus.AsyncClient(connection, schema="idle")
        for endpoint in endpoints:
            arrived.clear()
            began = time.perf_counter()
            await client.send(endpoint.name, MESSAGE)
            async with asyncio.timeout(PATIENCE):
                await arrived.wait()
            took.append((time.perf_counter() - began) * 1_000)
    return took


def _listening() -> int:
    """Count the connections that listen; the server shows each session its own channels only."""
    shared = lookout._lookouts[asyncio.get_running_loop()].values()  # noqa: SLF001 - nothing public counts them
    return sum(bool(each._heard) for each in shared)  # noqa: SLF001 - as above


def _endpoint(dsn: str, number: int, arrived: asyncio.Event, lanes: rowbus.Lanes | None) -> rowbus.Endpoint:
    settings = rowbus.EndpointSettings(schema="idle", concurrency=1)
    endpoint = rowbus.Endpoint(f"idle{number}", database=dsn, settings=settings, lanes=lanes)

    @endpoint.handler
    async def arrive(_message: PlaceOrder) -> None:
        arrived.set()

    return endpoint


def _ask(connection: psycopg.Connection[tuple[int]], query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])
