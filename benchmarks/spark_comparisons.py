"""The comparisons of the pipeline on Spark, by name; each runs on every version of PostgreSQL that is here.

Invariant: what is compared alternates in one run; where the JDBC driver is missing, a comparison says how to get it.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

from rich.table import Table

from benchmarks import spark_archiving, spark_lake, spark_reading, spark_streaming, spark_writing
from benchmarks.measuring import Measurement, ratio
from benchmarks.reporting import NotRunError, Result, console
from benchmarks.spark_data import ARCHIVED, EVENTS, FILTERED, Rows, make_log
from benchmarks.spark_machine import Machine, need_delta, need_jdbc, versions
from benchmarks.spark_machine import machine as start_machine


def read(machine: Machine) -> list[Result]:
    """(n) The source to noop."""
    need_jdbc()
    events = machine.events(EVENTS)
    dsn = make_log(machine, "bench_read", events)
    ours = spark_reading.rowbus_reads(machine, dsn, events)
    jdbc = spark_reading.jdbc_reads(machine, "bench_read", dsn, events)
    tuples = spark_reading.rowbus_reads(machine, dsn, events, **TUPLES)
    runs = machine.meter.alternate([ours, jdbc, tuples], machine.rounds)
    title = f"(n) source to noop, PostgreSQL {machine.version}"
    show(title, runs)
    return [
        Result(f"{title}, against Spark JDBC", ratio(runs[ours.name], runs[jdbc.name]), 1.0),
        Result(f"{title}, against psycopg", ratio(runs[ours.name], runs[tuples.name]), 2.5),
    ]


def typed(machine: Machine) -> list[Result]:
    """(n2) A schema's columns, decoded from bodies in JSON."""
    need_jdbc()
    events = machine.events(EVENTS)
    dsn = make_log(machine, "bench_typed", events)
    ours = spark_reading.rowbus_reads_typed(machine, dsn, events)
    jdbc = spark_reading.jdbc_reads_typed(machine, "bench_typed", dsn, events)
    runs = machine.meter.alternate([ours, jdbc], machine.rounds)
    title = f"(n2) typed rows to noop, PostgreSQL {machine.version}"
    show(title, runs)
    return [Result(f"{title}, against from_json", ratio(runs[ours.name], runs[jdbc.name]), 1.5)]


def archived(machine: Machine) -> list[Result]:
    """(n3) An archive of a log."""
    need_jdbc()
    events = machine.events(ARCHIVED)
    dsn = make_log(machine, "bench_archive", events)
    with spark_lake.lake_folder() as folder:
        ours = spark_archiving.rowbus_archives(machine, dsn, events, folder)
        jdbc = spark_archiving.jdbc_archives(machine, "bench_archive", dsn, events, folder)
        runs = machine.meter.alternate([ours, jdbc], machine.rounds)
    title = f"(n3) archive to Parquet, PostgreSQL {machine.version}"
    show(title, runs)
    return [Result(f"{title}, against Spark JDBC", ratio(runs[ours.name], runs[jdbc.name]), 1.0)]


def lake_copy(machine: Machine) -> list[Result]:
    """(p2) The first copy of a table to Delta."""
    need_jdbc()
    need_delta()
    orders = spark_lake.Orders(machine, "bench_copy", machine.events(spark_lake.ROWS))
    with spark_lake.lake_folder() as folder:
        copies = spark_lake.Copies(machine, orders, folder)
        ours, jdbc, duckdb = copies.rowbus(), copies.jdbc(), copies.duckdb()
        runs = machine.meter.alternate([ours, jdbc, duckdb], min(machine.rounds, LONG))
        copies.check()
    title = f"(p2) first copy to Delta, PostgreSQL {machine.version}"
    show(title, runs)
    return [
        Result(f"{title}, against Spark JDBC", ratio(runs[ours.name], runs[jdbc.name]), 1.0),
        Result(f"{title}, against DuckDB", ratio(runs[ours.name], runs[duckdb.name]), 0.5),
        Result(f"{title}: peak memory of a Python process", copies.peak / 2**20, 350, " MB", at_most=True),
    ]


def lake_merge(machine: Machine) -> list[Result]:
    """(p3) Changes merged into that table, and into one of twice its size."""
    need_delta()
    rows = machine.events(spark_lake.ROWS)
    few = _merged(machine, rows, rows // 50, min(machine.rounds, LONG), 10)
    return few + _merged(machine, 2 * rows, 2 * rows // 10, 1, 60)


def _merged(machine: Machine, rows: int, changes: int, rounds: int, target: float) -> list[Result]:
    seconds, peak = spark_lake.merges(machine, rows, changes, rounds)
    title = f"(p3) {changes:,} changes merged into {rows:,} rows, PostgreSQL {machine.version}"
    return [
        Result(title, statistics.median(seconds), target, " s", at_most=True),
        Result(f"{title}: peak memory of a Python process", peak / 2**20, 500, " MB", at_most=True),
    ]


def lake_batch(machine: Machine) -> list[Result]:
    """(p4) The least that a micro-batch takes which is merged."""
    need_delta()
    rows = machine.events(spark_streaming.MERGED)
    seconds = statistics.median(spark_streaming.merge_seconds(machine, 4 * machine.rounds, rows))
    title = (
        f"(p4) micro-batch of {spark_streaming.SMALL} events merged into Delta, PostgreSQL {machine.version}"
    )
    return [Result(title, seconds, 1.0, " s", at_most=True)]


def filtered(machine: Machine) -> list[Result]:
    """(s) A filter that keeps one event of a hundred."""
    events = machine.events(FILTERED)
    dsn = make_log(machine, "bench_filter", events)
    whole = spark_reading.rowbus_reads(machine, dsn, events)
    some = spark_reading.rowbus_reads(machine, dsn, events, where=f"ev_id > {events - events // 100}")
    runs = machine.meter.alternate([whole, some], machine.rounds)
    title = f"(s) one event of a hundred by `where`, PostgreSQL {machine.version}"
    show(title, runs)
    return [Result(f"{title}, against reading all", ratio(runs[some.name], runs[whole.name]), 10)]


TUPLES = {"reader": "psycopg"}
"""The options by which our source reads without Arrow."""

LONG = 3  # rounds at most of what takes minutes


def write(machine: Machine) -> list[Result]:
    """(o) The sink into a table."""
    need_jdbc()
    rows = Rows(machine, machine.events(EVENTS))
    target = spark_writing.Target(machine, rows)
    none, staged, prepared = (target.rowbus(guarantee) for guarantee in ("none", "staged", "prepared"))
    jdbc = target.jdbc()
    runs = machine.meter.alternate([none, jdbc, staged, prepared], machine.rounds)
    target.check()
    rows.remove()
    title = f"(o) sink, PostgreSQL {machine.version}"
    show(title, runs)
    return [
        Result(f"{title}, at least once, against Spark JDBC", ratio(runs[none.name], runs[jdbc.name]), 1.5),
        Result(f"{title}, staged, against at least once", ratio(runs[staged.name], runs[none.name]), 0.4),
        Result(
            f"{title}, prepared, against at least once", ratio(runs[prepared.name], runs[none.name]), 0.75
        ),
    ]


def write_queue(machine: Machine) -> list[Result]:
    """(o2) The sink into a queue."""
    need_jdbc()
    rows = Rows(machine, machine.events(EVENTS))
    queue = spark_writing.Queue(machine, rows)
    none, staged, jdbc = queue.rowbus("none"), queue.rowbus("staged"), queue.jdbc()
    runs = machine.meter.alternate([none, staged, jdbc], machine.rounds)
    queue.check()
    rows.remove()
    title = f"(o2) sink into a queue, PostgreSQL {machine.version}"
    show(title, runs)
    return [
        Result(f"{title}, {how}, against Spark JDBC", ratio(runs[ours.name], runs[jdbc.name]), 0.7)
        for how, ours in (("at least once", none), ("staged", staged))
    ]


def batch_floor(machine: Machine) -> list[Result]:
    """(p) The least a micro-batch takes."""
    seconds = statistics.median(spark_streaming.batch_seconds(machine, 4 * machine.rounds))
    title = f"(p) micro-batch of {spark_streaming.SMALL} events, PostgreSQL {machine.version}"
    return [Result(title, seconds, 0.6, " s", at_most=True)]


def big_tick(machine: Machine) -> list[Result]:
    """(q) A tick of a million events."""
    batches, largest, peak, rate = spark_streaming.big_tick(machine, machine.events(EVENTS))
    title = f"(q) tick of a million in tenths, PostgreSQL {machine.version}"
    console.print(f"{title}: {batches} batches, the largest {largest:,}, {rate:,.0f} events/s")
    return [
        Result(f"{title}: batches", batches, 10),
        Result(f"{title}: peak memory of a Python worker", peak, 350, " MB", at_most=True),
    ]


def idle(machine: Machine) -> list[Result]:
    """(r) What an idle stream asks the server."""
    title = f"(r) idle stream, statements a second, PostgreSQL {machine.version}"
    return [Result(title, spark_streaming.idle_statements(machine), 4, at_most=True)]


COMPARISONS: dict[str, Callable[[Machine], list[Result]]] = {
    "spark_read": read,
    "spark_write": write,
    "spark_write_queue": write_queue,
    "spark_batch_floor": batch_floor,
    "spark_big_tick": big_tick,
    "spark_idle": idle,
    "spark_filter": filtered,
    "spark_typed": typed,
    "spark_archive": archived,
    "spark_lake_copy": lake_copy,
    "spark_lake_merge": lake_merge,
    "spark_lake_batch": lake_batch,
}
ALL = "spark"
FIGURES = (
    "spark_read",
    "spark_archive",
    "spark_typed",
    "spark_filter",
    "spark_lake_copy",
    "spark_lake_merge",
    "spark_lake_batch",
)
"""The figures that data teams ask for: `ALL` stands for them."""


def run(name: str, arguments: argparse.Namespace) -> list[Result]:
    """Run one comparison on each server that is asked for, which is stopped before the next one starts."""
    results = []
    try:
        asked = versions(arguments.server)
    except NotRunError as reason:
        return [Result(name, 0.0, 0.0, not_run=str(reason))]
    for version, _binaries in asked:
        with start_machine(version, arguments.rounds, arguments.scale) as place:
            results += _run_on(place, name)
    return results


def show(title: str, runs: dict[str, list[Measurement]]) -> None:
    """Print the medians of one comparison; the client is a JVM, whose CPU is not ours to see."""
    table = Table(title=title, title_justify="left")
    for column in ("side", "seconds", "events/s", "server CPU µs/event", "WAL bytes/event"):
        table.add_column(column, justify="left" if column == "side" else "right")
    for name, measured in runs.items():
        table.add_row(
            name,
            f"{statistics.median(run.seconds for run in measured):.2f}",
            f"{statistics.median(run.rate for run in measured):,.0f}",
            f"{statistics.median(run.server_cpu / run.messages for run in measured) * 1e6:,.2f}",
            f"{statistics.median(run.wal_bytes / run.messages for run in measured):,.0f}",
        )
    console.print(table)


def _run_on(machine: Machine, name: str) -> list[Result]:
    try:
        return COMPARISONS[name](machine)
    except NotRunError as reason:
        return [Result(f"{name}, PostgreSQL {machine.version}", 0.0, 0.0, not_run=str(reason))]
