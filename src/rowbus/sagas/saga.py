"""A saga as a class: its state, and methods for the messages that begin it, concern it, or remind it.

```python
class OrderSaga(rowbus.Saga[OrderState]):
    @rowbus.starts(PlaceOrder, by=lambda message: message.order_id)
    async def placed(self, message: PlaceOrder, context: rowbus.SagaContext) -> None:
        await context.request_timeout(PaymentOverdue(), after=timedelta(days=3))
```

Invariant: a class only describes; an endpoint that it is added to has the row, the lock and the transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar, cast, get_args, get_origin

from rowbus.errors import ConfigurationError
from rowbus.running.functions import can_be_called, check_function, is_async
from rowbus.sagas.definition import MARK, UPGRADE, Definition, Role, Rule, define
from rowbus.sagas.history.table import Keeping

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.endpoint.component import Component
    from rowbus.endpoint.context import Context
    from rowbus.sagas.definition import Layout
    from rowbus.sagas.upgrades import Upgrade

S = TypeVar("S")
M = TypeVar("M")
F = TypeVar("F", bound=Callable[..., Any])

By: TypeAlias = "Callable[[M], object] | Callable[[M, Context], Awaitable[object]] | str"
"""How a message says which saga it is for: a function of it, one that looks it up, or the name of a header."""


class Saga(Generic[S]):
    """A long-running process; subclass it with its state class: a dataclass, a msgspec struct or a pydantic model.

    `Endpoint.add(OrderSaga)` has an endpoint handle its messages. For each message the saga's row is locked, an object
    of the class is made, `state` is read from the row, the method for the message is called, and what it left in
    `state` is written: all in the receive transaction, so that a failed attempt leaves no trace.
    """

    state: S
    """What the saga remembers, to read and to change."""

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
        from rowbus.sagas.component import SagaComponent  # noqa: PLC0415 - which knows this class

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
