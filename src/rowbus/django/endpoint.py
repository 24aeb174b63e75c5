"""An endpoint whose handlers use Django's ORM on the receive transaction, and Django's connection for one call.

A receiving slot's connection lives for thousands of messages, and so does Django's wrapper of it, kept in the
connection's attribute `orm`. Django reads values in its own way, so the wrapper has a connection object of its own on
the same server session, with Django's adapters.

Invariants: a handler runs with the receive transaction as Django's connection, or is refused when it is registered;
while a handler runs its alias is this wrapper, in an atomic block that is not Django's to end; before and after, it is
not.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, NoReturn, cast

from django.db import close_old_connections, connections, transaction

import rowbus
from rowbus import ConfigurationError, HandlerError
from rowbus.django.databases import dsn_of, is_of_tests, require_psycopg
from rowbus.transport.receiving.delivery import check_call

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from django.db.backends.base.base import BaseDatabaseWrapper

    from rowbus import SyncContext

    Wrapper = BaseDatabaseWrapper
else:
    Wrapper = object


@contextmanager
def receiving(alias: str, context: SyncContext) -> Generator[None]:
    """Have Django's connection of an alias, in this thread, be on the receive transaction of a handler's context.

    What the block wanted called on commit is called after the commit of that transaction. Leaving it raises
    HandlerError where Django has marked the transaction for rollback. Raises ConfigurationError in mode NONE, which has
    no transaction.
    """
    _require_transaction(context.connection)
    close_old_connections()
    held = _held_on(context.connection, alias)
    before = next((one for one in connections.all(initialized_only=True) if one.alias == alias), None)
    connections[alias] = held
    try:
        held.begin()
        yield
        for call in held.finished():
            context.on_commit(_in_thread_of_its_own(call))
    finally:
        held.let_go()
        if before is None:
            del connections[alias]
        else:
            connections[alias] = before
        close_old_connections()


class _HandlerWrapper(Wrapper):
    """Django's wrapper of a database, less the verbs that would end the transaction."""

    def hold(self, connection: Any) -> None:  # noqa: ANN401 - psycopg's, which Django has no type for
        """Be on this connection, for as long as it lives."""
        self._twin = _twin_of(connection, self)
        self.inc_thread_sharing()  # a slot's handlers run in one thread after the other
        self.let_go()

    def begin(self) -> None:
        """Be in a transaction that another began: `atomic` makes savepoints, and durable blocks are refused."""
        self.connection = self._twin
        self.autocommit, self.in_atomic_block, self.closed_in_transaction = False, True, False
        self.needs_rollback, self.rollback_exc = False, None
        self.savepoint_ids, self.run_on_commit = [], []
        self.atomic_blocks = [transaction.Atomic(self.alias, savepoint=False, durable=True)]
        self.queries_log.clear()

    def finished(self) -> list[Callable[[], object]]:
        """Return what is to be called on commit; raises HandlerError where Django wants a rollback."""
        if self.needs_rollback:
            raise HandlerError(
                "Django has marked the transaction for rollback (an error inside of `atomic(savepoint=False)`, or "
                "`set_rollback(True)`), and the handler went on. Raise to roll back; what may fail belongs inside "
                "`with transaction.atomic():`."
            )
        return [given[1] for given in self.run_on_commit]

    def create_cursor(self, name: str | None = None) -> Any:  # noqa: ANN401 - as Django's own
        """Return a cursor of a session in Django's time zone, by which it reads and writes times.

        What the handler's statements set is put back after it: the receiver's own zone is UTC.
        """
        zone, connection = self.timezone_name, self.connection
        if zone and connection.info.parameter_status("TimeZone") != zone:
            connection.execute("select pg_catalog.set_config('TimeZone', %s, false)", [zone])
        return super().create_cursor(name)

    def let_go(self) -> None:
        """Forget the transaction; what is evaluated later raises, and opens no other connection."""
        self.connection = None
        self.in_atomic_block = self.closed_in_transaction = True
        self.run_on_commit = []

    def on_commit(self, func: Callable[[], object], robust: bool = False) -> None:  # noqa: FBT001, FBT002 - Django's
        """Have a function called after the commit; raises HandlerError for an `async def`, which nothing awaits."""
        check_call(func)
        super().on_commit(func, robust)

    def commit(self) -> NoReturn:
        """Refuse: the receiver commits."""
        raise _forbidden("commit")

    def rollback(self) -> NoReturn:
        """Refuse: raise in the handler to roll back."""
        raise _forbidden("roll back")

    def close(self) -> NoReturn:
        """Refuse: the connection is the receiver's."""
        raise _forbidden("close")

    def set_autocommit(self, *_given: object, **_options: object) -> NoReturn:
        """Refuse: the receiver begins and commits."""
        raise _forbidden("change the autocommit of")


def _held_on(connection: Any, alias: str) -> _HandlerWrapper:  # noqa: ANN401 - psycopg's, or another driver's
    """Return Django's wrapper of a handler's connection; the same one for as long as that lives."""
    held = getattr(connection, "orm", None)
    if not isinstance(held, _HandlerWrapper) or held.alias != alias:
        plain = require_psycopg(connections.create_connection(alias))
        kind: Any = type(plain)
        held = cast("_HandlerWrapper", _held_class(kind)(plain.settings_dict, alias))
        held.hold(connection)
        connection.orm = held
    return held


@lru_cache(maxsize=16)
def _held_class(kind: Any) -> type[Any]:  # noqa: ANN401 - a class of wrappers, hashed as every class is
    """Return a class of wrappers, held: a subclass of the backend's, PostGIS's for example."""
    return type(kind.__name__, (_HandlerWrapper, kind), {})


def _twin_of(connection: Any, wrapper: Any) -> Any:  # noqa: ANN401 - psycopg's connection, and Django's of it
    """Return another object on the same server session, that reads and writes values as Django does."""
    parameters = wrapper.get_connection_params()
    twin = connection.twin() if hasattr(connection, "twin") else type(connection)(connection.pgconn)
    twin._adapters = type(twin.adapters)(parameters["context"])  # noqa: SLF001 - as psycopg's connect(context=…)
    twin.cursor_factory = parameters["cursor_factory"]
    twin.prepare_threshold = None  # as `SyncHandlerConnection`; a test's connection has its own
    return twin


def _require_transaction(connection: Any) -> None:  # noqa: ANN401 - as above
    if not hasattr(connection, "pgconn"):
        raise ConfigurationError(
            "Django's ORM needs the endpoint's database to be PostgreSQL, that of DATABASES; it is another."
        )
    if not getattr(connection, "in_transaction", True):
        raise ConfigurationError(
            "In the transaction mode NONE there is no receive transaction that Django's ORM could be on: use a "
            "rowbus.Endpoint, or choose another mode."
        )


def _in_thread_of_its_own(call: Callable[[], object]) -> Callable[[], object]:
    """Return a call that leaves no connection of Django's open in the thread it is made in."""

    @wraps(call)
    def make() -> object:
        try:
            return call()
        finally:
            connections.close_all()

    return make


def _forbidden(verb: str) -> HandlerError:
    return HandlerError(
        f"A handler may not {verb} Django's connection: the transaction also holds the received message. Return to "
        "commit, raise to roll back; `with transaction.atomic():` makes a part that can be undone alone, and "
        "`transaction.on_commit` is called after the commit."
    )


class Endpoint(rowbus.Endpoint):
    """A `rowbus.Endpoint` in a database of DATABASES, whose `def` handlers use Django's ORM on the receive transaction.

    ```python
    sales = rowbus.django.Endpoint("Sales")


    @sales.handler
    def place_order(message: PlaceOrder) -> None:
        Order.objects.create(id=message.order_id)
    ```

    `transaction.atomic()` is a savepoint there, `transaction.on_commit` fires after the commit of the receive
    transaction, and connections to other databases are closed when they are old, as after a request. Commit and
    rollback raise HandlerError. `async def` handlers are refused: Django's ORM would work on another connection.
    """

    def __init__(self, name: str, *, using: str = "default", **options: Any) -> None:  # noqa: ANN401 - the base's
        """Describe the endpoint; no I/O. `using` is the alias in DATABASES, `options` are those of rowbus.Endpoint.

        Without `database` it is in the alias's database, not in ROWBUS_DATABASE's. Raises as rowbus.Endpoint.
        """
        super().__init__(name, **options)
        self.using = using
        self._handlers.dependencies.around = _WithOrm(using)

    def _resolve(self) -> str:
        return self.database or dsn_of(self.using)

    def database_of_tests(self) -> str | None:
        """Return the connection string of the alias's database if Django's test runner made it; else as the base."""
        return (
            dsn_of(self.using)
            if not self.database and is_of_tests(self.using)
            else super().database_of_tests()
        )


class _WithOrm:
    """The surroundings of a handler: Django's connection of an alias is that of the receive transaction."""

    def __init__(self, using: str) -> None:
        self._using = using

    def check(self, function: Callable[..., Any]) -> None:
        """Refuse an `async def`: its ORM calls would run in a thread of Django's, on a connection of that thread."""
        if inspect.iscoroutinefunction(function):
            raise rowbus.ConfigurationError(
                f"{function.__qualname__} is an `async def`, and Django's ORM would work on another connection there, "
                "outside of the receive transaction. Make it a `def`, which runs in a thread; an `async def` that uses "
                "no ORM belongs to a rowbus.Endpoint."
            )

    def __call__(self, context: rowbus.SyncContext) -> AbstractContextManager[None]:
        """Return the block of one call."""
        return receiving(self._using, context)
