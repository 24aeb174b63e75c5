"""The comparisons of the event log, by name: with PgQ's C extension, with COPY, with python3-pgq, and with itself.

Invariant: where something to compare with is not installed, a comparison says so and how to get it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks import log_producing, log_reading, log_running
from benchmarks.log_databases import DEBIAN_15, PACKAGES, extension, ours, pgque
from benchmarks.measuring import Side, percentile, ratio
from benchmarks.reporting import Bench, NotRunError, Result, console, show
from rowbus.database.embedded import find_binaries

LATENCY_ROUNDS = 3
HELD_ROUNDS = 3


def find_server() -> Path:
    """Return the binaries to use: PostgreSQL 15, for which Debian has the extension, else the embedded server's."""
    return DEBIAN_15 if (DEBIAN_15 / "postgres").exists() else find_binaries()


def insert(bench: Bench) -> list[Result]:
    """`insert_event`, one and a hundred a transaction."""
    _require_pgbench()
    databases = [ours(bench.dsn), extension(bench.dsn), pgque(bench.dsn)]
    if databases[2] is None:
        console.print(
            "PgQue is not measured: no package of PyPI, npm or Debian has its SQL file; "
            "PGQUE_SQL=path/to/pgque.sql says where one is."
        )
    results = []
    for per_transaction, events, target in ((1, 4_000, 0.95), (100, 60_000, 0.9)):
        sides = [
            log_producing.insert_event(database, bench.messages(events), per_transaction=per_transaction)
            for database in databases
            if database
        ]
        results += compare(bench, f"(g) insert_event, {per_transaction} a transaction", sides, target)
    return results


def triggers(bench: Bench) -> list[Result]:
    """`jsontriga`, 100-row and 1-row INSERTs; for information also before any maintenance has generated its code."""
    _require_pgbench()
    databases = {
        "Rowbus": ours(bench.dsn),
        "pgq, C extension": extension(bench.dsn),
        "Rowbus, before maintenance": ours(bench.dsn, "unmaintained"),
    }
    for name, database in databases.items():
        log_producing.captured_table(database, maintained=name == "Rowbus")
    results = []
    for per_statement, rows in ((100, 40_000), (1, 20_000)):
        sides = [
            log_producing.insert_rows(name, database, bench.messages(rows), per_statement=per_statement)
            for name, database in databases.items()
        ]
        results += compare(bench, f"(h) jsontriga, {per_statement}-row INSERTs", sides, 0.9)
    return results


def copy(bench: Bench) -> list[Result]:
    """`append_many` against COPY into an identical table."""
    database, events = ours(bench.dsn), bench.messages(100_000)
    texts = log_producing.append_many(database, events, as_json=False)
    bare = log_producing.BareCopy(database).side(events)
    dicts = log_producing.append_many(database, events, as_json=True)
    runs = bench.meter.alternate([texts, bare, dicts], bench.rounds)
    show("(i) append_many", runs, "event")
    return [Result("(i) append_many, against psycopg's COPY", ratio(runs[texts.name], runs[bare.name]), 0.9)]


def read(bench: Bench) -> list[Result]:
    """A batch into Python objects, against python3-pgq."""
    events = bench.messages(50_000)
    ours_ = log_reading.fill(ours(bench.dsn), events)
    theirs = log_reading.fill(extension(bench.dsn), events)
    with ExitStack() as stack:
        mine = log_reading.rowbus_reads(ours_)
        others = [stack.enter_context(log_reading.python_pgq(theirs, fetch=fetch)) for fetch in (300, 0)]
        sides = {reads: reads.side() for reads in (mine, *others)}
        runs = bench.meter.alternate(list(sides.values()), bench.rounds)
        show(f"(j) a batch of {events:,} events", runs, "event")
        return [
            Result(f"(j) reading a batch, against {sides[other].name}", ratios(mine.rates, other.rates), 1.2)
            for other in others
        ]


def old_transaction(bench: Bench) -> list[Result]:
    """A batch beside an old open transaction, against one without."""
    scale = min(1.0, bench.scale)
    free = log_reading.batch_after_many(ours(bench.dsn), scale=scale)
    beside = ours(bench.dsn, "beside")
    with log_reading.old_transaction(beside):
        log_reading.batch_after_many(beside, scale=scale)
        sides = [
            log_reading.batch_reads("beside an old transaction", beside, times=20),
            log_reading.batch_reads("without", free, times=20),
        ]
        runs = bench.meter.alternate(sides, bench.rounds)
    show(f"(k) a batch of {log_reading.BATCH:,} events", runs, "event")
    slower = ratio(runs[sides[1].name], runs[sides[0].name])
    return [
        Result(
            "(k) a batch beside an old open transaction takes, against one without", slower, 1.5, at_most=True
        )
    ]


def latency(bench: Bench) -> list[Result]:
    """From insert to handler at a tick of 50 ms."""
    measured = log_running.Latencies(ours(bench.dsn), bench.messages(1_000))
    side = measured.side()
    runs = bench.meter.alternate([side], min(LATENCY_ROUNDS, bench.rounds))
    show("(l) one event a transaction, at random moments", runs, "event")
    return [
        Result(
            f"(l) latency at a tick of 50 ms, p{percent}",
            percentile(measured.milliseconds, percent),
            most,
            " ms",
            at_most=True,
        )
        for percent, most in ((50, 60), (99, 150))
    ]


def held_snapshot(bench: Bench) -> list[Result]:
    """The consumer's loop beside a held snapshot: its last tenth against its first."""
    loops = bench.messages(5_000)
    databases = [ours(bench.dsn)]
    try:
        databases.append(extension(bench.dsn))
    except NotRunError as reason:
        console.print(f"(m) without the C extension: {reason}")
    held = [log_running.HeldSnapshotLoop(database, loops) for database in databases]
    runs = bench.meter.alternate([loop.side() for loop in held], min(HELD_ROUNDS, bench.rounds))
    show(f"(m) {loops:,} loops of one event beside a held snapshot", runs, "loop")
    for database, loop in zip(databases[1:], held[1:], strict=True):
        console.print(
            f"{database.name}: last tenth against the first: {statistics.median(loop.decline[1:]):.2f}"
        )
    decline = statistics.median(held[0].decline[1:])
    return [Result("(m) consumer's loop beside a held snapshot, last tenth against the first", decline, 0.8)]


def compare(bench: Bench, title: str, sides: Sequence[Side], target: float) -> list[Result]:
    """Alternate; the first side is ours, the second the one with a target."""
    runs = bench.meter.alternate(list(sides), bench.rounds)
    show(title, runs, "event")
    own, *others = sides
    return [
        Result(f"{title}, against {other.name}", ratio(runs[own.name], runs[other.name]), target)
        for other in others[:1]
    ]


def ratios(ours_: list[float], theirs: list[float]) -> float:
    """The median of the ratios of the rounds, without the first, cold one."""
    return statistics.median(a / b for a, b in zip(ours_[1:], theirs[1:], strict=True))


def _require_pgbench() -> None:
    if not log_producing.has_pgbench():
        raise NotRunError(f"Debian's PostgreSQL 15 with pgbench is not installed ({PACKAGES})")


COMPARISONS: dict[str, Callable[[Bench], list[Result]]] = {
    "log_insert": insert,
    "log_triggers": triggers,
    "log_copy": copy,
    "log_read": read,
    "log_old_transaction": old_transaction,
    "log_latency": latency,
    "log_held_snapshot": held_snapshot,
}
