"""A log's events as Parquet, separated by log and date: by `rowbus spark archive`, and by Spark's JDBC source.

Invariant: both sides begin with an empty folder and write every event into the same partitions; ours also keeps the
checkpoint and the registration by which the next run would go on.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.measuring import Side
from benchmarks.spark_data import LOG
from benchmarks.spark_machine import Machine
from benchmarks.spark_reading import JdbcLog


def rowbus_archives(machine: Machine, dsn: str, events: int, folder: Path) -> Side:
    """The call that `rowbus spark archive` makes; each run is another archive, with a consumer of its own."""
    from rowbus.spark.pipelines.log_archive import archive  # noqa: PLC0415 - only these comparisons need Spark

    runs = iter(range(1_000))
    place = folder / "rowbus"

    def work() -> int:
        done = archive(machine.spark, LOG, place, dsn=dsn, consumer=f"archive{next(runs)}")
        assert done.events == events, (done.events, events)
        return events

    return Side("rowbus spark archive", lambda: shutil.rmtree(place, ignore_errors=True), work)


def jdbc_archives(machine: Machine, database: str, dsn: str, events: int, folder: Path) -> Side:
    """Spark's JDBC source, the table cut by blocks, into Spark's own files."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everybody writes it; as above

    table, place = JdbcLog(machine, database, dsn), folder / "jdbc"

    def work() -> int:
        rows = table.load().withColumn("log", F.lit(LOG)).withColumn("date", F.to_date("ev_time"))
        rows.write.partitionBy("log", "date").parquet(str(place))
        return events

    return Side("Spark JDBC, ctid predicates", lambda: shutil.rmtree(place, ignore_errors=True), work)
