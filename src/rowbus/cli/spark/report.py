"""`rowbus spark report`: the flow of messages and events, as tables and as a page with plots.

Invariant: nothing is taken out of a queue or a log.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import Database, Json, Schema, Verbose
from rowbus.cli.output import say, show_json, show_table
from rowbus.cli.queue.send import time_span
from rowbus.cli.spark.course import DEFAULT_MEMORY, Cores, Memory, display, start_spark, tell
from rowbus.messages.timestamps import with_zone

if TYPE_CHECKING:
    from rowbus.spark.pipelines.report.result import FlowReport

TIME_HELP = "a time such as 2026-05-01T12:00 (UTC unless it says another zone), or a span ago: 90m, 24h, 7d"
OUTPUT = Path("message-flow")
SHOWN = 20  # rows of a table that the terminal shows


def exact_moment(text: str) -> datetime | None:
    """Read a time that is the same whenever it is read; None for anything else."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return with_zone(time)


def moment(text: str) -> datetime:
    """Read a time as people type it: a moment, or how long ago."""
    if exact := exact_moment(text):
        return exact
    try:
        return datetime.now(UTC) - time_span(text)
    except (typer.BadParameter, OverflowError):
        raise typer.BadParameter(f"{text!r} is not {TIME_HELP}.") from None


LookedInto = Annotated[
    list[str] | None,
    typer.Option("--queue", metavar="QUEUE", help="A queue to look into: error, audit, or any other."),
]
Archives = Annotated[
    list[Path] | None,
    typer.Option("--archive", metavar="PATH", help="An archive that `rowbus spark archive` made."),
]
Logs = Annotated[
    list[str] | None,
    typer.Option("--log", metavar="LOG", help="A log; also one that a queue was drained into."),
]
Since = Annotated[
    datetime | None, typer.Option("--since", metavar="TIME", parser=moment, help=f"From {TIME_HELP}.")
]
Until = Annotated[
    datetime | None,
    typer.Option("--until", metavar="TIME", parser=moment, help="Before this time; as --since."),
]
Bucket = Annotated[
    int | None,
    typer.Option("--bucket", metavar="SECONDS", min=1, help="Span of time of a bar; else one that fits."),
]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Where the page and the tables are written.")
]


def report(  # noqa: PLR0913 - an argument for each option
    *,
    queues: LookedInto = None,
    archives: Archives = None,
    logs: Logs = None,
    since: Since = None,
    until: Until = None,
    bucket: Bucket = None,
    output: Output = OUTPUT,
    as_json: Json = False,
    cores: Cores = "*",
    memory: Memory = DEFAULT_MEMORY,
    schema: Schema = None,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Report on the flow of messages: throughput, latencies, failures, what waits, delays, and the flow of logs.

    Looks into queues without taking messages, and reads logs and archives; what is found in several counts once.
    Writes report.html, a page with plots that loads nothing, and each table as Parquet, CSV and JSON. --queue, --log
    and --archive may be given more than once; one is needed.
    """
    if not (queues or archives or logs):
        raise typer.BadParameter(
            "say what to report on: --queue, --log or --archive, each as often as wanted."
        )
    from rowbus.spark.pipelines.report.report import report_message_flow

    with display("Report") as shown:
        made = report_message_flow(
            start_spark("report", cores=cores, memory=memory),
            queues=queues or (),
            archives=archives or (),
            logs=logs or (),
            since=since,
            until=until,
            bucket=bucket,
            dsn=database,
            schema=schema or "public",
            tell=shown.tell,
        )
    page, *tables = made.write(output)
    if as_json:
        show_json(made.as_json())
    else:
        show(made)
    tell(f"Wrote {page.resolve().as_uri()} and {len(tables)} files of tables beside it")


def show(made: FlowReport) -> None:
    """Print what fits a terminal: latencies, failures, what waits, and the events."""
    from rowbus.spark.pipelines.report import text as report_text

    if made.is_empty:
        say(report_text.nothing_found(made))
    for title, columns, rows in report_text.tables(made):
        say(f"{title}:")
        show_table(columns, rows[:SHOWN])
        if len(rows) > SHOWN:
            say(f"… and {len(rows) - SHOWN} more")
        say("")
