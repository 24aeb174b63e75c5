"""Components: parts of an endpoint that bring handlers and tables with them, such as sagas.

Invariant: an endpoint knows nothing of what its components are for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rowbus.endpoint.context import Context
    from rowbus.endpoint.dependencies import Dependencies
    from rowbus.messages.addresses import Addresses
    from rowbus.transport.queues.records.table import OwnTable


class Handling(NamedTuple):
    """A handler that a component brings: for which message class, what is called, and what failures call it.

    A contract tells of the rest: the `part` of the component, the field by which a message finds its row there, whether
    the message is a timeout, and the `methods` of the user's that the function calls.
    """

    kind: type
    function: Callable[[object, Context], Awaitable[None]]
    name: str
    part: str = ""
    found_by: str = ""
    is_timeout: bool = False
    methods: tuple[Callable[..., Any], ...] = ()


class Component(Protocol):
    """Handlers and the tables that they need, in one endpoint."""

    @property
    def handlings(self) -> Sequence[Handling]:
        """Its handlers."""
        raise NotImplementedError

    def bind(
        self, endpoint: str, addresses: Addresses, beside: Sequence[Component], provided: Dependencies
    ) -> None:
        """Learn the endpoint's name, where its tables are, which components it has beside this one, what it provides.

        Raises ConfigurationError for what its handlers need and is not provided.
        """
        raise NotImplementedError

    @property
    def tables(self) -> Sequence[OwnTable]:
        """The tables it needs, once it is bound."""
        raise NotImplementedError


class Addition(Protocol):
    """What can be added to endpoints: a class of a saga."""

    def component(self) -> Component:
        """Return a component for one endpoint."""
        raise NotImplementedError
