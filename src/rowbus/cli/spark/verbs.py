"""`rowbus spark`: pipelines over logs and queues, each of them a function of `rowbus.spark.pipelines`.

Invariants: Spark is imported by a command that needs it, when it runs; `--help` works without it; `init` overwrites
nothing.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.options import Database, IntoLog, Json, Verbose, open_log_database
from rowbus.cli.output import complain, say, show_json
from rowbus.cli.spark import archives as spark_archive
from rowbus.cli.spark import archives as spark_replay
from rowbus.cli.spark import completeness as spark_completeness
from rowbus.cli.spark import lake as spark_lake
from rowbus.cli.spark import replicate as spark_replicate
from rowbus.cli.spark import report as spark_report
from rowbus.cli.spark.course import Consumer, tell

if TYPE_CHECKING:
    from rowbus.spark.sink.janitor import JanitorReport


def init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder for the project; made if missing.")
    ],
    *,
    log: IntoLog,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The project's name. Not given: the folder's."),
    ] = None,
    _verbose: Verbose = False,
) -> None:
    """Begin a project that turns a log into tables: bronze, silver, gold, and dead letters.

    Made of Spark Declarative Pipelines, to be changed as you like. `rowbus spark run DIR` runs it.
    """
    from rowbus.spark.pipelines.projects import init_project

    for file in init_project(directory, log=log, name=name):
        say(f"Wrote {file}")
    say(f"Run it with `rowbus spark run {directory}`; begin to read with {directory / 'README.md'}.")


def run(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A project that `rowbus spark init` began.")
    ],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check the definitions.")] = False,
    anew: Annotated[
        list[str] | None,
        typer.Option(
            "--anew", metavar="TABLE", help="Empty this table first and make it anew from what it is made of."
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--arg", metavar="ARG", help="More for `spark-pipelines run`, such as --refresh=gold_by_day."
        ),
    ] = None,
    cores: Annotated[str, typer.Option("--cores", metavar="N", help="How many tasks run at once.")] = "2",
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Bring a project's tables up to date, and let go of what is durable."""
    from rowbus.spark.pipelines.projects import run_project

    dsn = open_log_database(database).conninfo
    done = run_project(
        directory,
        dsn=dsn,
        cores=cores,
        dry_run=dry_run,
        anew=anew or (),
        arguments=arguments or (),
        tell=tell,
    )
    if done.exit_code:
        raise typer.Exit(1)
    for log, tick in done.released.items():
        say(f"Log {log} need not retain anything before tick {tick}.")
    say(f"The tables are in {done.warehouse}")


app = typer.Typer(
    cls=spark_completeness.TwoWords,
    help="Archive, replicate, replay and report with Apache Spark.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command()(spark_archive.archive)
app.command()(spark_archive.compact)
app.command()(spark_replicate.replicate)
app.command()(spark_lake.lake)
app.command("lake wait")(spark_completeness.wait)
app.command()(spark_lake.compare)
app.command()(spark_lake.vacuum)
app.command()(spark_replay.replay)
app.command()(spark_report.report)
app.command()(init)
app.command()(run)


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
    from rowbus.spark.pipelines.release import release_committed
    from rowbus.spark.queue_source.finish import finish

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
    from rowbus.spark.sink.janitor import clean

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
