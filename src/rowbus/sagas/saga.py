"""A saga as a class: its state, and methods for the messages that begin it, concern it, or remind it.

```python
class OrderSaga(rowbus.Saga[OrderState]):
    @rowbus.starts(PlaceOrder, by=lambda message: message.order_id)
    async def placed(self, message: PlaceOrder, context: rowbus.SagaContext) -> None:
        await context.request_timeout(PaymentOverdue(), after=timedelta(days=3))
```

An endpoint serves it as a `SagaComponent`: its table, and a handler for each of its messages.

Invariants: a class only describes: an endpoint that it is added to has the row, the lock and the transaction; its
handlers are settled when it is added, its table when the endpoint knows its database; a class that fits none of the
sagas that go on does not start: it would begin second ones; rows at fault among others stop nothing: their messages
fail.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_origin,
)

from rowbus.endpoint.handlers import Handling, signature_of
from rowbus.errors import ConfigurationError, SagaStateError
from rowbus.running.functions import can_be_called, check_function, is_async
from rowbus.sagas.definition import MARK, UPGRADE, Definition, Role, Rule, define
from rowbus.sagas.history.table import Keeping, history_address, history_table
from rowbus.sagas.invocation import Invocation
from rowbus.sagas.nservicebus.table import SagaTable as SharedTable
from rowbus.sagas.nservicebus.table import shared_table, table_address
from rowbus.sagas.store import DatabaseStore
from rowbus.sagas.table import saga_address, saga_table
from rowbus.transport.queues.records.table import OwnTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from rowbus.database.sessions import AsyncSession
    from rowbus.endpoint.context import Context
    from rowbus.endpoint.dependencies import Dependencies, Need
    from rowbus.endpoint.handlers import Component
    from rowbus.messages.address import Addresses
    from rowbus.sagas.definition import Layout
    from rowbus.sagas.history.table import HistoryTable
    from rowbus.sagas.invocation import Method
    from rowbus.sagas.key import Key
    from rowbus.sagas.state import Upgrade
    from rowbus.sagas.store import SagaStore
    from rowbus.sagas.table import KeptSaga, SagaRow, SagaTable


S = TypeVar("S")
M = TypeVar("M")
F = TypeVar("F", bound=Callable[..., Any])

By: TypeAlias = "Callable[[M], object] | Callable[[M, Context], Awaitable[object]] | str"
"""The source of the saga's key in a message: a function of it, one that looks it up, or the name of a header."""

MOST: Final = 20
"""Sagas that go on and are looked at, whether the class fits them."""


class Saga(Generic[S]):
    """A long-running process; subclass it with its state class: a dataclass, a msgspec struct or a pydantic model.

    `Endpoint.add(OrderSaga)` has an endpoint handle its messages. For each message the saga's row is locked, an object
    of the class is made, `state` is read from the row, the method for the message is called, and what it left in
    `state` is written: all in the receive transaction, so that a failed attempt leaves no trace.
    """

    state: S
    """The state that the saga remembers, to read and to change."""

    definition: ClassVar[Definition]

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        correlation: str | None = None,
        version: int = 1,
        history: bool = False,
        keep: timedelta | None = None,
        layout: Layout = "rowbus",
        **others: object,
    ) -> None:
        """Describe a saga. `name` is its type on the wire (a .NET FullName), by default the class's module and name.

        `correlation` names the field of the state that holds the value by which the saga is found: it is set when the
        saga begins, and must not change. `version` is that of the state's class, raised with an `upgrade`.

        `history` keeps a line for each transition, as long as the saga goes on; `keep` says how long after its
        completion what is kept of it stays: its last transition, or with `history` all of them (None: nothing stays).
        Both need a second table.

        `layout="nservicebus"` keeps the state in the table of NServiceBus.Persistence.Sql, on PostgreSQL, so that .NET
        and Python take turns with the same sagas; it takes no `version`, and timeouts are not cancelled.

        Raises ConfigurationError for a class that cannot be a saga.
        """
        super().__init_subclass__(**others)
        kind = _state_class(cls)
        if kind is not None:
            keeping = Keeping(history, keep)
            cls.definition = define(
                cls,
                kind,
                name=name,
                correlation=correlation,
                version=version,
                keeping=keeping,
                layout=layout,
            )

    @classmethod
    def component(cls) -> Component:
        """Return what an endpoint serves for this saga."""
        return SagaComponent(cls)


def _state_class(saga: type) -> type | None:
    """Return the state class a saga is declared with, None for a base that leaves it open."""
    for base in getattr(saga, "__orig_bases__", ()):
        origin = get_origin(base)
        if isinstance(origin, type) and issubclass(origin, Saga):
            kind = get_args(base)[0]
            return None if isinstance(kind, TypeVar) else kind
    for base in saga.__mro__[1:]:
        if "definition" in base.__dict__:
            return base.__dict__["definition"].form.kind  # type: ignore[no-any-return]  # only __init_subclass__ writes it
    raise ConfigurationError(
        f"{saga.__name__} does not say what its state is: class {saga.__name__}(rowbus.Saga[…])."
    )


def starts(kind: type[M], *, by: By[M]) -> Callable[[F], F]:
    """Declare a method for messages that begin a saga, or concern the one that has begun.

    `by` gives the value that finds it: a function of the message (text of up to 200 characters, an int, a UUID or an
    aware datetime), the name of a header, or an `async def by(message, context)` that looks it up, through
    `context.connection` perhaps.
    """
    return _declared(Role.START, kind, by)


def handles(kind: type[M], *, by: By[M] | None = None) -> Callable[[F], F]:
    """Declare a method for messages that concern a saga that has begun; without `by` for replies to the saga alone.

    `by` as in `starts`; an `async def` that returns None has found no saga.
    """
    return _declared(Role.HANDLE, kind, by)


def timeout(kind: type[M]) -> Callable[[F], F]:
    """Declare a method for the messages of `SagaContext.request_timeout`, when their time has come."""
    return _declared(Role.TIMEOUT, kind, None)


def not_found(function: F) -> F:
    """Declare a method for messages that find no saga: `async def missing(self, message, context)`, without a state.

    Without one they are consumed with a line in the log. Timeouts never come here.
    """
    setattr(function, MARK, (*getattr(function, MARK, ()), Rule(Role.NOT_FOUND, object, None, function)))
    return function


def upgrade(start: int, end: int) -> Callable[[Upgrade], staticmethod[[dict[str, Any]], dict[str, Any]]]:
    """Declare what turns a state of one version into that of a later one, when its row is read.

    A version that only adds fields with defaults needs none: its rows begin with the next upgrade. An upgrade over
    several versions, (1, 3), needs one from the last of those between, (2, 3), whose rows had no way else.

    The function, without `self`, takes decoded JSON (numbers with a point are Decimals) and returns what it becomes.
    """

    def declare(function: Upgrade) -> staticmethod[[dict[str, Any]], dict[str, Any]]:
        check_function(function, f"The upgrade from {start} to {end}", "state")
        setattr(function, UPGRADE, (start, end))
        return staticmethod(function)

    return declare


def _declared(role: Role, kind: type[Any], by: Callable[..., object] | str | None) -> Callable[[F], F]:
    is_finder = (
        is_async(by) and can_be_called(cast("Callable[..., Any]", by), "message", "context") is not False
    )
    if by is not None and not isinstance(by, str) and not is_finder:
        check_function(by, "by, which gives the value that a saga is found by,", "message")

    def declare(function: F) -> F:
        rule = Rule(role, kind, by, function, is_finder=is_finder)
        setattr(function, MARK, (*getattr(function, MARK, ()), rule))
        return function

    return declare


async def check_found_by(session: AsyncSession, table: SagaTable, definition: Definition) -> None:
    """Raise ConfigurationError if the sagas that go on are found by another value than this class says."""
    if isinstance(table, SharedTable):
        _check_column(table, definition, await session.run(table.lacking_column()))
    elif definition.key is not None:
        _check_rows(table, definition, definition.key, await session.run(table.page(MOST)))


def _check_column(table: SagaTable, definition: Definition, found: str | None) -> None:
    if found is not None:
        raise ConfigurationError(
            f"{definition.full_name} is found by {definition.key}, and {table.address} has no column for that: it has "
            f"{found or 'none'}. Give correlation= the field of before, or change the table over with .NET."
        )


def _check_rows(table: SagaTable, definition: Definition, key: Key, sagas: list[KeptSaga]) -> None:
    """Refuse rows none of which fits; those that cannot be read, as of a newer version, say nothing."""
    held = [(kept.row, _is_held(definition, key, kept.row)) for kept in sagas]
    strange = [row for row, is_held in held if is_held is False]
    if strange and not any(is_held for _, is_held in held):
        raise ConfigurationError(
            f"{definition.full_name} is found by {key}, and the sagas that go on in {table.address} are found by "
            f"another value, as that of {strange[0].correlation!r}: messages would begin second ones. Give "
            "correlation= the field of before; or, for one that was renamed, declare a rowbus.upgrade that takes the "
            "value along."
        )


def _is_held(definition: Definition, key: Key, row: SagaRow) -> bool | None:
    """Say whether a row's state has the value by which it is found; None: it cannot be read."""
    with suppress(SagaStateError):
        return key.is_held(definition.form.read(row.state, row.version), row.correlation)
    return None


class SagaComponent:
    """One saga class in one endpoint."""

    def __init__(self, saga: type[Saga[Any]], store: Callable[[Context], SagaStore] | None = None) -> None:
        """Serve this class, with its rows in a table, or where `store` has them.

        Raises ConfigurationError for a class that does not say what its state is.
        """
        if not hasattr(saga, "definition"):
            raise ConfigurationError(
                f"{saga.__name__} does not say what its state is: subclass rowbus.Saga[…]."
            )
        self._saga = saga
        self._table: SagaTable | None = None
        self._history: HistoryTable | None = None
        self._provided: Dependencies | None = None
        self._needs: dict[Callable[..., Any], tuple[Need, ...]] = {}
        self._store = store or self._database_store
        self.names: set[str] = {saga.definition.full_name}
        """The types of the endpoint's sagas, this one among them."""

    @property
    def handlings(self) -> Sequence[Handling]:
        """The handlers of the saga's messages, one for each type."""
        definition = self._saga.definition
        return [
            Handling(
                kind,
                Invocation(self._saga, rules, self._store, self.names, self._bound),
                rules.name,
                definition.full_name,
                rules.found_by,
                is_timeout=rules.message is None,
                methods=tuple(rule.method for rule in rules if rule is not None),
            )
            for kind, rules in definition.rules.items()
        ]

    def bind(
        self, endpoint: str, addresses: Addresses, beside: Sequence[Component], provided: Dependencies
    ) -> None:
        """Learn where the endpoint has its tables, which sagas it has beside this one, and what it provides."""
        self._provided = provided
        self._needs = dict(self._needed(provided))
        self._table = self._table_of(endpoint, addresses)
        self._table.address.validate()
        if self._saga.definition.keeping.needs_table:
            self._history = history_table(
                history_address(endpoint, self._saga.definition.short_name, addresses)
            )
            self._history.address.validate()
        self.names.update(*(other.names for other in beside if isinstance(other, SagaComponent)))

    def _needed(self, provided: Dependencies) -> Iterator[tuple[Callable[..., Any], tuple[Need, ...]]]:
        """Give what methods need; raises ConfigurationError for what is not provided."""
        definition = self._saga.definition
        rules = [rule for each in definition.rules.values() for rule in each if rule is not None]
        for rule in (*rules, *filter(None, [definition.not_found])):
            if rule.is_given_more:
                _, needs = signature_of(MethodType(rule.method, self._saga), provided)
                for need in needs:
                    if not need.is_context:
                        provided.require(rule.method, need)
                yield rule.method, needs

    def _bound(self, rule: Rule, saga: Saga[Any]) -> Method:
        """Return a method of a saga as it is called: with what it needs, with the context, or without."""
        method: Method = MethodType(rule.method, saga)
        if rule.is_given_more and self._provided is not None:
            return self._provided.bind(method, self._needs[rule.method])
        return method if rule.takes_context else lambda message, _context: rule.method(saga, message)

    def _table_of(self, endpoint: str, addresses: Addresses) -> SagaTable:
        name, shared = self._saga.definition.short_name, self._saga.definition.shared
        if shared is None:
            return saga_table(saga_address(endpoint, name, addresses))
        return shared_table(table_address(endpoint, name, addresses), name, shared)

    @property
    def tables(self) -> Sequence[OwnTable]:
        """The tables it needs."""
        tables = (
            (self._table, f"the table of the saga {self._saga.definition.full_name}", self._check),
            (self._history, f"the history of the saga {self._saga.definition.full_name}", None),
        )
        return [
            OwnTable(table, called, is_viewed=True, check=check)
            for table, called, check in tables
            if table is not None
        ]

    async def _check(self, session: AsyncSession) -> None:
        """Raise ConfigurationError for a table whose sagas are found by another value."""
        if self._table is not None:
            await check_found_by(session, self._table, self._saga.definition)

    def _database_store(self, context: Context) -> SagaStore:
        if self._table is None:
            raise ConfigurationError(f"{self._saga.__name__} was not added to an endpoint.")
        delivery, sender = context._delivery, context._sender  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - its attempt
        keep = partial(self._saga.definition.keeping.statements, self._history) if self._history else None
        delayed = (
            sender.delayed_table if self._saga.definition.shared is None else None
        )  # no place for their notes
        return DatabaseStore(self._table, delivery, delayed, keep)
