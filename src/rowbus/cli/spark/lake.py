"""`rowbus spark lake`, `compare` and `vacuum`.

Invariant: nothing of the source's tables is changed, and of a lake's folder only what is there for these tables.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowbus.cli.options import Database, Json, LogName, Metrics, Verbose, open_log_database
from rowbus.cli.output import complain, say, show_json
from rowbus.cli.spark.course import (
    DEFAULT_MEMORY,
    Consumer,
    Cores,
    Follow,
    MaxBytes,
    MaxEvents,
    Memory,
    ReadDatabase,
    Resync,
    display,
    in_bytes,
    running,
    start_spark,
)

if TYPE_CHECKING:
    from rowbus.spark.lake.tables.writer import TablesSettings
    from rowbus.spark.pipelines.lake_tables import LakeReport

Folder = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="PATH",
        help="The lake's folder, or its address: s3://…, gs://… or abfss://…; a table for each table.",
    ),
]


class TableForm(StrEnum):
    """The kind of a lake's tables."""

    DELTA = "delta"
    ICEBERG = "iceberg"
    DUCKLAKE = "ducklake"


Format = Annotated[
    TableForm | None,
    typer.Option(
        "--format", help="The format of the tables; without it that of the folder, in a new folder Delta."
    ),
]
Catalog = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="NAME|URL",
        help="The catalogue of Iceberg tables: a name that pyiceberg is configured with, or a URL; of a DuckLake: a "
        "schema of the database. Without it that of the folder, in a new one SQLite in it, or the schema ducklake.",
    ),
]
Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--tables", metavar="PATTERN", help="Which tables, as shop.orders or 'shop.*'; may be repeated."
    ),
]

History = Annotated[
    bool,
    typer.Option(
        "--history",
        help="Keep the versions of rows, too: of orders in orders_history. Later runs go on to keep them.",
    ),
]

CompactEvery = Annotated[
    int,
    typer.Option(
        "--compact-every",
        metavar="BATCHES",
        min=0,
        help="Merge the small files of tables that have many after so many batches; 0: never.",
    ),
]
KeepHours = Annotated[
    int,
    typer.Option(
        "--keep-hours",
        metavar="HOURS",
        min=1,
        help="At every tenth compaction delete files that no version needs any more and that are older.",
    ),
]


def lake(  # noqa: PLR0913 - an argument for each option
    log: LogName,
    *,
    to: Folder,
    table_format: Format = None,
    catalog: Catalog = None,
    tables: Tables = None,
    resync: Resync = None,
    history: History = False,
    compact_every: CompactEvery = 20,
    keep_hours: KeepHours = 168,
    consumer: Consumer = "lake",
    follow: Follow = False,
    max_events: MaxEvents = None,
    max_bytes: MaxBytes = None,
    read_database: ReadDatabase = None,
    cores: Cores = "*",
    memory: Memory = DEFAULT_MEMORY,
    metrics: Metrics = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Have a lake follow the tables captured into a log: copy them, then merge their changes, each once.

    Brings the tables up to date and ends; run it again, or with --follow, for what changes later. A table that is
    captured later is copied; one that is altered follows in place, where that is sure.
    """
    asked: dict[str, Any] = {
        "to": to,
        "format": table_format.value if table_format else None,
        "catalog": catalog,
        "dsn": open_log_database(database).conninfo,
        "tables": tables or ["*"],
        "history": history,
        "compact_every": compact_every,
        "keep_hours": keep_hours,
        "resync": resync or (),
        "consumer": consumer,
        "follow": follow,
        "max_events_per_batch": max_events,
        "max_bytes_per_batch": in_bytes(max_bytes),
        "read_dsn": read_database,
    }
    from rowbus.spark.pipelines import lake_tables

    settings = _settings(log, asked)
    lake_tables.check_tables(settings, consumer)  # Spark takes its time
    if resync and (again := lake_tables.ask(settings, consumer, resync)):
        _show_asked(again, consumer, as_json=as_json)
        return
    spark = start_spark("lake", cores=cores, memory=memory, metrics=metrics)
    with running(f"Following {log}") as shown:
        done = lake_tables.lake(spark, log, **asked, **shown._asdict())
    show_json(asdict(done)) if as_json else _show(done)


def _settings(log: str, asked: dict[str, Any]) -> TablesSettings:
    """Return the settings of a lake's tables among what is asked for."""
    from rowbus.spark.lake.tables.writer import TablesSettings

    place = asked["to"], log, (*asked["tables"],), asked["dsn"]
    return TablesSettings(*place, asked["format"], asked["history"], catalog=asked["catalog"])


def compare(
    log: LogName,
    *,
    to: Folder,
    tables: Tables = None,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Compare the tables of a lake with those of the database as it is now: rows, and a checksum of them.

    Bring the lake up to date first: what changed since its last tick is a difference. Exit code 1: tables differ.
    """
    from rowbus.spark.lake.tables.comparison import compare_tables

    dsn = open_log_database(database).conninfo
    with display("Comparing") as shown:
        found = compare_tables(to, log, tuple(tables or ("*",)), dsn, shown.tell)
    if as_json:
        show_json([table._asdict() | {"equal": table.equal} for table in found])
    for table in () if as_json else found:
        say(f"{table.name}: {table.says}.")
    if different := [table.name for table in found if not table.equal]:
        complain(f"the lake differs in {', '.join(different)}")
        raise typer.Exit(1)


def vacuum(
    *,
    to: Folder,
    older_than: Annotated[
        int, typer.Option("--older-than", metavar="HOURS", min=1, help="Leave alone what is younger.")
    ] = 168,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing; say how many files.")] = False,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Delete the files of a lake's tables that no version needs any more, and those of attempts that failed.

    Harmless while a job writes. The versions of the last tick stay; readers of older ones may find files gone.
    """
    from rowbus.spark.lake.tables.upkeep import vacuum_tables

    with display("Looking") as shown:
        age = timedelta(hours=older_than)
        found = vacuum_tables(to, older_than=age, dry_run=dry_run, tell=shown.tell, dsn=database)
    if as_json:
        show_json([table._asdict() for table in found])
    for table in () if as_json else found:
        say(f"{table.name}: {len(table.files):,} files {'to delete' if dry_run else 'deleted'}.")


def _show_asked(again: list[str], consumer: str, *, as_json: bool) -> None:
    if as_json:
        show_json({"asked": again})
    else:
        say(f"The job that runs as {consumer} copies {', '.join(again)} anew at its next batch.")


def _show(done: LakeReport) -> None:
    for name, folder in done.tables.items():
        rows = done.copied.get(name)
        say(f"{name} is in {folder}" + ("." if rows is None else f": {rows:,} rows copied."))
    say(f"Merged {done.events:,} events in {done.batches} {'batch' if done.batches == 1 else 'batches'}.")
