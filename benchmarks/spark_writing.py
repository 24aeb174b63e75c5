"""Writing a data frame into a table: our sink with each guarantee, and Spark's JDBC sink.

Invariant: all sides write the same rows, from the same files, into the same empty table without index.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from benchmarks.measuring import Side
from benchmarks.spark_data import Rows
from benchmarks.spark_machine import Machine

COLUMNS = "ev_id bigint, ev_time timestamptz, ev_type text, ev_data text, ev_extra1 text"
BATCH = "10000"


class Target:
    """The table; `logged` if its rows go through the write-ahead log."""

    def __init__(self, machine: Machine, rows: Rows, *, logged: bool) -> None:
        """Make a database with the table."""
        self.database = "bench_target"
        self.dsn = machine.create(self.database)
        self._machine = machine
        self._rows = rows
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"create {'' if logged else 'unlogged'} table target ({COLUMNS})".encode())

    def rowbus(self, guarantee: str) -> Side:
        """Our sink: `none` is at least once."""

        def work() -> None:
            write = self._rows.read().write.format("rowbus").mode("append")
            write.options(dsn=self.dsn, deliver="table", table="target", exactlyOnce=guarantee).save()

        return self._side(f"Rowbus, {guarantee}", work)

    def jdbc(self) -> Side:
        """Spark's sink, with rewritten batches."""

        def work() -> None:
            write = self._rows.read().write.format("jdbc").mode("append")
            write.options(dbtable="target", batchsize=BATCH, **self._machine.jdbc_of(self.database)).save()

        return self._side("Spark JDBC, reWriteBatchedInserts", work)

    def _side(self, name: str, write: Callable[[], None]) -> Side:
        def work() -> int:
            write()
            return self._rows.count

        return Side(name, self._prepare, work)

    def _prepare(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("truncate target")

    def check(self) -> None:
        """See that the last side has written every row once."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            found = connection.execute("select count(*), count(distinct ev_id) from target").fetchone()
        assert found == (self._rows.count, self._rows.count), found
