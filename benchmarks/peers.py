"""The peers from PyPI, each in its best configuration, with no-op jobs enqueued beforehand.

procrastinate: asynchronous psycopg, 10 jobs at a time, finished jobs deleted, no listener. pgqueuer: asyncpg, in drain
mode, with the batch size that was fastest here (see docs/performance.md).

Invariant: only the processing is timed, and it ends when every job is done in the database.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import asyncpg
import procrastinate
import psycopg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from benchmarks.measuring import Side

PROCRASTINATE_CONCURRENCY = 10
PGQUEUER_BATCH = 500
CHUNK = 5_000

for noisy in ("procrastinate", "pgqueuer"):
    logging.getLogger(noisy).setLevel(logging.CRITICAL)


def _fresh_schema(dsn: str, schema: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"drop schema if exists {schema} cascade")  # type: ignore[arg-type]  # our own constant
        connection.execute(f"create schema {schema}")  # type: ignore[arg-type]  # our own constant


def procrastinate_side(dsn: str, jobs: int) -> Side:
    """A procrastinate worker."""
    connector = {"conninfo": dsn, "kwargs": {"options": "-c search_path=procrastinate"}}

    def application() -> procrastinate.App:
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(**connector))

        @app.task(name="no_op")
        async def no_op() -> None:
            pass

        return app

    async def prepare() -> None:
        _fresh_schema(dsn, "procrastinate")
        app = application()
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            await app.configure_task("no_op").batch_defer_async(*({} for _ in range(jobs)))
        _vacuum(dsn)

    async def work() -> int:
        app = application()
        async with app.open_async():
            await app.run_worker_async(
                wait=False,
                concurrency=PROCRASTINATE_CONCURRENCY,
                listen_notify=False,
                delete_jobs="always",
                install_signal_handlers=False,
            )
        return jobs

    return Side("procrastinate", lambda: asyncio.run(prepare()), lambda: asyncio.run(work()))


def pgqueuer_side(dsn: str, jobs: int) -> Side:
    """A pgqueuer worker."""

    async def connect() -> asyncpg.Connection:
        connection = await asyncpg.connect(dsn)
        await connection.execute("set search_path to pgqueuer")
        return connection

    async def prepare() -> None:
        _fresh_schema(dsn, "pgqueuer")
        connection = await connect()
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        for start in range(0, jobs, CHUNK):
            count = min(CHUNK, jobs - start)
            await queries.enqueue(["no_op"] * count, [None] * count, [0] * count)
        await connection.close()
        _vacuum(dsn)

    async def work() -> int:
        done = 0
        connection = await connect()
        worker = PgQueuer(AsyncpgDriver(connection))

        @worker.entrypoint("no_op")
        async def no_op(_job: Job) -> None:
            nonlocal done
            done += 1

        await worker.run(
            batch_size=PGQUEUER_BATCH,
            dequeue_timeout=timedelta(seconds=1),
            mode=QueueExecutionMode.drain,
        )
        assert done == jobs
        return jobs

    return Side("pgqueuer", lambda: asyncio.run(prepare()), lambda: asyncio.run(work()))


def _vacuum(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("vacuum analyze")
