"""`rowbus bench`: what this server carries, and what limits it.

Invariant: says first what it creates and drops, and touches nothing else.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import Database, Json, Verbose
from rowbus.cli.output import complain, say, show_json, show_table
from rowbus.database.backends import open_database
from rowbus.database.location import resolve_dsn
from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from rowbus.bench.figures import Figure, Latency, Report
    from rowbus.transport.queues.diagnosis import Finding

Seconds = Annotated[
    int, typer.Option("--seconds", min=1, max=3600, help="How long it may take, about; longer is steadier.")
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", min=1, max=64, help="Messages at a time, for one of the measurements.")
]


def bench(
    *,
    seconds: Seconds = 120,
    concurrency: Concurrency = 8,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Measure what this server carries, and say what limits it.

    Sends, receives, delays, publishes and appends, each also by hand with the driver alone; then judges durability, the
    flush of a commit, the way to the server, memory and connections. Works in a schema of its own, which it creates and
    drops again; the role needs the right to create it. WAL is that of the whole server. PostgreSQL only. Exit code 1:
    it could not measure.
    """
    from rowbus.bench import course
    from rowbus.bench.place import new_name

    dsn, schema = resolve_dsn(database), new_name()
    location = open_database(dsn)
    if not location.has_logs:
        raise ConfigurationError("rowbus bench measures PostgreSQL only; the database given is another.")
    complain(
        f"measures for about {seconds} s in {location.name}, in the schema {schema}, which is created now and dropped "
        "at the end; nothing else is changed."
    )
    try:
        with _progress() as tell:
            report = course.run(course.Plan(dsn, schema, seconds, concurrency, tell))
    except KeyboardInterrupt:
        complain(f"was interrupted; nothing of {schema} is left.")
        raise
    if as_json:
        show_json(_as_json(report))
    else:
        _show(report)


@contextmanager
def _progress() -> Generator[Callable[[str], None]]:
    """Give what shows on a terminal what is measured now; elsewhere it shows nothing."""
    if not sys.stderr.isatty():
        yield lambda _name: None
        return
    from rich.console import Console

    with Console(stderr=True).status("begins") as status:
        yield status.update


def _show(report: Report) -> None:
    say(f"PostgreSQL {report.version}, {report.database}")
    say("")
    show_table(("latency", "p50 ms#", "p99 ms#", "times#"), map(_latency_row, report.latencies))
    say("")
    columns = ("measured", "by", "messages/s#", "client CPU µs/message#", "WAL bytes/message#")
    show_table(columns, map(_figure_row, report.figures))
    for left_out in report.left_out:
        say(f"left out: {left_out.name}: {left_out.why}")
    say("")
    show_table(("", "subject", "found", "what to do"), map(_finding_row, report.findings))


def _latency_row(latency: Latency) -> tuple[str, ...]:
    return (
        latency.name,
        f"{latency.p50 * 1000:,.3f}",
        f"{latency.p99 * 1000:,.3f}",
        f"{latency.samples:,}",
    )


def _figure_row(figure: Figure) -> tuple[str, ...]:
    wal = figure.wal_of_one
    return (
        figure.name,
        figure.by,
        f"{figure.rate:,.0f}",
        f"{figure.cpu_of_one:,.1f}",
        "" if wal is None else f"{wal:,.0f}",
    )


def _finding_row(finding: Finding) -> tuple[str, str, str, str]:
    return finding.level.value, finding.subject, finding.text, finding.advice


def _as_json(report: Report) -> dict[str, object]:
    return {
        "database": report.database,
        "version": report.version,
        "concurrency": report.concurrency,
        "settings": report.settings._asdict(),
        "latencies": [latency._asdict() for latency in report.latencies],
        "figures": [_figure_json(figure) for figure in report.figures],
        "left_out": [left_out._asdict() for left_out in report.left_out],
        "findings": [finding._asdict() | {"level": finding.level.value} for finding in report.findings],
    }


def _figure_json(figure: Figure) -> dict[str, object]:
    return {
        "name": figure.name,
        "by": figure.by,
        "messages": figure.messages,
        "seconds": figure.seconds,
        "messages_per_second": figure.rate,
        "client_cpu_microseconds_per_message": figure.cpu_of_one,
        "wal_bytes_per_message": figure.wal_of_one,
    }
