"""A ticker that was away leaves one tick of a million events; it is read in parts, and never whole in memory."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.fixtures.pairs import effort
from tests.fixtures.processes import children
from tests.spark.crash.faults import Plan, has_fired
from tests.spark.crash.scene import LOG, Log

pytestmark = [
    pytest.mark.slow,
    pytest.mark.turns("kills with Spark", 3),
    pytest.mark.one_version,
    pytest.mark.spark,
    pytest.mark.timeout(400),
]

EVENTS = int(os.environ.get("ROWBUS_TEST_BIG_TICK", effort("400000", "1000000")))
PER_BATCH = EVENTS // 10
MOST_MEMORY = 350 * 2**20
"""Of one Python worker, with 200,000 events of 200 bytes in each batch it would be more than half of that alone."""

FILL = """
    with made as (
        select number, pgq.insert_event('crash', 'big', number || repeat('x', 180)) as id
        from generate_series(%s::bigint, %s::bigint) as number
    )
    insert into sent (number, ev_type, ev_data) select number, 'big', id::text from made
"""


def peak_memory(pid: int) -> int:
    """Give the most that a process has had in memory, in bytes."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


@contextmanager
def watched_workers() -> Iterator[dict[int, int]]:
    """Note the peak memory of every Python process below this one as long as the block lasts."""
    peaks: dict[int, int] = {}
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            for pid in children(os.getpid()) - {os.getpid()}:
                if b"python" in _command(pid):
                    peaks[pid] = max(peaks.get(pid, 0), peak_memory(pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    except (FileNotFoundError, ProcessLookupError):
        return b""


def start(spark: SparkSession, log: Log, folder: Path) -> StreamingQuery:
    options = {"dsn": log.dsn, "log": LOG, "consumer": "big", "startingOffsets": "earliest"}
    limits = {"maxOffsetsPerTrigger": str(PER_BATCH), "faults": str(folder / "faults")}
    return (
        spark.readStream.format("rowbus_faulty")
        .options(**options, **limits)
        .load()
        .select("ev_id", "ev_type")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "events"))
    )


def test_a_tick_of_many_events_is_read_in_ten_batches_or_more_and_never_whole_in_memory(
    faulty_spark: SparkSession, log: Log, spark_folder: Path
) -> None:
    log.tick()
    with log.connect() as connection:
        for begin in range(0, EVENTS, 100_000):
            connection.execute(FILL, (begin, min(EVENTS, begin + 100_000) - 1))
    log.tick()
    Plan("source.latest", "after", 6, "kill").write(spark_folder / "faults")

    with watched_workers() as peaks:
        query = start(faulty_spark, log, spark_folder)
        with pytest.raises(Exception, match=r"."):  # killed in the middle of the tick
            query.awaitTermination(120)
        batches = [query.recentProgress]
        query = start(faulty_spark, log, spark_folder)
        assert query.awaitTermination(240)
        batches.append(query.recentProgress)

    rows = [progress["numInputRows"] for part in batches for progress in part if progress["numInputRows"]]
    print(json.dumps({"batches": len(rows), "largest": max(rows), "worker_mb": max(peaks.values()) // 2**20}))  # noqa: T201
    assert has_fired(spark_folder / "faults")
    assert len(rows) >= 10
    assert max(rows) <= 2 * PER_BATCH
    assert max(peaks.values()) < MOST_MEMORY
    found = {str(row.ev_id) for row in faulty_spark.read.parquet(str(spark_folder / "events")).collect()}
    sent = {number for (number,) in log.ask("select ev_data from sent")}
    assert sum(rows) == len(sent), "more rows than events"
    assert found == sent
