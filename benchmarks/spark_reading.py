"""Reading a log into Spark: our source, the same without Arrow, and Spark's JDBC source with ctid predicates.

Invariant: all sides read every event into `noop`, but those that `where` leaves out, in two partitions, through TCP.
"""

from __future__ import annotations

from benchmarks.measuring import Side
from benchmarks.spark_data import LOG, event_table, pages
from benchmarks.spark_machine import Machine

PARTITIONS = 2
FETCH = "10000"  # rows; JDBC's default would have all of them in memory


def rowbus_reads(machine: Machine, dsn: str, events: int, **options: str) -> Side:
    """Our source; `options` choose the path."""

    def work() -> int:
        read = machine.spark.read.format("rowbus").options(
            dsn=dsn,
            log=LOG,
            startingOffsets="earliest",
            endingOffsets="latest",
            minPartitions=str(PARTITIONS),
        )
        read = read.option("maxRecordsPerPartition", events // PARTITIONS)
        read.options(**options).load().write.format("noop").mode("overwrite").save()
        return events

    name = "Rowbus" + "".join(f", {key}={value}" for key, value in options.items())
    return Side(name, lambda: None, work)


def jdbc_reads(machine: Machine, database: str, dsn: str, events: int) -> Side:
    """Spark's JDBC source, the table cut by blocks."""
    table = event_table(dsn)
    half = pages(dsn, table) // PARTITIONS
    predicates = [f"ctid < '({half},0)'::tid", f"ctid >= '({half},0)'::tid"]
    options = machine.jdbc_of(database)
    properties = {"driver": options["driver"], "fetchsize": FETCH}

    def work() -> int:
        rows = machine.spark.read.jdbc(options["url"], table, predicates=predicates, properties=properties)
        rows.write.format("noop").mode("overwrite").save()
        return events

    return Side("Spark JDBC, ctid predicates", lambda: None, work)
