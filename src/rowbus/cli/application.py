"""The whole of the command line, and how it ends.

Invariant: no traceback is shown unless asked for with -v; an error is one paragraph on the standard error.
"""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from rowbus.cli import (
    bench,
    delayed,
    embedded,
    first_steps,
    health,
    recurring,
    run,
    sagas,
    subscriptions,
    ticker,
    web,
)
from rowbus.cli.errors import verbs as errors
from rowbus.cli.log import verbs as log
from rowbus.cli.options import DATABASE_HELP, Verbose, warn_of_password
from rowbus.cli.output import complain
from rowbus.cli.queue import verbs as queue
from rowbus.cli.schema import verbs as schema
from rowbus.cli.spark import verbs as spark
from rowbus.errors import ConfigurationError, InvalidHeaderError, MessageSerializationError, RowbusError
from rowbus.errors.exception_facts import text_of

logger = logging.getLogger("rowbus.cli")

FAILED = 1
BAD_USAGE = 2
_USAGE_ERRORS = (ConfigurationError, InvalidHeaderError, MessageSerializationError)

app = typer.Typer(
    name="rowbus",
    help="Messaging in PostgreSQL tables: run endpoints, and look after their queues.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)
app.command("demo")(first_steps.demo)
app.command("init")(first_steps.init)
app.command("run")(run.run)
app.command("ticker")(ticker.ticker)
app.command("doctor")(health.doctor)
app.command("bench")(bench.bench)
app.command("metrics")(health.metrics)
app.command("web")(web.web)
app.add_typer(queue.app, name="queue")
app.add_typer(errors.app, name="errors")
app.add_typer(subscriptions.app, name="subscriptions")
app.add_typer(delayed.app, name="delayed")
app.add_typer(sagas.app, name="sagas")
app.add_typer(recurring.app, name="recurring")
app.add_typer(log.app, name="log")
app.add_typer(spark.app, name="spark")
app.add_typer(schema.app, name="schema")
app.add_typer(embedded.app, name="embedded")


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(
            f"rowbus {version('rowbus')} (Python {sys.version.split()[0]}, psycopg {version('psycopg')})"
        )
        raise typer.Exit


@app.callback()
def _global_options(
    context: typer.Context,
    database: Annotated[str | None, typer.Option("--database", metavar="DSN", help=DATABASE_HELP)] = None,
    _verbose: Verbose = False,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end."),
    ] = False,
) -> None:
    if database:
        warn_of_password(context, database)
    context.obj = database


def main() -> None:
    """Run the command line on this process's arguments, and end the process."""
    try:
        app(prog_name="rowbus")
    except RowbusError as error:
        logger.debug("The command failed", exc_info=error)
        complain(str(error))
        sys.exit(BAD_USAGE if isinstance(error, _USAGE_ERRORS) else FAILED)
    except Exception as error:  # the last line of defence: one paragraph, not forty lines
        logger.debug("The command failed", exc_info=error)
        complain(f"{type(error).__name__}: {text_of(error)} (the same with -v shows where)")
        sys.exit(FAILED)
