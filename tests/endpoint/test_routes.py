"""Where messages go: by their routes, to the endpoint itself, as replies to a chosen address, in which conversation."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import rowbus
from rowbus.endpoint.sender import Routes
from rowbus.errors import ConfigurationError, InvalidAddressError, InvalidHeaderError
from rowbus.messages.headers import Header
from tests.conformance import endpoints as shop
from tests.conformance.endpoints import Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.transport import in_default_mode, within

if TYPE_CHECKING:
    from collections.abc import Callable

OTHER = "Billing"


@rowbus.command("Shop.Messages.ChargeCard")
@dataclass
class ChargeCard:
    order_id: str


@rowbus.event("Shop.Messages.OrderShipped")
@dataclass
class OrderShipped:
    order_id: str


@dataclass
class Taken:
    """Messages that came to an endpoint."""

    message: object
    headers: dict[str, str | None]


def taking(endpoints: Endpoints, name: str, *kinds: type) -> tuple[rowbus.Endpoint, asyncio.Queue[Taken]]:
    """Return an endpoint, and what it takes of some kinds."""
    taken: asyncio.Queue[Taken] = asyncio.Queue()
    endpoint = endpoints.make(name)
    for kind in kinds:

        async def take(message: object, context: rowbus.Context) -> None:
            await taken.put(Taken(message, context.headers))

        take.__annotations__["message"] = kind
        endpoint.handler(take)
    return endpoint, taken


def handling(sales: rowbus.Endpoint, act: Callable[[rowbus.Context], Any]) -> None:
    async def place_order(order: PlaceOrder, context: rowbus.Context) -> None:
        await act(context)

    place_order.__annotations__.update(order=PlaceOrder, context=rowbus.Context)
    sales.handler(place_order)


@in_default_mode
@pytest.mark.one_version
async def test_a_message_without_a_destination_goes_where_its_route_says(endpoints: Endpoints) -> None:
    billing, taken = taking(endpoints, OTHER, ChargeCard, PlaceOrder)
    sales = endpoints.make("Sales")
    sales.route(ChargeCard, "Shop.Messages.Refund", to=OTHER)
    async with billing, sales:
        await sales.send(ChargeCard("1"))
        assert (await within(taken.get())).message == ChargeCard("1")
        await sales.send("Billing", PlaceOrder("2"))  # with a destination nothing has changed
        assert (await within(taken.get())).message == PlaceOrder("2")


@in_default_mode
@pytest.mark.one_version
async def test_handlers_of_both_kinds_send_by_route(endpoints: Endpoints) -> None:
    billing, taken = taking(endpoints, OTHER, ChargeCard)
    sales = endpoints.make("Sales")
    sales.route_module(__name__, to=OTHER)

    @sales.handler
    async def place_order(order: PlaceOrder, context: rowbus.Context) -> None:
        await context.send(ChargeCard(order.order_id))

    @sales.handler
    def place_order_in_a_thread(order: PlaceOrder, context: rowbus.SyncContext) -> None:
        context.send(ChargeCard(f"{order.order_id} again"))

    async with billing, sales:
        await sales.send_local(PlaceOrder("42"))
        both = {(await within(taken.get())).message.order_id for _ in range(2)}  # type: ignore[attr-defined]  # one type
    assert both == {"42", "42 again"}


@in_default_mode
@pytest.mark.one_version
async def test_send_local_goes_to_the_queue_that_the_instances_share(endpoints: Endpoints) -> None:
    sales, taken = taking(endpoints, "Sales", OrderAccepted)
    handling(sales, lambda context: context.send_local(OrderAccepted("42")))
    async with sales:
        await sales.send_local(PlaceOrder("42"))
        assert (await within(taken.get())).message == OrderAccepted("42")


@in_default_mode
@pytest.mark.one_version
async def test_a_reply_to_a_chosen_address_answers_the_message_chosen(endpoints: Endpoints) -> None:
    billing, taken = taking(endpoints, OTHER, OrderAccepted)
    sales = endpoints.make("Sales")
    handling(
        sales,
        lambda context: context.reply(OrderAccepted("42"), to=OTHER, correlation_id="the first request"),
    )
    async with billing, sales:
        saga = {
            Header.ORIGINATING_SAGA_ID: "the saga of the one in hand",
            Header.ORIGINATING_SAGA_TYPE: "Saga",
        }
        await sales.send_local(PlaceOrder("42"), headers=saga)
        reply = await within(taken.get())
    assert reply.headers[Header.MESSAGE_INTENT] == "Reply"
    assert reply.headers[Header.CORRELATION_ID] == "the first request"
    assert Header.SAGA_ID not in reply.headers


@in_default_mode
@pytest.mark.one_version
async def test_a_new_conversation_has_the_id_given(endpoints: Endpoints) -> None:
    billing, taken = taking(endpoints, OTHER, ChargeCard)
    sales = endpoints.make("Sales")
    handling(sales, lambda context: context.send(OTHER, ChargeCard("42"), new_conversation="order 42"))
    async with billing, sales:
        await sales.send_local(PlaceOrder("42"), new_conversation="the batch")
        headers = (await within(taken.get())).headers
    assert headers[Header.CONVERSATION_ID] == "order 42"
    assert headers[Header.PREVIOUS_CONVERSATION_ID] == "the batch"


@in_default_mode
@pytest.mark.one_version
async def test_a_message_without_a_route_is_refused_and_so_is_an_empty_id(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales")
    async with sales:
        with pytest.raises(ConfigurationError, match=r"Shop\.Messages\.ChargeCard has no route"):
            await sales.send(ChargeCard("42"))
        with pytest.raises(ConfigurationError, match="names a destination and no message"):
            await sales.send("Sales")
        with pytest.raises(InvalidHeaderError, match="must not be empty"):
            await sales.send("Sales", PlaceOrder("42"), new_conversation="")


def test_a_messages_own_route_wins_then_the_innermost_module() -> None:
    routes = Routes()
    routes.add_module("tests", "All")
    routes.add_module(shop.__name__, "Conformance")
    assert routes.find(ChargeCard("1"), None) == "All"
    assert routes.find(PlaceOrder("1"), None) == "Conformance"
    routes.add(PlaceOrder, "Own")
    assert routes.find(PlaceOrder("1"), None) == "Own"
    routes.add("Shop.Import", "Imports")
    assert routes.find({}, "Shop.Import") == "Imports"


def test_routes_that_cannot_be_are_refused() -> None:
    sales = rowbus.Endpoint("Sales", database="postgresql://nowhere")
    sales.route(ChargeCard, to=OTHER)
    sales.route(ChargeCard, to=OTHER)
    with pytest.raises(ConfigurationError, match="is routed to Billing"):
        sales.route(ChargeCard, to="Sales")
    with pytest.raises(ConfigurationError, match="is an event"):
        sales.route(OrderShipped, to=OTHER)
    with pytest.raises(InvalidAddressError):
        sales.route_module(sys.modules[__name__], to="a.b")
