"""`rowbus spark archive` and `compact`.

Invariant: no event of an archive is ever deleted here; files are replaced by others with the same events.
"""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowbus.cli.options import Database, Json, Metrics, Verbose
from rowbus.cli.output import say, show_json
from rowbus.cli.spark.options import (
    DEFAULT_MEMORY,
    Consumer,
    Cores,
    Follow,
    MaxEvents,
    Memory,
    ReadDatabase,
    start_spark,
)
from rowbus.cli.spark.progress import running
from rowbus.cli.target import open_log_database

if TYPE_CHECKING:
    from rowbus.spark.pipelines.log_archive import ArchiveReport

MEGABYTE = 2**20


class Form(StrEnum):
    """What an archive is made of."""

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
        "start_over": start_over,
    }
    spark = start_spark("archive", cores=cores, memory=memory, metrics=metrics)
    from rowbus.spark.pipelines.log_archive import archive as archive_logs  # noqa: PLC0415 - imports Spark

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
    from rowbus.spark.pipelines.compaction import compact as compact_files  # noqa: PLC0415 - only this verb needs it

    done = compact_files(path, target_bytes=target * MEGABYTE)
    if as_json:
        show_json(asdict(done))
    else:
        say(f"{done.files_before} files became {done.files_after}: {done.path}")
