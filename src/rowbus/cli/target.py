"""Targets of a command: a database, queues given by name, objects given by module and name.

Invariant: names are read as people mean them (`QueueAddress.from_user`), and checked before anything is done.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from rowbus.cli.output import complain
from rowbus.database.location import resolve_dsn
from rowbus.errors import ConfigurationError
from rowbus.errors.exception_facts import text_of
from rowbus.messages.addresses import address_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from rowbus import AsyncLog, Endpoint, Log
    from rowbus.database.backends import PostgresDatabase
    from rowbus.database.sessions import Database, Session
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses
    from rowbus.transport.operations.trail import Note

logger = logging.getLogger("rowbus.cli")
APPLICATION_NAME = "rowbus command line"
T = TypeVar("T")
Runnable: TypeAlias = "Endpoint | Log | AsyncLog"


def open_database(dsn: str | None) -> Database:
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
    from rowbus.transport.operations import trail

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
