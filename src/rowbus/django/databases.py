"""The database of an alias in DATABASES, as Rowbus's connection string, and as a client in Django's transaction.

Invariants: what is connected to is what Django connects to: the same server, database, role and options; a message sent
here exists when the outermost `transaction.atomic()` commits, and not before; Django knows of a transaction that a
failed send has aborted.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from django.core import mail
from django.db import connections
from django.db.backends.base.creation import TEST_DATABASE_PREFIX

from rowbus import Client, ConfigurationError
from rowbus.database.backends import borrow
from rowbus.database.statements import BlockingSession

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from django.db.backends.base.base import BaseDatabaseWrapper

    from rowbus.database.statements import Blocking, UserSession

_NOT_LIBPQ: Final = frozenset({"context", "cursor_factory", "prepare_threshold", "row_factory", "autocommit"})
"""Django's parameters for psycopg beside libpq's own."""


def dsn_of(alias: str = "default") -> str:
    """Return the connection string of an alias; raises ConfigurationError for none, and where it is not psycopg 3's."""
    wrapper: Any = require_psycopg(connections.create_connection(_require_alias(alias)))
    given = wrapper.get_connection_params()
    libpq = {name: value for name, value in given.items() if name not in _NOT_LIBPQ}
    role = wrapper.settings_dict["OPTIONS"].get("assume_role")
    if role:
        libpq["options"] = f"{libpq.get('options', '')} -c role={_escaped(role)}".strip()
    return str(wrapper.Database.conninfo.make_conninfo("", **libpq))


def is_of_tests(alias: str) -> bool:
    """Say whether Django's test runner made the database of an alias, and will destroy it.

    It renames the database in the settings of the connection, and catches mails in `mail.outbox` (Django's
    documentation, "Testing tools": "Email services").
    """
    settings = connections[_require_alias(alias)].settings_dict
    name = settings["NAME"]
    is_renamed = str(name).startswith(TEST_DATABASE_PREFIX) or name == settings["TEST"]["NAME"]
    return is_renamed and hasattr(mail, "outbox")


def _require_alias(alias: str) -> str:
    """Return an alias; raises ConfigurationError where DATABASES has none of that name."""
    if alias not in connections.settings:
        raise ConfigurationError(
            f"There is no {alias!r} in DATABASES; it has {', '.join(map(repr, connections.settings))}."
        )
    return alias


def _escaped(value: str) -> str:
    """Return a value as libpq reads it within `options`."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def require_psycopg(wrapper: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
    """Return a connection of Django's; raises ConfigurationError where it is not to PostgreSQL by psycopg 3."""
    database: Any = getattr(wrapper, "Database", None)
    if wrapper.vendor == "postgresql" and hasattr(database, "conninfo"):
        return wrapper
    raise ConfigurationError(
        f"The database {wrapper.alias!r} of DATABASES has the engine {wrapper.settings_dict['ENGINE']!r}; Rowbus works "
        "in PostgreSQL, by psycopg 3: use django.db.backends.postgresql, and no psycopg2."
    )


class _TransactionClient(Client):
    """A client that looks, for each use, for the transaction that Django has open in the thread that uses it."""

    def __init__(self, using: str, **options: Any) -> None:  # noqa: ANN401 - as Client's own
        super().__init__(_in_transaction(using), **options)
        self._using = using

    async def _session(self) -> UserSession:
        return _MarkingSession(borrow(_in_transaction(self._using)).session(), connections[self._using])


class _MarkingSession(BlockingSession):
    """Marks Django's transaction for rollback where a statement has aborted it, as a model's `save` does.

    Else a block that caught the error would end well, and call what is to be called on commit, with nothing kept.
    """

    def __init__(self, session: Blocking, wrapper: Any) -> None:  # noqa: ANN401 - Django's, which is not typed so
        super().__init__(session)
        self._wrapper = wrapper

    async def run(self, *given: Any, **options: Any) -> Any:  # noqa: ANN401 - as the base's
        with self._marking():
            return await super().run(*given, **options)

    async def run_all(self, statements: Any) -> None:  # noqa: ANN401 - as the base's
        with self._marking():
            await super().run_all(statements)

    async def copy(self, query: Any, rows: Any) -> None:  # noqa: ANN401 - as the base's
        with self._marking():
            await super().copy(query, rows)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        with self._marking():
            async with super().transaction():
                yield

    @contextmanager
    def _marking(self) -> Generator[None]:
        try:
            yield
        except Exception as error:
            if self.connection.info.transaction_status.name == "INERROR":
                self._wrapper.needs_rollback, self._wrapper.rollback_exc = True, error
            elif self._wrapper.rollback_exc is error:  # a savepoint of ours has undone it
                self._wrapper.needs_rollback, self._wrapper.rollback_exc = False, None
            raise


def client(using: str = "default", **options: Any) -> Client:  # noqa: ANN401 - as Client's own
    """Return a Client that sends in the transaction that Django has open on an alias, whenever it is used.

    `options` are those of `rowbus.Client`. In a handler of a `rowbus.django.Endpoint` that is the receive transaction.
    Making and using it raise ConfigurationError outside of `transaction.atomic()`, where each send would be a
    transaction of its own, and for a database that is not PostgreSQL; where Django has marked the transaction for
    rollback, what its ORM raises there.
    """
    return _TransactionClient(using, **options)


def _in_transaction(using: str) -> object:
    """Return the driver's connection, in the transaction that this thread has open."""
    connection: Any = require_psycopg(connections[_require_alias(using)])
    if not connection.in_atomic_block:
        raise ConfigurationError(
            "rowbus.django.client() sends in Django's transaction, and there is none: use it inside "
            f"`with transaction.atomic({'' if using == 'default' else f'using={using!r}'}):`, beside the changes that "
            "the message belongs to."
        )
    connection.validate_no_broken_transaction()
    connection.ensure_connection()
    return connection.connection
