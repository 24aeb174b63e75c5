"""Reading a log into Spark: our source, the same without Arrow or with typed columns, and Spark's JDBC source.

Invariant: all sides read every event into `noop`, but those that `where` leaves out, in two partitions, through TCP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks.measuring import Side
from benchmarks.spark_data import LOG, MEMBERS, event_table, pages
from benchmarks.spark_machine import Machine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader

PARTITIONS = 2


def rowbus_reads(machine: Machine, dsn: str, events: int, **options: str) -> Side:
    """Our source; `options` choose the path."""
    name = "Rowbus" + "".join(f", {key}={value}" for key, value in options.items())
    return _noop(name, events, lambda: _reader(machine, dsn, events).options(**options).load())


def rowbus_reads_typed(machine: Machine, dsn: str, events: int) -> Side:
    """Our source, which decodes the body itself."""
    columns = f"ev_id bigint, ev_time timestamp, {MEMBERS}"
    return _noop("Rowbus, schema", events, lambda: _reader(machine, dsn, events).schema(columns).load())


def jdbc_reads(machine: Machine, database: str, dsn: str, events: int) -> Side:
    """Spark's JDBC source, the table cut by blocks."""
    table = JdbcLog(machine, database, dsn)
    return _noop("Spark JDBC, ctid predicates", events, table.load)


def jdbc_reads_typed(machine: Machine, database: str, dsn: str, events: int) -> Side:
    """The same, and Spark's own decoder of JSON; Spark asks JDBC for the three columns alone."""
    table = JdbcLog(machine, database, dsn)

    def rows() -> DataFrame:
        from pyspark.sql.functions import from_json  # noqa: PLC0415 - only these comparisons need Spark

        decoded = table.load().select("ev_id", "ev_time", from_json("ev_data", MEMBERS).alias("row"))
        return decoded.select("ev_id", "ev_time", "row.*")

    return _noop("Spark JDBC, from_json", events, rows)


class JdbcLog:
    """The table of a log's events by Spark's JDBC source, cut by blocks into two."""

    def __init__(self, machine: Machine, database: str, dsn: str) -> None:
        """Look where its middle is."""
        self._machine = machine
        self._database = database
        self._table = event_table(dsn)
        half = pages(dsn, self._table) // PARTITIONS
        self._predicates = [f"ctid < '({half},0)'::tid", f"ctid >= '({half},0)'::tid"]

    def load(self) -> DataFrame:
        """Return the events; nothing is read yet."""
        return self._machine.jdbc_read(self._database, self._table, self._predicates)


def _reader(machine: Machine, dsn: str, events: int) -> DataFrameReader:
    read = machine.spark.read.format("rowbus").options(
        dsn=dsn,
        log=LOG,
        startingOffsets="earliest",
        endingOffsets="latest",
        minPartitions=str(PARTITIONS),
    )
    return read.option("maxRecordsPerPartition", events // PARTITIONS)


def _noop(name: str, events: int, rows: Callable[[], DataFrame]) -> Side:
    def work() -> int:
        rows().write.format("noop").mode("overwrite").save()
        return events

    return Side(name, lambda: None, work)
