"""An endpoint whose handlers use Django's ORM on the receive transaction.

Invariant: a handler runs with the receive transaction as Django's connection, or is refused when it is registered.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import rowbus
from rowbus.django.databases import dsn_of
from rowbus.django.receiving import receiving

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


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


class _WithOrm:
    """What a handler runs in: Django's connection of an alias is that of the receive transaction."""

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
