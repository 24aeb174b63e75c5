"""A driver of its own that copies a log into a table in two tasks, which meet while they read and while they write.

`meeting_program.py FOLDER MASTER [KEY=VALUE…]`, with the database in ROWBUS_DATABASE; the settings after MASTER are
Spark's. Writes `task EXECUTOR BEGUN ENDED` for each task, in milliseconds, as Spark's status store has them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

import rowbus.spark
from tests.spark.crash.stream_program import SETTINGS
from tests.spark.meeting import FORMAT, MeetingSource


def tasks(spark: SparkSession) -> Iterator[tuple[str, int, int]]:
    """Give the executor of each task, and when it begun and ended."""
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(None)]
    for stage in sorted({stage for job in jobs if job is not None for stage in job.stageIds}):
        found = context.statusStore().taskList(stage, 0, 100)
        for task in (found.apply(number) for number in range(found.size())):
            begun = task.launchTime().getTime()
            yield task.executorId(), begun, begun + task.duration().get()


def main() -> None:
    """Copy, and say what ran when."""
    folder, master, *settings = sys.argv[1:]
    given: dict[str, Any] = dict(setting.split("=", 1) for setting in settings)
    dsn = os.environ["ROWBUS_DATABASE"]
    spark = rowbus.spark.session("meeting", master=master, **{**SETTINGS, **given})
    spark.dataSource.register(MeetingSource)
    events = spark.read.format(FORMAT).options(
        dsn=dsn, log="crash", startingOffsets="earliest", minPartitions="2", meeting=folder
    )
    copied = events.load().select("ev_type", "ev_data").write.format(FORMAT).mode("append")
    copied.options(dsn=dsn, deliver="table", table="copied", meeting=folder).save()
    for task in tasks(spark):
        print("task", *task, flush=True)  # noqa: T201 - the test reads it
    spark.stop()


if __name__ == "__main__":
    main()
