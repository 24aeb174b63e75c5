"""Publish and subscribe, end to end: who gets a copy of what."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import rowbus
from rowbus.model.headers import Header
from tests.conformance.endpoints import PlaceOrder
from tests.conformance.transport import in_all_modes, within

if TYPE_CHECKING:
    from tests.conformance.endpoints import Endpoints


@rowbus.event("Shop.Messages.OrderPlaced", parents=("Shop.Messages.IOrderEvent",))
@dataclass
class OrderPlaced:
    order_id: str


@in_all_modes
async def test_a_handlers_event_reaches_all_who_handle_it(endpoints: Endpoints) -> None:
    received: asyncio.Queue[tuple[str, OrderPlaced, str, dict[str, str | None]]] = asyncio.Queue()

    def subscriber(name: str) -> rowbus.Endpoint:
        endpoint = endpoints.make(name)

        @endpoint.handler
        async def take(message: OrderPlaced, context: rowbus.Context) -> None:
            await received.put((name, message, context.message_id, context.headers))

        return endpoint

    sales = endpoints.make("Sales")

    @sales.handler
    async def place_order(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.publish(OrderPlaced(message.order_id))

    async with subscriber("Billing"), subscriber("Shipping"), sales:
        await sales.send("Sales", PlaceOrder("42"))
        got = sorted([await within(received.get()) for _ in range(2)])

    assert [name for name, *_ in got] == ["Billing", "Shipping"]
    assert {message.order_id for _, message, *_ in got} == {"42"}
    assert len({message_id for *_, message_id, _ in got}) == 1
    headers = got[0][3]
    assert headers[Header.MESSAGE_INTENT] == "Publish"
    assert headers[Header.ENCLOSED_MESSAGE_TYPES] == "Shop.Messages.OrderPlaced;Shop.Messages.IOrderEvent"
    assert headers[Header.ORIGINATING_ENDPOINT] == "Sales"
