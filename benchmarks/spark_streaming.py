"""A stream at work: the least that a micro-batch takes, a tick of a million events, and what an idle one asks for.

Invariant: the source and the sink are ours, exactly once, as a user gets them by default.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from benchmarks.spark_data import LOG, append, make_log
from benchmarks.spark_machine import Machine

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

SMALL = 100  # events of a micro-batch
IDLE = 20.0  # seconds
SETTLING = 3.0  # seconds until a stream that has just begun is idle


@contextmanager
def stream(machine: Machine, dsn: str, *, once: bool, **source: str) -> Iterator[StreamingQuery]:
    """Run a stream from the log into a table; stop it in the end."""
    folder = tempfile.mkdtemp(prefix="rowbus-bench-stream-")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "create unlogged table if not exists target (ev_id bigint, ev_type text, ev_data text)"
        )
    events = machine.spark.readStream.format("rowbus").options(
        **{"dsn": dsn, "log": LOG, "consumer": "bench", "startingOffsets": "earliest", **source}
    )
    writer = (
        events.load()
        .select("ev_id", "ev_type", "ev_data")
        .writeStream.format("rowbus")
        .options(dsn=dsn, deliver="table", table="target", checkpointLocation=f"{folder}/checkpoint")
    )
    query = (
        writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
    ).start()
    try:
        yield query
    finally:
        query.stop()
        shutil.rmtree(folder)


def batch_seconds(machine: Machine, batches: int) -> list[float]:
    """Say how long micro-batches of a hundred events took, one by one."""
    dsn = make_log(machine, "bench_floor", SMALL)
    with stream(machine, dsn, once=False) as query, psycopg.connect(dsn, autocommit=True) as connection:
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
    return len(rows), max(rows), statistics.fmean([max(peak, default=0)]) / 2**20, events / seconds


@contextmanager
def watched_workers() -> Iterator[list[int]]:
    """Note the peak memory in bytes of the Python processes below this one as long as the block lasts."""
    peaks: list[int] = []
    ended = threading.Event()
    for pid in _below(os.getpid()):
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text(
                "5"
            )  # a worker that is used again begins with what it has now

    def watch() -> None:
        while not ended.wait(0.2):
            peaks.extend(_peak(pid) for pid in _below(os.getpid()) if "python" in _command(pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()


def _below(pid: int) -> set[int]:
    found: set[int] = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _text(path).split():
            found |= {int(child)} | _below(int(child))
    return found


def _peak(pid: int) -> int:
    lines = _text(Path(f"/proc/{pid}/status")).splitlines()
    return next((int(line.split()[1]) * 1_024 for line in lines if line.startswith("VmHWM:")), 0)


def _command(pid: int) -> str:
    return _text(Path(f"/proc/{pid}/cmdline")).split("\0")[0]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
