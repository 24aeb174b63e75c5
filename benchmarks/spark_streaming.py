"""A stream at work: the least that a micro-batch takes, a tick of a million events, and what an idle one asks for.

Invariant: the source and the sink are ours, exactly once, as a user gets them by default.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import psycopg

from benchmarks.spark_data import LOG, MEMBERS, append, make_log
from benchmarks.spark_machine import Machine
from benchmarks.spark_workers import watched_workers

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

SMALL = 100  # events of a micro-batch
MERGED = 10_000  # rows of the Delta table that they are merged into
IDLE = 20.0  # seconds
SETTLING = 3.0  # seconds until a stream that has just begun is idle


@contextmanager
def stream(machine: Machine, dsn: str, *, once: bool, **source: str) -> Iterator[StreamingQuery]:
    """Run a stream from the log into a table; stop it in the end."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "create unlogged table if not exists target (ev_id bigint, ev_type text, ev_data text)"
        )
    events = _reader(machine, dsn, **source).load().select("ev_id", "ev_type", "ev_data")
    writer = events.writeStream.format("rowbus").options(dsn=dsn, deliver="table", table="target")
    with _running(writer, once=once) as query:
        yield query


@contextmanager
def merging_stream(machine: Machine, dsn: str) -> Iterator[StreamingQuery]:
    """Run a stream from the log, with typed columns, into a Delta table, merged by the order's number."""
    events = _reader(machine, dsn).schema(f"ev_id bigint, {MEMBERS}").load()
    writer = events.writeStream.format("rowbus").options(
        deliver="delta", mergeKeys="order", sequenceBy="ev_id"
    )
    with (
        tempfile.TemporaryDirectory(prefix="rowbus-bench-delta-") as folder,
        _running(writer.option("path", folder), once=False) as query,
    ):
        yield query


def _reader(machine: Machine, dsn: str, **source: str) -> DataStreamReader:
    given = {"dsn": dsn, "log": LOG, "consumer": "bench", "startingOffsets": "earliest", **source}
    return machine.spark.readStream.format("rowbus").options(**given)


@contextmanager
def _running(writer: DataStreamWriter, *, once: bool) -> Iterator[StreamingQuery]:
    folder = tempfile.mkdtemp(prefix="rowbus-bench-stream-")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    query = (
        writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
    ).start()
    try:
        yield query
    finally:
        query.stop()
        shutil.rmtree(folder)


def batch_seconds(machine: Machine, batches: int) -> list[float]:
    """Say how long micro-batches of a hundred events took, one by one, into a table of the database."""
    dsn = make_log(machine, "bench_floor", SMALL)
    return _seconds(dsn, batches, stream(machine, dsn, once=False))


def merge_seconds(machine: Machine, batches: int, rows: int) -> list[float]:
    """Say the same of a Delta table that has so many rows; each batch changes a hundred of them."""
    dsn = make_log(machine, "bench_merge", rows)
    return _seconds(dsn, batches, merging_stream(machine, dsn))


def _seconds(dsn: str, batches: int, stream: AbstractContextManager[StreamingQuery]) -> list[float]:
    with stream as query, psycopg.connect(dsn, autocommit=True) as connection:
        query.processAllAvailable()
        for _ in range(batches):
            append(connection, SMALL)
            query.processAllAvailable()
        found = [
            p["durationMs"]["triggerExecution"] / 1_000 for p in query.recentProgress if p["numInputRows"]
        ]
    return found[len(found) - batches :]


def idle_statements(machine: Machine) -> float:
    """Say how many statements a second an idle stream sends, as the server logs them."""
    dsn = make_log(machine, "bench_idle", SMALL)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("alter database bench_idle set log_statement = 'all'")
    with stream(machine, dsn, once=False) as query:
        query.processAllAvailable()
        time.sleep(SETTLING)
        before = machine.statements("bench_idle")
        time.sleep(IDLE)
        return (machine.statements("bench_idle") - before) / IDLE


def big_tick(machine: Machine, events: int) -> tuple[int, int, float, float]:
    """Read one tick in tenths; give the number of batches, the largest one, the worker's peak in MB, and events/s."""
    dsn = make_log(machine, "bench_tick", events)
    with watched_workers() as peak:
        begun = time.perf_counter()
        with stream(machine, dsn, once=True, maxOffsetsPerTrigger=str(events // 10)) as query:
            query.awaitTermination()
            seconds = time.perf_counter() - begun
            rows = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert sum(rows) == events, (sum(rows), events)
    return len(rows), max(rows), max(peak, default=0) / 2**20, events / seconds
