"""Idle endpoints of one process: the connections they hold, their statements, the processor they take.

Invariant: what is counted begins when all endpoints are started and their first looks are over.
"""

from __future__ import annotations

import asyncio
import time

import psycopg

import rowbus
from benchmarks.reporting import Bench, Result, console
from benchmarks.workload import PlaceOrder, run
from rowbus.database.statements import control

SETTLING, COUNTED = 5.0, 10.0  # seconds
HELD = "select count(*) from pg_stat_activity where application_name like 'rowbus idle%'"
DONE = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"


def idle(bench: Bench) -> list[Result]:
    """(i) So many idle endpoints in one process."""
    count = max(2, int(200 * bench.scale))
    run(bench.dsn, control(b"create schema if not exists idle", "Failed to create a schema"))
    held, transactions, cpu = asyncio.run(_measure(bench.dsn, count))
    console.print(
        f"(i) {count} idle endpoints: {held} connections, {transactions:.1f} transactions/s, CPU {cpu:.2f} %"
    )
    title = f"(i) {count} idle endpoints: "
    return [
        Result(title + "connections", held, 4, at_most=True),
        Result(title + "transactions a second", transactions, 5, at_most=True),
        Result(title + "client CPU", cpu, 1, " %", at_most=True),
    ]


async def _measure(dsn: str, count: int) -> tuple[int, float, float]:
    endpoints = [_endpoint(dsn, number) for number in range(count)]
    try:
        for endpoint in endpoints:
            await endpoint.start()
        await asyncio.sleep(SETTLING)
        with psycopg.connect(dsn, autocommit=True) as connection:
            held, before = _ask(connection, HELD), _ask(connection, DONE)
            cpu, started = time.process_time(), time.monotonic()
            await asyncio.sleep(COUNTED)
            cpu, seconds = time.process_time() - cpu, time.monotonic() - started
            connection.execute("select pg_stat_clear_snapshot()")
            return held, (_ask(connection, DONE) - before) / seconds, 100 * cpu / seconds
    finally:
        for endpoint in endpoints:
            await endpoint.stop(0)


def _endpoint(dsn: str, number: int) -> rowbus.Endpoint:
    settings = rowbus.EndpointSettings(schema="idle", concurrency=1)
    endpoint = rowbus.Endpoint(f"idle{number}", database=dsn, settings=settings)
    endpoint.handler(_ignore)
    return endpoint


async def _ignore(_message: PlaceOrder) -> None:
    """Handle what never comes."""


def _ask(connection: psycopg.Connection[tuple[int]], query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])
