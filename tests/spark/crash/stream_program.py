"""A driver of its own, for tests that kill it: streams the log into a table, or into files, until it is done or killed.

`stream_program.py FOLDER SINK MASTER [KEY=VALUE…]`, with the database in ROWBUS_DATABASE; the settings after MASTER
are Spark's. Writes `started` when the query runs and `done BATCHES` when it has ended.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import rowbus.spark
from tests.spark.crash.faults import FaultySource

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
}


def sink_options(sink: str, folder: Path, dsn: str) -> dict[str, str]:
    """Say where the stream goes: `parquet`, or `table-staged`, `table-prepared`."""
    if sink == "parquet":
        return {"path": str(folder / "events")}
    kind, _, how = sink.partition("-")
    target = {"table": "table", "log": "log"}[kind]
    return {
        "dsn": dsn,
        "deliver": kind,
        target: "copied",
        "exactlyOnce": how,
        "faults": str(folder / "faults"),
    }


def tasks_of_executors(spark: SparkSession) -> list[tuple[str, int]]:
    """Give each process that ran tasks, dead or alive, and how many."""
    store = spark.sparkContext._jsc.sc().statusStore()
    found = store.executorList(False)  # noqa: FBT003 - a method of the JVM
    executors = [found.apply(number) for number in range(found.size())]
    return [(executor.id(), executor.completedTasks()) for executor in executors]


def main() -> None:
    """Run the query to its end."""
    folder, sink, master = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    more: dict[str, Any] = dict(argument.split("=", 1) for argument in sys.argv[4:])
    dsn = os.environ["ROWBUS_DATABASE"]
    spark = rowbus.spark.session("crash", master=master, **{**SETTINGS, **more})
    spark.dataSource.register(FaultySource)
    events = (
        spark.readStream.format("rowbus_faulty")
        .options(dsn=dsn, log="crash", consumer="driver", startingOffsets="earliest", maxTicksPerTrigger="2")
        .option("maxRecordsPerPartition", "100")
        .option("minPartitions", "4")
        .option("faults", str(folder / "faults"))
        .load()
        .select("ev_type", "ev_data")
    )
    query = (
        events.writeStream.format("parquet" if sink == "parquet" else "rowbus_faulty")
        .options(**sink_options(sink, folder, dsn))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    print("started", flush=True)  # noqa: T201 - the test reads it
    query.awaitTermination()
    for executor in tasks_of_executors(spark):
        print("executor", *executor, flush=True)  # noqa: T201 - …
    print("done", len(query.recentProgress), flush=True)  # noqa: T201 - …
    spark.stop()


if __name__ == "__main__":
    main()
