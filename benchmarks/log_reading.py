"""Reading a batch: into Python objects, and beside a transaction that has been open since long before.

Invariant: a batch is read again and again and never finished, so each round reads the same events.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from benchmarks.log_databases import CONSUMER, PACKAGES, QUEUE, LogDatabase
from benchmarks.log_producing import DATA
from benchmarks.measuring import Side
from benchmarks.reporting import NotRunError
from rowbus.database.postgresql.database import Database
from rowbus.log.consumers.chunk_worker import read_batch
from rowbus.log.consumers.table import ConsumerTable
from rowbus.settings import ConsumerSettings

DEBIAN_PYTHON = "/usr/bin/python3"
PROGRAM = Path(__file__).with_name("pgq_reader.py")
CONFIG = """[reader]
job_name = reader
db = {dsn}
queue_name = {queue}
consumer_name = {consumer}
pgq_lazy_fetch = {fetch}
"""

BATCH = 2_000  # events of a batch beside the old transaction
BEFORE = 100_000  # events since it began
WRITERS = 10  # events of each transaction


def fill(database: LogDatabase, events: int) -> LogDatabase:
    """Register a consumer, and make one batch of so many events."""
    with database.connect() as connection:
        connection.execute(f"select {database.schema}.register_consumer(%s, %s)", (QUEUE, CONSUMER))
        connection.execute(
            f"select count({database.schema}.insert_event(%s, 'order_placed', %s)) from generate_series(1, %s)",
            (QUEUE, DATA, events),
        )
    database.tick()
    return database


class TimedReads:
    """A side that times itself: what is compared is the loading alone, not the asking for the batch."""

    def __init__(self, name: str, read: Callable[[], tuple[int, float]]) -> None:
        """Take what reads the batch and says how many events there were, and how long it took."""
        self._name = name
        self._read = read
        self.rates: list[float] = []

    def side(self) -> Side:
        """Return the side to be alternated."""
        return Side(self._name, lambda: None, self._work)

    def _work(self) -> int:
        events, seconds = self._read()
        self.rates.append(events / seconds)
        return events


@contextmanager
def python_pgq(database: LogDatabase, *, fetch: int) -> Generator[TimedReads]:
    """python3-pgq's consumer, in a process of its own."""
    if subprocess.run(
        [DEBIAN_PYTHON, "-c", "import pgq, psycopg2"], capture_output=True, check=False
    ).returncode:
        raise NotRunError(f"{DEBIAN_PYTHON} has no python3-pgq ({PACKAGES})")
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as file:
        file.write(CONFIG.format(dsn=database.dsn, queue=QUEUE, consumer=CONSUMER, fetch=fetch))
        file.flush()
        process = subprocess.Popen(
            [DEBIAN_PYTHON, PROGRAM, file.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with process:
            yield TimedReads(f"python3-pgq, {fetch or 'all'} rows a fetch", lambda: _ask(process))


def _ask(process: subprocess.Popen[str]) -> tuple[int, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("read\n")
    process.stdin.flush()
    count, seconds = process.stdout.readline().split()
    return int(count), float(seconds)


def rowbus_reads(database: LogDatabase) -> TimedReads:
    """The query that our consumers read a batch with, in chunks of the default size."""
    return TimedReads("Rowbus", lambda: asyncio.run(_read(Database(database.dsn))))


async def _read(database: Database) -> tuple[int, float]:
    table, session = ConsumerTable(QUEUE, CONSUMER), await database.connect_reader()
    claim = await session.run(table.next_batch(ConsumerSettings()))
    assert claim is not None
    gc.collect()
    begun = time.perf_counter()
    chunks = read_batch(session, table, claim.batch, after=None, size=ConsumerSettings().chunk_size)
    events = [event async for chunk in chunks for event in chunk.events]
    seconds = time.perf_counter() - begun
    await session.close()
    return len(events), seconds


# ----------------------------------------------------------------------------------------------- an old transaction


@contextmanager
def old_transaction(database: LogDatabase) -> Generator[None]:
    """Hold a transaction open that has written an event."""
    with psycopg.connect(database.dsn) as old:
        old.execute("select pgq.insert_event(%s, 'old', '')", (QUEUE,))
        yield


def batch_after_many(database: LogDatabase, *, scale: float) -> LogDatabase:
    """Make one batch after many other events."""
    with database.connect() as connection:
        _write(connection, max(BATCH, int(BEFORE * scale)))
        connection.execute("select pgq.register_consumer(%s, %s)", (QUEUE, CONSUMER))
        _write(connection, BATCH)
    return database


def _write(connection: psycopg.Connection[tuple[object, ...]], events: int) -> None:
    connection.execute("set synchronous_commit to off")
    for begun in range(0, events, BATCH):  # a tick for so many, as a ticker does
        for _ in range(min(BATCH, events - begun) // WRITERS):
            connection.execute(
                "select count(pgq.insert_event(%s, 'order_placed', %s)) from generate_series(1, %s)",
                (QUEUE, DATA, WRITERS),
            )
        connection.execute("select pgq.ticker(%s)", (QUEUE,))


def batch_reads(name: str, database: LogDatabase, *, times: int) -> Side:
    """The open batch, read so often through SQL."""

    def work() -> int:
        read = 0
        with database.connect() as connection:
            found = connection.execute("select pgq.next_batch(%s, %s)", (QUEUE, CONSUMER)).fetchone()
            for _ in range(times):
                read += connection.execute("select * from pgq.get_batch_events(%s)", found).rowcount
        assert read == times * BATCH, read
        return read

    return Side(name, lambda: None, work)
