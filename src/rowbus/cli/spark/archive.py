"""`rowbus spark archive` and `compact`.

Invariant: no event of an archive is ever deleted here; files are replaced by others with the same events.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowbus.cli.options import Database, Json, Verbose
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
from rowbus.cli.spark.progress import running, tell
from rowbus.cli.target import open_log_database

if TYPE_CHECKING:
    from rowbus.spark.pipelines.archiving import ArchiveReport

MEGABYTE = 2**20


class Form(StrEnum):
    """What an archive is made of."""

    PARQUET = "parquet"
    DELTA = "delta"


ArchivePath = Annotated[
    Path, typer.Argument(metavar="PATH", help="An archive that `rowbus spark archive` made.")
]


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
    spark = start_spark("archive", cores=cores, memory=memory)
    from rowbus.spark.pipelines.archiving import archive as archive_logs  # noqa: PLC0415 - imports Spark

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
    older_than: Annotated[
        float,
        typer.Option(
            "--older-than",
            metavar="DAYS",
            min=0,
            help="Only files that are older. Less than 8 days: streams that read the archive may see events twice.",
        ),
    ] = 8.0,
    target: Annotated[
        int, typer.Option("--target", metavar="MB", min=1, help="About how big the files shall be.")
    ] = 128,
    as_json: Json = False,
    _verbose: Verbose = False,
) -> None:
    """Merge the many small files of an archive into few.

    Spark reads each event of the archive once, before, during and after the merge. Do not run it beside `rowbus spark
    archive`. Needs no Java.
    """
    from rowbus.spark.pipelines.compaction import compact as compact_files  # noqa: PLC0415 - needs Arrow

    done = compact_files(
        path, older_than=timedelta(days=older_than), target_bytes=target * MEGABYTE, tell=tell
    )
    if as_json:
        show_json(asdict(done))
    else:
        say(f"{done.files_before} files became {done.files_after}: {done.path}")
