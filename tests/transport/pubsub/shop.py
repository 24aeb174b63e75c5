"""The events of these tests, and endpoints that write down what they get."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import rowbus
from tests.conformance.endpoints import PlaceOrder
from tests.conformance.transport import SimulatedError

if TYPE_CHECKING:
    from typing import Any

ORDER_EVENT = "Shop.Messages.IOrderEvent"
ORDER_PLACED = "Shop.Messages.OrderPlaced"


@rowbus.event(ORDER_EVENT)
@dataclass
class OrderEvent:
    order_id: str


@rowbus.event(ORDER_PLACED, parents=(ORDER_EVENT,))
@dataclass
class OrderPlaced:
    order_id: str


@rowbus.event("Shop.Messages.OrderCancelled", parents=(ORDER_EVENT,))
@dataclass
class OrderCancelled:
    order_id: str


class Got(NamedTuple):
    """Arguments that a handler was given, and where."""

    endpoint: str
    kind: str
    order_id: str
    message_id: str
    headers: dict[str, str | None]


class Notes:
    """Messages handled, in order; `take` adds handlers to an endpoint that write here."""

    def __init__(self) -> None:
        self.all: list[Got] = []
        self._new: asyncio.Queue[Got] = asyncio.Queue()

    async def next(self, count: int = 1) -> list[Got]:
        """Wait until so many more have been handled, and return them by endpoint and type."""
        async with asyncio.timeout(30):
            return sorted([await self._new.get() for _ in range(count)])

    def take(self, endpoint: rowbus.Endpoint, *kinds: type[Any], subscribe: bool | None = None) -> None:
        for kind in kinds:
            self._take(endpoint, kind, subscribe=subscribe)

    def _take(self, endpoint: rowbus.Endpoint, kind: type[Any], *, subscribe: bool | None) -> None:
        async def handle(message: Any, context: rowbus.Context) -> None:  # noqa: ANN401 - any event of these tests
            got = Got(endpoint.name, kind.__name__, message.order_id, context.message_id, context.headers)
            self.all.append(got)
            await self._new.put(got)

        handle.__annotations__["message"] = kind
        endpoint.handler(subscribe=subscribe)(handle)


def publishing(endpoint: rowbus.Endpoint, *events: type[Any], fail: bool = False) -> None:
    """Have an endpoint publish, for an order, one of each of these events, and then fail if told to."""

    @endpoint.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        for event in events:
            await context.publish(event(message.order_id))
        if fail:
            raise SimulatedError
