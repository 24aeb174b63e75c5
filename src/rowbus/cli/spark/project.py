"""`rowbus spark init` and `run`: a project of Spark Declarative Pipelines to start from.

Invariant: `init` overwrites nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rowbus.cli.log.options import IntoLog
from rowbus.cli.options import Database, Verbose
from rowbus.cli.output import say
from rowbus.cli.spark.progress import tell
from rowbus.cli.target import open_log_database


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
    from rowbus.spark.pipelines.projects import init_project  # noqa: PLC0415 - `--help` shall be quick

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
    from rowbus.spark.pipelines.projects import run_project  # noqa: PLC0415 - `--help` shall be quick

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
