"""Options that several commands share, each defined once.

Invariants: the database given to a command beats the one given to `rowbus`, which beats ROWBUS_DATABASE, which beats
the embedded server; no option imports more than its help needs.
"""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from rowbus.cli.output import LogFormat, complain, show_logs
from rowbus.database.location import DATABASE_VARIABLE, holds_password

DATABASE_HELP = (
    "Connection string: libpq's (a URI or key=value), or mssql://user@host/catalog. "
    "Not given: ROWBUS_DATABASE, else the embedded server."
)
_WARNED = "rowbus.cli.options.warned"


def _given_anywhere(context: typer.Context, given: str | None) -> str | None:
    """Fall back on the database given before the command's name."""
    if given and not context.resilient_parsing:
        warn_of_password(context, given)
    return given or (context.obj if isinstance(context.obj, str) else None)


def warn_of_password(context: typer.Context, given: str) -> None:
    """Say once where a password belongs that was given on the command line."""
    if holds_password(given) and not context.meta.get(_WARNED):
        context.meta[_WARNED] = True
        complain(
            "the password on this command line shows in the list of processes and stays in the shell's history; put it "
            f"into a password file (PGPASSFILE) or a service file, or the connection string into {DATABASE_VARIABLE}."
        )


def _start_logs(verbose: bool) -> bool:
    if verbose:
        show_logs(logging.INFO, whole_tracebacks=True)
        logging.getLogger("rowbus.cli").setLevel(logging.DEBUG)  # where errors come from
    return verbose


Database = Annotated[
    str | None, typer.Option("--database", metavar="DSN", help=DATABASE_HELP, callback=_given_anywhere)
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Log what is done, and where errors come from.", callback=_start_logs
    ),
]
LogLines = Annotated[
    LogFormat,
    typer.Option("--log-format", help="Log lines for people, or a JSON object a line for programs."),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="HOST:PORT",
        help="Serve /metrics, /livez and /readyz there: 127.0.0.1:9464.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema", metavar="NAME", help="Schema of queues given by name alone. Not given: public, or dbo."
    ),
]
QueueName = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE", help='A queue: Sales, or "Shop.Sales" with its quotes, or "schema"."table".'
    ),
]
BodyString = Annotated[
    bool,
    typer.Option(
        "--body-string", help="With the column bodystring, readable in SQL tools; doubles the writes."
    ),
]
NotifyTrigger = Annotated[
    bool,
    typer.Option("--notify-trigger", help="With a trigger that wakes receivers also when others insert."),
]
CreateSchema = Annotated[
    bool, typer.Option("--create-schema", help="Create the schema too if it is missing.")
]
Queues = Annotated[
    list[str] | None, typer.Option("--queue", metavar="QUEUE", help="A queue; may be given more than once.")
]
System = Annotated[
    str | None,
    typer.Argument(
        metavar="MODULE[:ENDPOINT]",
        help="An endpoint, or a function that returns one; a module: all the endpoints named in it.",
    ),
]
Target = Annotated[
    str | None,
    typer.Argument(
        metavar="MODULE:ENDPOINT", help="An endpoint, or a function that returns one: its queues."
    ),
]


LogName = Annotated[str, typer.Argument(metavar="LOG", help="A log, by its name.")]
AnyLog = Annotated[str | None, typer.Argument(metavar="LOG", help="Only this log.")]
ConsumerName = Annotated[str, typer.Argument(metavar="CONSUMER", help="A consumer of the log, by its name.")]
IntoLog = Annotated[str, typer.Option("--log", metavar="NAME", help="The log.")]
