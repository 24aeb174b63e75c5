"""Options and arguments that several commands share, and what they stand for: a database, queues, objects of modules.

Invariants: each option is defined once, and imports no more than its help needs; the database given to a command beats
the one given to `rowbus`, which beats ROWBUS_DATABASE, which beats the embedded server; names are read as people mean
them (`QueueAddress.from_user`), and checked before anything is done.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import sys
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from rowbus.cli.output import LogFormat, complain, show_logs
from rowbus.database.location import DATABASE_VARIABLE, holds_password, resolve_dsn
from rowbus.errors import ConfigurationError
from rowbus.errors.strangers import text_of
from rowbus.messages.address import address_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from rowbus import AsyncLog, Endpoint, Log
    from rowbus.database import sessions
    from rowbus.database.backends import PostgresDatabase
    from rowbus.database.sessions import Session
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.operations.table import Note


logger = logging.getLogger("rowbus.cli")

T = TypeVar("T")

DATABASE_HELP = (
    "Connection string: libpq's (a URI or key=value), or mssql://user@host/catalog. "
    "Not given: ROWBUS_DATABASE, else the embedded server."
)
_PLAIN = re.compile(r"[\w-]+")  # what no shell needs quoted, and a dot would be
_WARNED = "rowbus.cli.options.warned"

APPLICATION_NAME = "rowbus command line"

Runnable: TypeAlias = "Endpoint | Log | AsyncLog"


def _given_anywhere(context: typer.Context, given: str | None) -> str | None:
    """Fall back on the database given before the command's name."""
    return check_database(context, given) or (context.obj if isinstance(context.obj, str) else None)


def check_database(context: typer.Context, given: str | None) -> str | None:
    """Refuse an empty text, as of a variable that is not set; say once where a password belongs that was given."""
    if given is None or context.resilient_parsing:
        return given
    if not given.strip():
        raise typer.BadParameter("an empty text names no database: leave the option out, or give it one.")
    if holds_password(given) and not context.meta.get(_WARNED):
        context.meta[_WARNED] = True
        complain(
            "the password on this command line shows in the list of processes and stays in the shell's history; put "
            f"the connection string into {DATABASE_VARIABLE}, or, for PostgreSQL, the password into a password file "
            "(PGPASSFILE) or a service file."
        )
    return given


def _start_logs(verbose: bool) -> bool:
    if verbose:
        show_logs(logging.INFO, whole_tracebacks=True)
        logging.getLogger("rowbus.cli").setLevel(logging.DEBUG)  # where errors come from
    return verbose


COMPLETED_WITHIN = 1.0  # seconds from TAB until the names have to be there


def queue_names(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a queue, or of the endpoint that receives there."""
    return _completed(context, incomplete, _find_queue_names)


def endpoint_argument(text: str) -> Any:  # noqa: ANN401 - as typer has it
    """Return the argument that names an endpoint, with this help."""
    return typer.Argument(metavar="ENDPOINT", help=text, autocompletion=queue_names)


def log_names(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a log."""
    return _completed(context, incomplete, _find_log_names)


def consumer_names(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a consumer of the log that is given before it."""
    log = context.params.get("log")
    return _completed(context, incomplete, lambda database: _find_consumer_names(database, log))


def _completed(context: typer.Context, incomplete: str, find: Callable[[str], Iterable[str]]) -> list[str]:
    """Return names in time, or none: a shell waits, and no server is started for it."""
    given = context.params.get("database") or context.find_root().params.get("database")
    database, found = given or os.environ.get(DATABASE_VARIABLE), list[str]()

    def look() -> None:
        with suppress(Exception):  # a shell that completes shows no errors
            found.extend(find(str(database)))

    if database:
        looking = Thread(target=look, daemon=True)
        looking.start()
        looking.join(COMPLETED_WITHIN)
    return [name for name in found if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def _find_queue_names(database: str) -> list[str]:
    from rowbus.transport.queues.catalog.looking import find_queues
    from rowbus.transport.queues.catalog.table import catalog_of

    names = addresses_in(database, None)
    with open_database(database).session() as session:
        shapes = find_queues(session, catalog_of(names))
    return [one.address.table for one in shapes if one.is_queue and one.address.schema == names.schema]


def _find_log_names(database: str) -> list[str]:
    from rowbus.log import catalog

    with open_log_database(database).session() as session:
        return [state.log for state in session.run(catalog.log_states())]


def _find_consumer_names(database: str, log: str | None) -> list[str]:
    from rowbus.log import catalog

    with open_log_database(database).session() as session:
        return [one.consumer for one in session.run(catalog.consumer_states()) if log in {None, one.log}]


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
        metavar="QUEUE",
        help='A queue: Sales, or "Shop.Sales" with its quotes, or "schema"."table".',
        autocompletion=queue_names,
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
    list[str] | None,
    typer.Option(
        "--queue", metavar="QUEUE", help="A queue; may be given more than once.", autocompletion=queue_names
    ),
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


LogName = Annotated[str, typer.Argument(metavar="LOG", help="A log, by its name.", autocompletion=log_names)]
AnyLog = Annotated[str | None, typer.Argument(metavar="LOG", help="Only this log.", autocompletion=log_names)]
ConsumerName = Annotated[
    str,
    typer.Argument(
        metavar="CONSUMER", help="A consumer of the log, by its name.", autocompletion=consumer_names
    ),
]
IntoLog = Annotated[str, typer.Option("--log", metavar="NAME", help="The log.")]


def open_database(dsn: str | None) -> sessions.Database:
    """Return the database to work on; starts the embedded server if there is no other."""
    from rowbus.database import backends

    return backends.open_database(resolve_dsn(dsn), application_name=APPLICATION_NAME)


def open_log_database(dsn: str | None) -> PostgresDatabase:
    """Return the database to work on with its logs; raises ConfigurationError for one that can have none."""
    from rowbus.database import backends

    return backends.open_postgresql(resolve_dsn(dsn), application_name=APPLICATION_NAME)


def addresses_in(database: str | None, schema: str | None) -> Addresses:
    """Return how names become addresses in the database a command works on; `schema` is the one left out."""
    from rowbus.database import backends

    return backends.addresses_of(database, schema)


def queue_addresses(names: Iterable[str], addresses: Addresses) -> list[QueueAddress]:
    """Return the addresses of queues; raises InvalidAddressError for the first that cannot be one."""
    return [address_of(name, addresses) for name in names]


def noting(  # noqa: PLR0917 - what an operation is, in the order of its sentence
    session: Session, addresses: Addresses, action: str, queue: QueueAddress, subject: str, identity: str = ""
) -> AbstractContextManager[Note]:
    """Note in the trail of operations what a command does: who runs it, and with what it is called to count."""
    from rowbus.transport.operations import table as trail

    act = trail.Act("", action, str(queue), subject)
    return trail.noted(session, addresses, act, warn=complain, identity=identity)


def load_endpoint(target: str) -> Endpoint:
    """Import `module:name`, also from the current directory, and return the endpoint it names or makes.

    Raises ConfigurationError that says which part did not work.
    """
    from rowbus.endpoint import Endpoint

    return _load(target, (Endpoint,), "a rowbus.Endpoint")


def load_endpoints(target: str) -> list[Endpoint]:
    """Do the same for `module` alone: all the endpoints that have a name in it, in the order of these names' lines.

    Raises ConfigurationError if there is none.
    """
    from rowbus.endpoint import Endpoint

    module = _import(_module_name(target, ""))
    found = [value for value in vars(module).values() if isinstance(value, Endpoint)]
    if not found:
        raise ConfigurationError(f"{target} names no rowbus.Endpoint; import there those of your system.")
    return list(dict.fromkeys(found))


def load_runnable(target: str) -> Runnable:
    """Do the same for what `rowbus run` runs: an endpoint, or a log with its consumers."""
    from rowbus import AsyncLog, Endpoint, Log

    kinds: tuple[type[Runnable], ...] = (Endpoint, Log, AsyncLog)
    return _load(target, kinds, "a rowbus.Endpoint or a rowbus.Log")


def _load(target: str, kinds: tuple[type[T], ...], wanted: str) -> T:
    module_name, _, name = target.partition(":")
    if not (module_name and name):
        raise ConfigurationError(
            f"{target!r} is not of the form MODULE:NAME, for example shop.sales:endpoint."
        )
    found = _import(_module_name(module_name, f":{name}"))
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigurationError(
                f"{module_name} has nothing called {name!r}; {_names_in(found, kinds, wanted)}."
            )
        found = getattr(found, part)
    if isinstance(found, type):
        raise ConfigurationError(
            f"{target} is a class, and neither {wanted} nor a function that returns one; "
            f"{_names_in(sys.modules[module_name], kinds, wanted)}."
        )
    made = found() if callable(found) and not isinstance(found, kinds) else found
    if isinstance(made, kinds):
        return made
    raise ConfigurationError(
        f"{target} is neither {wanted} nor a function that returns one, but a {type(made).__name__}."
    )


def _module_name(name: str, rest: str) -> str:
    if name.endswith(".py") or "/" in name:
        module = name.removesuffix(".py").strip("./").replace("/", ".")
        raise ConfigurationError(f"'{name}{rest}' names a file; name the module: {module}{rest}.")
    return name


def _import(name: str) -> object:
    if os.getcwd() not in sys.path:  # noqa: PTH109 - sys.path holds strings
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as above
    try:
        return importlib.import_module(name)
    except Exception as error:
        logger.debug("Importing %s failed", name, exc_info=error)
        raise ConfigurationError(
            f"Importing {name} failed: {type(error).__name__}: {text_of(error)}"
        ) from error


def _names_in(module: object, kinds: tuple[type, ...], wanted: str) -> str:
    names = [name for name, value in getattr(module, "__dict__", {}).items() if isinstance(value, kinds)]
    return f"there is {', '.join(names)}" if names else f"nothing there is {wanted}"
