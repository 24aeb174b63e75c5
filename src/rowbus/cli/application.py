"""The whole of the command line, and how it ends.

Invariants: no traceback is shown unless asked for with -v; an error is one paragraph on the standard error; a command
is imported only when it is called.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from rowbus.cli.options import DATABASE_HELP, Verbose, check_database
from rowbus.cli.output import complain
from rowbus.errors import ConfigurationError, InvalidHeaderError, MessageSerializationError, RowbusError
from rowbus.errors.strangers import text_of

logger = logging.getLogger("rowbus.cli")

FAILED = 1
BAD_USAGE = 2
_USAGE_ERRORS = (ConfigurationError, InvalidHeaderError, MessageSerializationError)

COMMANDS = {
    "demo": ("first_steps:demo", "Work through a file of orders with three endpoints."),
    "init": ("first_steps:init", "Begin a project: an endpoint, its settings, and tests that run it."),
    "run": ("run:run", "Serve an endpoint, in one process or in several, or run the consumers of a log."),
    "pause": (
        "pause:pause",
        "Pause an endpoint, a queue, a consumer of a log or a recurring message, in all processes within two seconds.",
    ),
    "resume": ("pause:resume", "End a pause, in all processes within two seconds."),
    "ticker": ("ticker:ticker", "Drive the logs of a database: ticks, retries, rotation."),
    "doctor": (
        "health:doctor",
        "Examine the server, every queue, every table of delayed messages and every log.",
    ),
    "bench": ("bench:bench", "Measure what this server carries, and say what limits it."),
    "metrics": (
        "health:metrics",
        "Measure a database for Prometheus: queues, delayed messages, logs, consumers.",
    ),
    "web": ("web:web", "Serve the operator's page, until SIGTERM or Ctrl-C."),
    "queue": ("queue.verbs:app", "Create, list, fill, look into, empty and drop queues."),
    "endpoint": ("endpoint:app", "Scale an endpoint, change its lanes, and drop its tables."),
    "errors": ("errors.verbs:app", "Look through an error queue, and put its messages back."),
    "subscriptions": ("subscriptions:app", "List, add and remove subscriptions to events."),
    "delayed": (
        "delayed:app",
        "List delayed messages, move them when they are due, cancel them, send them now.",
    ),
    "sagas": ("sagas:app", "List sagas, show what one remembers, end one, send lost timeouts again."),
    "recurring": (
        "recurring:app",
        "List an endpoint's recurring messages, and remove those that no program has any more.",
    ),
    "running": ("running:app", "List the handlers that take long and run now, and end one of them."),
    "log": ("log.verbs:app", "Install, create, fill, read and look after event logs."),
    "trace": ("trace:app", "Say who changed a row of a captured table, and what a message changed and sent."),
    "spark": ("spark.verbs:app", "Archive, replicate, replay and report with Apache Spark."),
    "contracts": (
        "contracts:app",
        "Write down which messages endpoints take, send and publish, and what a change breaks.",
    ),
    "schema": (
        "schema.verbs:app",
        "Print, install, verify and grant the use of queue tables, and of the event log.",
    ),
    "embedded": ("embedded:app", "Look after the embedded server, which is for development."),
}
"""Each command's place in this folder, and its first sentence, which a test compares."""


class Commands(TyperGroup):
    """Commands of which each is imported when it is called, and not to be listed or completed."""

    commands: _LazyCommands  # type: ignore[assignment]  # the table is never added to

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - what typer gives a group
        """Have the commands of the table."""
        super().__init__(**attributes)
        self.commands = _LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer's click is private
        """Return the names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - as above
        """Return what a list says of a command; the command itself once it is loaded."""
        if cmd_name not in COMMANDS:
            return None
        return self.commands.loaded.get(cmd_name) or TyperCommand(cmd_name, help=COMMANDS[cmd_name][1])

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # noqa: ANN401 - as above
        """Load the command that is called."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, self.commands[name] if name else found, rest


class _LazyCommands(Mapping[str, Any]):
    """The commands by name, each imported when it is asked for."""

    def __init__(self) -> None:
        self.loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - as above
        if name not in self.loaded:
            self.loaded[name] = _load(name, *COMMANDS[name][0].split(":"))
        return self.loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


def _load(name: str, module: str, attribute: str) -> Any:  # noqa: ANN401 - as above
    """Import a command, which is a function or a group of commands."""
    found = getattr(import_module(f"rowbus.cli.{module}"), attribute)
    holder = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
        return get_group(holder).commands[name]
    holder.command(name)(found)
    return get_command(holder)


app = typer.Typer(
    cls=Commands,
    name="rowbus",
    help="Messaging in PostgreSQL tables: run endpoints, and look after their queues.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

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
    context.obj = None if database is None else check_database(context, database)


class _PlainValue:
    """Takes values that have their parameter's type already; typer asks pydantic, a third of a start, about others."""

    def __init__(self, described: Any) -> None:  # noqa: ANN401 - typer's, and private
        """Take what typer says of a parameter."""
        self._described = described

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - as above
        """Return a parameter's value."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if type(value) is self._described.annotation and self._described.parameter_info.parser is None:
            return value
        asked: Any = _ask(self._described)
        return asked.coerce(value, param=param, ctx=ctx)


_ask: Any = getattr(typer.core, "build_runtime_param", None)


def _have_streams() -> None:
    """Have what is written to a stream that was closed (`>&-`) go nowhere, and not into what is opened next."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: PTH123, SIM115 - the lowest number that is free
            os.set_inheritable(stream.fileno(), True)  # noqa: FBT003 - as streams are
            setattr(sys, name, stream)


def main() -> None:
    """Run the command line on this process's arguments, and end the process.

    The driver warns, in several lines, of what it could not end after a failure; the failure is reported by us, in one.
    """
    _have_streams()
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    if _ask is not None:  # of typer 0.29; another version may do otherwise
        setattr(typer.core, "build_runtime_param", _PlainValue)  # noqa: B010 - typer does not export it
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
