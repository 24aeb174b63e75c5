"""`rowbus spark`: pipelines over logs and queues, each of them a function of `rowbus.spark.pipelines`.

Invariant: Spark is imported by a command that needs it, when it runs; `--help` works without it.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import Database, Json, Verbose
from rowbus.cli.output import complain, say, show_json
from rowbus.cli.spark import archive as spark_archive
from rowbus.cli.spark import lake as spark_lake
from rowbus.cli.spark import project as spark_project
from rowbus.cli.spark import replay as spark_replay
from rowbus.cli.spark import replicate as spark_replicate
from rowbus.cli.spark import report as spark_report
from rowbus.cli.spark.options import Consumer
from rowbus.cli.target import open_log_database

if TYPE_CHECKING:
    from rowbus.spark.sink.janitor import JanitorReport

app = typer.Typer(
    help="Archive, replicate, replay and report with Apache Spark.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command()(spark_archive.archive)
app.command()(spark_archive.compact)
app.command()(spark_replicate.replicate)
app.command()(spark_lake.lake)
app.command()(spark_lake.compare)
app.command()(spark_lake.vacuum)
app.command()(spark_replay.replay)
app.command()(spark_report.report)
app.command()(spark_project.init)
app.command()(spark_project.run)


@app.command()
def release(
    checkpoint: Annotated[
        Path,
        typer.Argument(metavar="CHECKPOINT", help="A checkpoint of Spark's, of an archive or any query."),
    ],
    *,
    consumer: Consumer,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Let go of what a checkpoint has made durable: move the consumer up to the last committed batch.

    Of a query that receives from a queue, acknowledge the messages of that batch. The pipelines here do that by
    themselves. Use it after runs of your own queries, also where Spark is gone. Exit code 1: no batch is committed.
    """
    from rowbus.spark.pipelines.release import release_committed  # noqa: PLC0415 - imports Spark
    from rowbus.spark.queue_source.finish import finish  # noqa: PLC0415 - as above

    dsn = open_log_database(database).conninfo
    released = release_committed(checkpoint, consumer=consumer, dsn=dsn)
    acknowledged = finish(checkpoint, dsn=dsn)
    if as_json:
        show_json(released | acknowledged)
    for log, tick in () if as_json else released.items():
        say(f"Log {log} need not retain anything before tick {tick} for {consumer}.")
    for queue, claim in () if as_json else acknowledged.items():
        say(f"Queue {queue}: all is acknowledged up to claim {claim}.")
    if not released and not acknowledged:
        complain(f"no batch of ours is committed in {checkpoint}")
        raise typer.Exit(1)


@app.command()
def janitor(
    *,
    older_than: Annotated[
        float, typer.Option("--older-than", metavar="HOURS", min=0, help="Leave alone what is younger.")
    ] = 24.0,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Remove what Spark's tasks left behind when they were killed: stages, prepared transactions, old notes.

    Messages that a query claimed and did not come back for within its lease go back to their queues.
    Harmless at any time: what a query may still need is not touched.
    """
    from rowbus.spark.sink.janitor import clean  # noqa: PLC0415 - needs Arrow

    with open_log_database(database).session() as session:
        done: JanitorReport = clean(session, older_than=timedelta(hours=older_than))
    if as_json:
        show_json(done._asdict())
    else:
        say(
            "Removed "
            + ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in done._asdict().items())
            + "."
        )
