"""A log with a million events of about 200 bytes, and the same as Parquet.

Invariant: `fill` is one tick, so that a batch read has one range to split.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString

import psycopg

from benchmarks.spark_machine import Machine
from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_now

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOG = "bench"
EVENTS = 1_000_000
ARCHIVED = 2_000_000
FILTERED = 10_000_000
CHUNK = 50_000
FILL: LiteralString = """
    select count(pgq.insert_event(
        'bench', 'order.placed',
        '{"order":' || number || ',"customer":"c-0815","total":9.5,"note":"' || repeat('x', 100) || '"}',
        'public.orders', null, null, null
    ))
    from generate_series(%s::bigint, %s::bigint) as number
"""

MEMBERS = "`order` bigint, customer string, total double, note string"
"""Contents of a body, as Spark's columns."""

DATA = """concat('{"order":', id, ',"customer":"c-0815","total":9.5,"note":"', repeat('x', 100), '"}') as ev_data"""


def make_log(machine: Machine, database: str, events: int) -> str:
    """Make a database with the log, full, and one tick before and after; return its DSN."""
    dsn = machine.create(database)
    with Database(dsn).session() as session:
        install_now(session)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("select pgq.create_queue('bench')")
        for name in ("ticker_max_lag", "ticker_idle_period"):
            connection.execute("select pgq.set_queue_config('bench', %s, '0')", (name,))
        append(connection, events)
        connection.execute("vacuum (analyze)")
    return dsn


def append(connection: psycopg.Connection[tuple[object, ...]], events: int) -> None:
    """Append so many, in transactions of 50,000, and tick once."""
    for begin in range(0, events, CHUNK):
        connection.execute(FILL, (begin, min(begin + CHUNK, events) - 1))
    connection.execute("select pgq.ticker('bench')")


def event_table(dsn: str) -> str:
    """Name the table that the events are in."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute("select pgq.current_event_table('bench')").fetchone()
    assert found is not None
    return str(found[0])


def pages(dsn: str, table: str) -> int:
    """Count its blocks."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute(
            "select pg_relation_size(%s::regclass) / current_setting('block_size')::int", (table,)
        ).fetchone()
    assert found is not None
    return int(found[0])


class Rows:
    """A million rows in two Parquet files, as what is written by all sides."""

    def __init__(self, machine: Machine, events: int) -> None:
        """Write the files; `remove` deletes them."""
        self.count = events
        self._machine = machine
        self._folder = Path(tempfile.mkdtemp(prefix="rowbus-bench-rows-"))
        (
            machine.spark.range(0, events, 1, 2)
            .selectExpr(
                "id as ev_id",
                "timestamp_micros(1700000000000000 + id) as ev_time",
                "'order.placed' as ev_type",
                DATA,
                "'public.orders' as ev_extra1",
            )
            .write.mode("overwrite")
            .parquet(str(self._folder))
        )

    def read(self) -> DataFrame:
        """Return them, in two partitions."""
        return self._machine.spark.read.parquet(str(self._folder))

    def remove(self) -> None:
        """Delete the files."""
        shutil.rmtree(self._folder)
