"""`rowbus spark replicate`.

Invariant: nothing of the source's tables is changed, and of the target's only those of the replica.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rowbus.cli.options import Database, Json, LogName, Metrics, Verbose, check_database, open_log_database
from rowbus.cli.output import say, show_json
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
    in_bytes,
    running,
    start_spark,
    tell,
)
from rowbus.errors import StorageError

if TYPE_CHECKING:
    from rowbus.spark.pipelines.replication import ReplicaReport


Checkpoint = Annotated[
    Path,
    typer.Option(
        "--checkpoint", metavar="PATH", help="Where Spark keeps how far it is; made if it is missing."
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="DSN",
        help="The database of the copies. Not given: the log's own.",
        callback=check_database,
    ),
]
CopiesSchema = Annotated[
    str, typer.Option("--schema", metavar="NAME", help="The schema of the copies; see --same-schemas.")
]
SameSchemas = Annotated[
    bool, typer.Option("--same-schemas", help="In another database: each copy in the schema of its source.")
]
Tables = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="TABLE", help="Only this table; may be given more than once."),
]
CopyAgain = Annotated[
    bool,
    typer.Option("--copy-again", help="Copy all tables anew: one was altered, or the checkpoint was lost."),
]


def replicate(  # noqa: PLR0913 - an argument for each option
    log: LogName,
    *,
    checkpoint: Checkpoint,
    target: Target = None,
    schema: CopiesSchema = "replica",
    same_schemas: SameSchemas = False,
    tables: Tables = None,
    resync: Resync = None,
    consumer: Consumer = "replica",
    follow: Follow = False,
    copy_again: CopyAgain = False,
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
    """Replicate the tables captured into a log: copy them, then apply their changes, each once.

    Brings the copies up to date and ends; run it again, or with --follow, for what changes later. All tables change
    in one transaction a batch. Tables that are captured later are copied at the next run.
    """
    asked: dict[str, Any] = {
        "checkpoint": checkpoint.absolute(),
        "source": open_log_database(database).conninfo,
        "target": target,
        "schema": None if same_schemas else schema,
        "tables": tables,
        "resync": resync or (),
        "consumer": consumer,
        "follow": follow,
        "copy_again": copy_again,
        "max_events_per_batch": max_events,
        "max_bytes_per_batch": in_bytes(max_bytes),
        "read_dsn": read_database,
    }
    from rowbus.spark.pipelines.replica import ReplicaPlan, check_replica, copy_beside
    from rowbus.spark.pipelines.replication import replicate as replicate_tables

    plan = ReplicaPlan(log, consumer, consumer, asked["schema"], tables, resync=resync or ())
    source, copies = open_log_database(database), open_log_database(target or database)
    check_replica(source, copies, plan)  # Spark takes its time
    if (copied := copy_beside(source, copies, plan, tell)) is not None:
        show_json({"copied": copied}) if as_json else None
        return
    spark = start_spark("replicate", cores=cores, memory=memory, metrics=metrics)
    with running(f"Replicating {log}") as shown:
        done = replicate_tables(spark, log, **asked, **shown._asdict())
    show_json(asdict(done)) if as_json else _show(done)
    _require_no_faults(done)


def _require_no_faults(done: ReplicaReport) -> None:
    """Raise StorageError if tables stand still."""
    from rowbus.spark.pipelines.replication import stands_still

    if done.faults:
        raise StorageError(stands_still(done.faults), sqlstate=None, transient=False)


def _show(done: ReplicaReport) -> None:
    for name, copy in done.tables.items():
        rows = done.copied.get(name)
        say(f"{name} is replicated to {copy}" + ("." if rows is None else f": {rows:,} rows copied."))
    say(f"Applied {done.events:,} events in {done.batches} {'batch' if done.batches == 1 else 'batches'}.")
