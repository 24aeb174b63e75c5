"""`rowbus spark replay`.

Invariant: an archive is only read, and one replay is written once.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rowbus.cli.options import Database, Json, Verbose
from rowbus.cli.output import say, show_json
from rowbus.cli.spark.archive import ArchivePath, Form
from rowbus.cli.spark.options import DEFAULT_MEMORY, Cores, Memory, start_spark
from rowbus.cli.spark.progress import display
from rowbus.cli.spark.report import TIME_HELP, exact_moment, moment
from rowbus.cli.target import open_log_database

if TYPE_CHECKING:
    from rowbus.spark.pipelines.event_replay import ReplayReport


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
    from rowbus.spark.pipelines import event_replay as replaying  # noqa: PLC0415 - imports Spark

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
