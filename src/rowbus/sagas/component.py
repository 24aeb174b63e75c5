"""A saga as an endpoint serves it: its table, and a handler for each of its messages.

Invariant: what its handlers are is settled when it is added; which table it has, when the endpoint knows its database.
A class that fits none of the sagas that go on does not start: it would begin second ones. Rows at fault among others
stop nothing; their messages fail.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

from rowbus.endpoint.component import Handling
from rowbus.endpoint.handlers import signature_of
from rowbus.errors import ConfigurationError, SagaStateError
from rowbus.sagas.history.table import history_address, history_table
from rowbus.sagas.invocation import Invocation
from rowbus.sagas.nservicebus.table import SagaTable as SharedTable
from rowbus.sagas.nservicebus.table import shared_table, table_address
from rowbus.sagas.store import DatabaseStore
from rowbus.sagas.table import saga_address, saga_table
from rowbus.transport.queues.records.table import OwnTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rowbus.database.sessions import AsyncSession
    from rowbus.endpoint.component import Component
    from rowbus.endpoint.context import Context
    from rowbus.endpoint.dependencies import Dependencies, Need
    from rowbus.messages.addresses import Addresses
    from rowbus.sagas.definition import Definition, Rule
    from rowbus.sagas.history.table import HistoryTable
    from rowbus.sagas.invocation import Method
    from rowbus.sagas.key import Key
    from rowbus.sagas.saga import Saga
    from rowbus.sagas.store import SagaStore
    from rowbus.sagas.table import KeptSaga, SagaRow, SagaTable


MOST: Final = 20
"""How many sagas are looked at."""


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
            (self._table, "the table of the saga", self._check),
            (self._history, "the saga's history", None),
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
