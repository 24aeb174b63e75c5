"""`rowbus spark archive`, `compact` and `replay`: archives of logs, written and read.

Invariants: no event of an archive is ever deleted here; files are replaced by others with the same events; an archive
is only read, and one replay is written once.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rowbus.cli.options import Database, Json, Metrics, Verbose, open_log_database
from rowbus.cli.output import say, show_json
from rowbus.cli.spark.course import (
    DEFAULT_MEMORY,
    MEGABYTE,
    Consumer,
    Cores,
    Follow,
    MaxBytes,
    MaxEvents,
    Memory,
    ReadDatabase,
    display,
    in_bytes,
    running,
    start_spark,
)
from rowbus.cli.spark.report import TIME_HELP, exact_moment, moment

if TYPE_CHECKING:
    from rowbus.spark.pipelines.event_replay import ReplayReport
    from rowbus.spark.pipelines.log_archive import ArchiveReport


class Form(StrEnum):
    """The sources of an archive."""

    PARQUET = "parquet"
    DELTA = "delta"


ArchivePath = Annotated[Path, typer.Argument(metavar="PATH", help="An archive made with --format delta.")]


ArchiveFormat = Annotated[Form, typer.Option("--format", help="Parquet files, or a Delta table.")]
Starting = Annotated[
    str,
    typer.Option(
        "--starting", metavar="WHERE", help="Where a new archive begins: earliest, latest or committed."
    ),
]
StartOver = Annotated[
    bool,
    typer.Option(
        "--start-over", help="If the archive has lost its checkpoint: put it aside, and begin a new one."
    ),
]


def archive(  # noqa: PLR0913 - an argument for each option
    logs: Annotated[list[str], typer.Argument(metavar="LOG...", help="Logs to archive.")],
    *,
    to: Annotated[Path, typer.Option("--to", metavar="PATH", help="The archive's folder.")],
    form: ArchiveFormat = Form.PARQUET,
    follow: Follow = False,
    consumer: Consumer = "archive",
    starting: Starting = "earliest",
    max_events: MaxEvents = None,
    max_bytes: MaxBytes = None,
    start_over: StartOver = False,
    read_database: ReadDatabase = None,
    cores: Cores = "*",
    memory: Memory = DEFAULT_MEMORY,
    metrics: Metrics = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Archive logs as Parquet or Delta, partitioned by log and date: each event once.

    Archives what is there and not archived yet, and ends; run it again for what has come since. What is archived, the
    logs need not retain any more.
    """
    dsn = open_log_database(database).conninfo
    asked: dict[str, Any] = {
        "dsn": dsn,
        "read_dsn": read_database,
        "consumer": consumer,
        "form": form.value,
        "follow": follow,
        "starting": starting,
        "max_events_per_batch": max_events,
        "max_bytes_per_batch": in_bytes(max_bytes),
        "start_over": start_over,
    }
    spark = start_spark("archive", cores=cores, memory=memory, metrics=metrics)
    from rowbus.spark.pipelines.log_archive import archive as archive_logs

    with running(f"Archiving {', '.join(logs)}") as shown:
        done = archive_logs(spark, logs, to.absolute(), watch=shown.watch, stop=shown.stop, **asked)
    if as_json:
        show_json(asdict(done))
    else:
        _show(done, consumer)


def _show(done: ArchiveReport, consumer: str) -> None:
    if done.aside:
        say(f"Put the old archive aside: {done.aside}")
    batches = "batch" if done.batches == 1 else "batches"
    say(f"Archived {done.events:,} events in {done.batches} {batches}: {done.path}")
    for log, tick in done.released.items():
        say(f"Log {log} need not retain anything before tick {tick} for {consumer}.")


def compact(
    path: ArchivePath,
    *,
    target: Annotated[
        int, typer.Option("--target", metavar="MB", min=1, help="About how big the merged files are.")
    ] = 128,
    as_json: Json = False,
    _verbose: Verbose = False,
) -> None:
    """Merge the small files of a Delta archive into larger ones.

    Readers see each event once, before, during and after. Needs no Java. Parquet archives are refused.
    """
    from rowbus.spark.pipelines.log_archive import compact as compact_files

    done = compact_files(path, target_bytes=target * MEGABYTE)
    if as_json:
        show_json(asdict(done))
    else:
        say(f"{done.files_before} files became {done.files_after}: {done.path}")


IntoLog = Annotated[
    str | None, typer.Option("--into-log", metavar="LOG", help="Append the events to this log.")
]
IntoQueue = Annotated[
    str | None, typer.Option("--into-queue", metavar="QUEUE", help="Send them as messages to this queue.")
]


class Instant(NamedTuple):
    """A time as it was given, and as it is now."""

    text: str
    time: datetime


def instant(text: str) -> Instant:
    """Read a time as people type it: a moment, or how long ago."""
    return Instant(text, moment(text))


From = Annotated[
    Instant | None, typer.Option("--from", metavar="TIME", parser=instant, help=f"From {TIME_HELP}.")
]
To = Annotated[
    Instant | None, typer.Option("--to", metavar="TIME", parser=instant, help="Before this time; as --from.")
]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TYPE", help="Only events of this type; may be given more than once."),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where", metavar="SQL", help="Only where this is true: Spark's SQL on ev_type, ev_data, …"
    ),
]
ReplayId = Annotated[
    str | None,
    typer.Option(
        "--replay-id",
        metavar="ID",
        help="What is written once for each ID. Not given: the same arguments are the same replay, times as they are.",
    ),
]
Lineage = Annotated[
    str | None,
    typer.Option(
        "--lineage", metavar="FIELD", help="Field of the new events to say where they are from: ev_extra4."
    ),
]


def replay(  # noqa: PLR0913 - an argument for each option
    path: ArchivePath,
    *,
    into_log: IntoLog = None,
    into_queue: IntoQueue = None,
    start: From = None,
    end: To = None,
    types: Types = None,
    where: Where = None,
    replay_id: ReplayId = None,
    lineage: Lineage = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the events.")] = False,
    form: Annotated[Form, typer.Option("--format", help="What the archive is made of.")] = Form.PARQUET,
    cores: Cores = "*",
    memory: Memory = DEFAULT_MEMORY,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Write archived events, or messages, into a log or a queue: of a span of time, of some types, or any condition.

    All in one transaction, and once: the same replay again writes nothing.
    """
    if (into_log is None) == (into_queue is None):
        raise typer.BadParameter("say where to: --into-log or --into-queue.")
    asked: dict[str, Any] = {
        "into_log": into_log,
        "into_queue": into_queue,
        "dsn": open_log_database(database).conninfo,
        "form": form.value,
        "lineage": lineage,
        "replay_id": replay_id,
        "dry_run": dry_run,
    }
    if not dry_run and replay_id is None:
        _refuse_changing(start, "--from")
        _refuse_changing(end, "--to")
    spark = start_spark("replay", cores=cores, memory=memory)
    from rowbus.spark.pipelines import event_replay as replaying

    choice = replaying.Choice(start and start.time, end and end.time, types or (), where)
    with display(f"Replaying {path}"):
        done = replaying.replay(spark, path.absolute(), choice=choice, **asked)
    if as_json:
        show_json(asdict(done))
    else:
        say(_in_words(done, dry_run=dry_run))


def _refuse_changing(given: Instant | None, option: str) -> None:
    """Require fixed times: with a relative one, a second call would be another replay and write the events again."""
    if given is not None and exact_moment(given.text) is None:
        raise typer.BadParameter(
            f"{option} {given.text} is another time at each call, so that a call that is repeated would write again. "
            f"Give the time, {option} {given.time.isoformat(timespec='seconds')}, or a --replay-id."
        )


def _in_words(done: ReplayReport, *, dry_run: bool) -> str:
    if dry_run:
        return f"{done.events:,} events would go to {done.target}, as replay {done.replay_id}."
    if done.done_before:
        return f"Replay {done.replay_id} was written before, to {done.target}; give another --replay-id to repeat it."
    return f"Wrote {done.events:,} events to {done.target}, as replay {done.replay_id}."
