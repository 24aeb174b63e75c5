"""Writing a data frame into a table, or a queue: our sink with each guarantee, and Spark's JDBC sink.

Invariant: all sides write the same rows, from the same files, into the same empty table: one without index, or a
queue's, whose headers the JDBC sink takes from an expression of Spark's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, LiteralString

import psycopg

from benchmarks.measuring import Side
from benchmarks.spark_data import Rows
from benchmarks.spark_machine import Machine
from rowbus.database.postgresql.database import Database
from rowbus.database.statements import BlockingSession, run_now
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.installer import create_queue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS: LiteralString = "ev_id bigint, ev_time timestamptz, ev_type text, ev_data text, ev_extra1 text"
BATCH = "10000"
QUEUE = QueueAddress("public", "Orders")
HEADERS = """concat('{"NServiceBus.MessageId":"', uuid(), '","Note":"', repeat('x', 540), '"}')"""
"""Headers as long as those that our sink writes."""


class Target:
    """An empty table, which both sinks fill."""

    deliver: Mapping[str, str] = {"deliver": "table", "table": "target"}
    name: LiteralString = "target"

    def __init__(self, machine: Machine, rows: Rows) -> None:
        """Make a database with the table."""
        self.database = "bench_target"
        self.dsn = machine.create(self.database)
        self._machine = machine
        self._rows = rows
        self._create()

    def rowbus(self, guarantee: str) -> Side:
        """Our sink: `none` is at least once."""

        def work() -> None:
            write = self._ours(self._rows.read()).write.format("rowbus").mode("append")
            write.options(dsn=self.dsn, exactlyOnce=guarantee, **self.deliver).save()

        return self._side(f"Rowbus, {guarantee}", work)

    def jdbc(self) -> Side:
        """Spark's sink, with rewritten batches."""
        options = self._machine.jdbc_of(self.database)
        options["url"] += "&stringtype=unspecified"  # the server reads texts as what the columns are

        def work() -> None:
            write = self._theirs(self._rows.read()).write.format("jdbc").mode("append")
            write.options(dbtable=self.name, batchsize=BATCH, **options).save()

        return self._side("Spark JDBC, reWriteBatchedInserts", work)

    def check(self) -> None:
        """See that the last side has written every row once."""
        with self._connect() as connection:
            found = connection.execute(f"select count(*), count(distinct {self._distinct}) from {self.name}")
            assert found.fetchone() == (self._rows.count, self._rows.count)

    _distinct: LiteralString = "ev_id"

    def _create(self) -> None:
        with self._connect() as connection:
            connection.execute(f"create unlogged table target ({COLUMNS})")

    def _ours(self, rows: DataFrame) -> DataFrame:
        return rows

    def _theirs(self, rows: DataFrame) -> DataFrame:
        return rows

    def _side(self, name: str, write: Callable[[], None]) -> Side:
        def work() -> int:
            write()
            return self._rows.count

        return Side(name, self._prepare, work)

    def _prepare(self) -> None:
        with self._connect() as connection:
            connection.execute(f"truncate {self.name}")

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.dsn, autocommit=True)


class Queue(Target):
    """A queue, whose rows the JDBC sink writes as those of any table."""

    deliver: Mapping[str, str] = {"deliver": "queue", "queue": QUEUE.table}
    name: LiteralString = '"Orders"'
    _distinct: LiteralString = "id"

    def _create(self) -> None:
        with Database(self.dsn).session() as session:
            run_now(create_queue(BlockingSession(session), QUEUE))

    def _ours(self, rows: DataFrame) -> DataFrame:
        return rows.selectExpr("ev_data as body", "ev_type as message_type")

    def _theirs(self, rows: DataFrame) -> DataFrame:
        return rows.selectExpr("uuid() as id", f"{HEADERS} as headers", "cast(ev_data as binary) as body")
